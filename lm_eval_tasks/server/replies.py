"""What a response is: a chat completion that is whole or not, or an error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from lm_eval_tasks.server.failures import FILTER_WORDS, as_text, error_in, failure, inner_error
from lm_eval_tasks.server.keys import without_keys
from lm_eval_tasks.server.outcome import FILTERED, Kind, Outcome

LARGEST_REPLY = 8 << 20
"""Bytes; a longer body is not parsed, since no chat completion of a benchmark comes near it."""

_WHOLE = (
    *("stop", "end_turn", "eos", "eos_token", "end", "end_of_turn", "end_of_text", "endoftext", "stop_sequence"),
    *("stop_string", "stop_token", "stop_word", "stop_words", "stopped", "complete", "completed", "done", "finish"),
    *("finished", "natural", "normal", "success"),
)
_CUT = (
    *("length", "max_length", "model_length", "token_limit", "token_limit_reached", "length_limit", "output_limit"),
    *("context_length", "context_length_exceeded", "model_context_window_exceeded", "incomplete", "truncated", "limit"),
)  # and whatever names a greatest number of tokens


def read(status: int, headers: Mapping[str, str], body: bytes, max_tokens: int | None = None) -> Outcome:
    """What a response means.

    Args:
        status: the HTTP status.
        headers: of the response; only those that ask to wait are looked at.
        body: as it came.
        max_tokens: the room that was asked for, by which a reply without a reason is known to be cut.
    """
    data = _parsed(body)
    if 200 <= status < 300:
        return _completion(data, body, headers, max_tokens)
    error = error_in(data)
    return failure(status, error if error is not None else {"message": as_text(body)}, headers)


def _parsed(body: bytes) -> Any:
    if len(body) > LARGEST_REPLY:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _completion(data: Any, body: bytes, headers: Mapping[str, str], max_tokens: int | None) -> Outcome:
    """What a 2xx is: a chat completion, an error in its clothes, or neither."""
    answer = data if isinstance(data, dict) else {}
    choices = answer.get("choices")
    choices = [one for one in choices if isinstance(one, dict)] if isinstance(choices, list) else []
    choice = next((one for one in choices if one.get("index") == 0), choices[0] if choices else {})
    message = choice.get("message")
    places = [choice, *([message] if isinstance(message, dict) else []), answer]
    error = error_in(data) or next(filter(None, (error_in({"choices": [0], **_errors(one)}) for one in places)), None)
    if error is not None:
        return inner_error(error, headers)
    about = _about(answer)
    finishes = [one.get(name) for one in places for name in ("finish_reason", "finishReason")]
    spelled = next((one for one in finishes if one not in (None, "")), None)
    kind = _ending(spelled, _said_beside(places))
    if message is None and kind in (Kind.CUT, Kind.REFUSED):
        message = {}  # some servers send none where nothing was written
    if not isinstance(message, dict):
        what = "no choice in the reply" if "choices" in answer else "malformed reply: no chat completion"
        remedy = "" if "choices" in answer else "set {address}"
        return Outcome(Kind.BROKEN, reason=what, words=as_text(body), remedy=remedy, status=200, **about)
    text, thought = _text_of(message)
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal and not text.strip():
        text = refusal
    if kind is Kind.REPLY and not spelled and str(answer.get("object")).endswith("chunk"):
        kind = Kind.BROKEN  # a piece of a stream
    written = about["completion_tokens"]
    if kind is Kind.REPLY and max_tokens and (written == max_tokens or (not spelled and written > max_tokens)):
        kind = Kind.CUT  # some servers say "stop" whatever happened; one that wrote more knows no limit
    finish = without_keys(str(spelled or ""))[:80]
    about |= {
        "status": 200,
        "only_thought": thought and not text.strip(),
        "refusal": bool(refusal),
    }
    if (
        kind is Kind.REPLY
        and not text.strip()
        and any(message.get(f) for f in ("tool_calls", "function_call", "audio"))
    ):
        kind = Kind.BROKEN
    if kind is Kind.REPLY and not (text.strip() or thought or refusal) and _is_no_silence(message, spelled):
        return Outcome(Kind.BROKEN, reason="malformed reply: no text", words=as_text(body), **about)
    if kind is Kind.REFUSED:
        return Outcome(kind, reason=FILTERED, words=f"finish_reason {finish}", code="content_filter", **about)
    reason = {Kind.CUT: "cut short", Kind.BROKEN: f"broken off (finish_reason {finish or 'none'})"}
    return Outcome(kind, text=text, reason=reason.get(kind, ""), **about)


def _ending(spelled: Any, beside: list[str]) -> Kind:
    """What a finish reason means, however it is spelled; of what is said beside it only the worse counts."""
    kind = _one_ending(spelled)
    for other in beside if kind is Kind.REPLY else ():
        told = _one_ending(other)
        if told in (Kind.CUT, Kind.REFUSED) or (told is Kind.BROKEN and _FAULT.search(other.lower())):
            return told
    return kind


_FAULT = re.compile("error|fail|fault|abort|cancel|malformed|time.?out|timed|interrupt|disconnect|progress|pending")


def _errors(place: dict[str, Any]) -> dict[str, Any]:
    return {name: place.get(name) for name in ("error", "errors")}


def _said_beside(places: list[dict[str, Any]]) -> list[str]:
    """Other ends of the same reply: what a gateway hands on, and what servers of other dialects say."""
    said: list[Any] = []
    for place in [*places, *(place.get("provider_specific_fields") for place in places)]:
        if not isinstance(place, dict):
            continue
        said += [place.get(name) for name in _ENDS]
        for details in (place.get("finish_details"), place.get("incomplete_details")):
            said += [details.get("type"), details.get("reason")] if isinstance(details, dict) else []
        if any(place.get(name) is True for name in ("truncated", "stopped_limit")):
            said.append("truncated")
    return [one for one in said if isinstance(one, str) and one]


_ENDS = ("native_finish_reason", "finish_reason", "stop_reason", "done_reason", "stop_type", "status")


def _one_ending(spelled: Any) -> Kind:
    if spelled is None or spelled == "":
        return Kind.REPLY
    if not isinstance(spelled, str):
        return Kind.BROKEN
    name = re.sub(r"[\s-]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", spelled.strip())).lower()
    name = re.sub(r"^.*\.", "", name).removeprefix("finish_reason_").removeprefix("finish_").strip("_") or name
    if name in _WHOLE:
        return Kind.REPLY
    if name in _CUT or ("max" in name and "token" in name):
        return Kind.CUT
    return Kind.REFUSED if FILTER_WORDS.search(name) else Kind.BROKEN


_THOUGHTS = ("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks")


def _text_of(message: dict[str, Any]) -> tuple[str, bool]:
    """The text of a message, thinking left out, and whether there was any thinking beside it."""
    content, thought = message.get("content"), False
    texts = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            kind, text = str(part.get("type", "text")), part.get("text", part.get("content"))
            thinks = part.get("thought") is True or re.search("think|reason|thought|summary", kind)
            thought |= bool(thinks)
            if isinstance(text, str) and not thinks and "text" in kind:
                texts.append(text)
    thought |= any(message.get(field) for field in _THOUGHTS)
    return "".join(texts), thought


def _is_no_silence(message: dict[str, Any], spelled: Any) -> bool:
    """Whether an empty message is something else than a model that said nothing and whose server says so."""
    content = message.get("content")
    if content is None:
        return "content" not in message or not spelled
    if isinstance(content, list):
        texts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return not all(isinstance(text, str) for text in texts)
    return not isinstance(content, str)


def _about(answer: dict[str, Any]) -> dict[str, Any]:
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    names = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
    counts = [next((usage[name] for name in both if usage.get(name)), 0) for both in names]
    prompt, completion = (
        int(c) if isinstance(c, (int, float)) and not isinstance(c, bool) and 0 <= c < 1 << 53 else 0 for c in counts
    )
    model = answer.get("model")
    return {
        "model": without_keys(model)[:300] if isinstance(model, str) else "",
        "prompt_tokens": prompt,
        "completion_tokens": completion,
    }
