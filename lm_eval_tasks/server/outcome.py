"""What a server's response means: the one table of outcomes, from status, body and finish reason.

Every call, to the model or to the judge, ends in exactly one of these kinds:

=========  ===========================================================  =============================================
kind       what it is                                                   what follows
=========  ===========================================================  =============================================
REPLY      whole: it ended by itself, or nobody says how                its text is used
CUT        the room for the reply was used up, however that is spelled  judge: more room, again; model: kept, flagged
BROKEN     the server broke off, or sent something else                 again with back-off; never used or cached
REFUSED    this request is not taken                                    concerns this doc only
BUSY       429 or 503, as a status or inside a 200                      wait, ask for less at a time
LOST       no connection, no answer in time, 5xx                        again; for too long: the server has gone
HOPELESS   no request will be taken: key, credit, redirect              stop, keep all, say what to set
=========  ===========================================================  =============================================

A fault is told by its status, its code and its shape. Words decide only between outcomes that are equally safe, and
what nobody knows is BROKEN or REFUSED: neither is ever taken for a reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any

from lm_eval_tasks.server.keys import without_keys

LARGEST_REPLY = 8 << 20
"""Bytes; a longer body is not parsed, since no chat completion of a benchmark comes near it."""

QUOTED = 600
"""Characters of a server's words that are kept."""

FILTERED = "content filter"
TOO_LONG = "context too long"


class Kind(Enum):
    """How a call ended; see the module."""

    REPLY = "reply"
    CUT = "cut"
    BROKEN = "broken"
    REFUSED = "refused"
    BUSY = "busy"
    LOST = "lost"
    HOPELESS = "hopeless"


@dataclass(frozen=True)
class Outcome:
    """How a call ended.

    Attributes:
        kind: see the module.
        text: the reply's text; "" where there is none.
        reason: a few words that can be counted, for every kind but REPLY.
        words: what the server said, without keys.
        remedy: what the user can set, or "".
        status: the HTTP status, or the code of an error inside a 200; 0 where nothing came back.
        code: the server's own code of an error, in lower case.
        finish: the reason for which the server stopped writing, as it spelled it.
        only_thought: whether the text is empty because all of it came as reasoning.
        refusal: whether the reply is the model's own refusal.
        model: the model's name as the server gave it.
        prompt_tokens, completion_tokens: the server's counts; 0 where it has none.
        wait: seconds that the server asks to wait, or None.
    """

    kind: Kind
    text: str = ""
    reason: str = ""
    words: str = ""
    remedy: str = ""
    status: int = 0
    code: str = ""
    finish: str = ""
    only_thought: bool = False
    refusal: bool = False
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    wait: float | None = None

    @property
    def answered(self) -> bool:
        """Whether the server did its work, so that it is there and takes such requests."""
        return self.kind in (Kind.REPLY, Kind.CUT)

    def explained(self) -> str:
        """Reason, remedy and the server's words in one line."""
        said = f" The server said: {self.words}" if self.words else ""
        return f"{self.reason}{f' ({self.remedy})' if self.remedy else ''}.{said}"


_WHOLE = (
    *("stop", "end_turn", "eos", "eos_token", "end", "end_of_turn", "end_of_text", "endoftext", "stop_sequence"),
    *("stop_string", "stop_token", "stop_word", "stop_words", "stopped", "complete", "completed", "done", "finish"),
    *("finished", "natural", "normal", "success"),
)
_CUT = (
    *("length", "max_length", "model_length", "token_limit", "token_limit_reached", "length_limit", "output_limit"),
    *("context_length", "context_length_exceeded", "model_context_window_exceeded", "incomplete", "truncated"),
)  # and whatever names a greatest number of tokens
_FILTER_WORDS = re.compile(
    r"filter|safety|moderat|inspection|prohibited|blocklist|blocked|sensitive|recitation|spii|guardrail|refusal|"
    r"content.policy|content.management|flagged|responsibleai"
)

_NO_CREDIT = re.compile(
    r"insufficient_?(quota|balance|funds?|credits?)|budget_?exceeded|exceeded_?budget|arrear|payment_?required|"
    r"billing|overdue|out_?of_?credits?|quota_?exhausted|credit_?limit|account_?deactivated|no_?credits?"
)
"""In an error's code or type."""
_NO_CREDIT_WORDS = re.compile(
    r"(balance|credits?|funds?|budget|quota|account|billing|payment)\b.{0,40}?\b(insufficient|not enough|too low|"
    r"exceeded|exhausted|overdue|arrears|used up|run out|required|hard limit|depleted)"
    r"|\b(insufficient|not enough|no|out of|exceeded?|overdue|exhausted)\b.{0,30}?\b(balance|credits?|funds|budget|"
    r"quota|payment)|in arrears|余额不足|欠费",
    re.I,
)
"""In what a 400 or 403 says."""
_CONTEXT = re.compile(
    r"context.?(length|size|window)|maximum (context|model length)|too many (input )?tokens|"
    r"(prompt|input|request) is too (long|large)|token count.{0,30}exceeds|(input|prompt) (length|tokens).{0,40}exceed",
    re.I,
)
_ROOM_FIELD = re.compile(r"max_(completion_|output_|new_)?tokens|output limit|token limit|max.?tokens", re.I)
_ROOM_USED = re.compile(
    r"(reached|used up|exhausted|ran out|not enough|too (small|low|few)|insufficient).{0,60}?|"
    r"\b(higher|increase|larger|raise|more)\b|(could|did|can) ?not (finish|complete)|unfinished|incomplete",
    re.I,
)

_REMEDY = {
    401: "set a valid {key}",
    402: "the account has no credit left; add credit and run the same command again",
    403: "set a valid {key}, or ask for access to this model",
    404: "set {address} and {model} to a model of that server",
    405: "set {address}",
    410: "set {model} to a model that is still served",
    3: "the server redirects elsewhere; set {address} to the address that answers itself",
}
_PASSING = (408, 409, 425)


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
    error = _error_in(data)
    return _failure(status, error if error is not None else {"message": _as_text(body)}, headers)


def lost(reason: str, remedy: str = "") -> Outcome:
    """Nothing came back."""
    return Outcome(Kind.LOST, reason=reason, remedy=remedy)


def _completion(data: Any, body: bytes, headers: Mapping[str, str], max_tokens: int | None) -> Outcome:
    """What a 2xx is: a chat completion, an error in its clothes, or neither."""
    answer = data if isinstance(data, dict) else {}
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    error = _error_in(answer) or _error_in({"choices": [], "error": choice.get("error")})
    if error is not None:
        return _inner_error(error, headers)
    about = _about(answer)
    message = choice.get("message")
    if not isinstance(message, dict):
        what = "no choice in the reply" if "choices" in answer else "malformed reply: no chat completion"
        remedy = "" if "choices" in answer else "set {address}"
        return Outcome(Kind.BROKEN, reason=what, words=_as_text(body), remedy=remedy, status=200, **about)
    text, thought = _text_of(message)
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal and not text.strip():
        text = refusal
    spelled = choice.get("finish_reason")
    kind = _ending(spelled, choice.get("native_finish_reason"))
    if kind is Kind.REPLY and spelled is None and max_tokens and about["completion_tokens"] >= max_tokens:
        kind = Kind.CUT
    about |= {
        "finish": without_keys(str(spelled or ""))[:80],
        "status": 200,
        "only_thought": thought and not text.strip(),
        "refusal": bool(refusal),
    }
    if kind is Kind.REPLY and not text.strip() and message.get("tool_calls"):
        kind = Kind.BROKEN
    if kind is Kind.REPLY and not (text.strip() or thought or refusal) and _is_no_silence(message, spelled):
        return Outcome(Kind.BROKEN, reason="malformed reply: no text", words=_as_text(body), **about)
    if kind is Kind.REFUSED:
        return Outcome(kind, reason=FILTERED, words=f"finish_reason {about['finish']}", code="content_filter", **about)
    reason = {Kind.CUT: "cut short", Kind.BROKEN: f"broken off (finish_reason {about['finish'] or 'none'})"}
    return Outcome(kind, text=text, reason=reason.get(kind, ""), **about)


def _ending(spelled: Any, native: Any) -> Kind:
    """What a finish reason means, however it is spelled; of two the worse one counts."""
    kind = _one_ending(spelled)
    if kind is Kind.REPLY and isinstance(native, str):
        told = _one_ending(native)
        return told if told in (Kind.CUT, Kind.REFUSED) else kind
    return kind


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
    return Kind.REFUSED if _FILTER_WORDS.search(name) else Kind.BROKEN


_THOUGHTS = ("reasoning_content", "reasoning", "thinking")


def _text_of(message: dict[str, Any]) -> tuple[str, bool]:
    """The text of a message, thinking left out, and whether there was any thinking beside it."""
    content, thought = message.get("content"), False
    texts = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            text = part.get("text", part.get("content"))
            thinks = re.search("think|reason", str(part.get("type", "text")))
            thought |= bool(thinks)
            if isinstance(text, str) and not thinks:
                texts.append(text)
    thought |= any(isinstance(message.get(name), str) and message[name] for name in _THOUGHTS)
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
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    prompt, completion = (
        c if isinstance(c, int) and not isinstance(c, bool) and 0 <= c < 1 << 53 else 0 for c in counts
    )
    model = answer.get("model")
    return {
        "model": without_keys(model)[:300] if isinstance(model, str) else "",
        "prompt_tokens": prompt,
        "completion_tokens": completion,
    }


def _inner_error(error: dict[str, Any], headers: Mapping[str, str]) -> Outcome:
    """An error object inside a 200: by its code where that is a status or tells one, else broken."""
    for value in (error.get("code"), error.get("status"), error.get("http_status")):
        if isinstance(value, (int, str)) and re.fullmatch("[345][0-9]{2}", str(value)):
            return _failure(int(value), error, headers)
    named = f"{error.get('code')} {error.get('type')} {error.get('status')}".lower()
    for pattern, status in _STATUS_OF.items():
        if re.search(pattern, named):
            return _failure(status, error, headers)
    return Outcome(
        Kind.BROKEN, reason="an error instead of a reply", words=_words(error), status=200, code=_code(error)
    )


_STATUS_OF = {
    _NO_CREDIT.pattern: 402,
    "rate.?limit|too.?many.?requests|resource_exhausted|throttl": 429,
    "overloaded|unavailable|capacity": 503,
    "authentication|unauthorized|invalid_api_key|unauthenticated": 401,
    "permission|forbidden": 403,
    "not_found": 404,
    "invalid_request|bad_?request|invalid_argument|content_filter|content_policy": 400,
    "timeout|deadline": 504,
    "server_error|internal": 500,
}
"""What an error without a status says of itself -> the status that it would have had."""


def _failure(status: int, error: dict[str, Any], headers: Mapping[str, str]) -> Outcome:
    """What an error status means."""
    words, code = _words(error), _code(error)
    about: dict[str, Any] = {"words": words, "status": status, "code": code}
    reason = f"HTTP {status}"
    if status < 400:
        return Outcome(Kind.HOPELESS, reason=reason, remedy=_REMEDY[3], **about)
    if status in (401, 402):
        return Outcome(Kind.HOPELESS, reason=reason, remedy=_REMEDY[status], **about)
    if status in (400, 403, 422, 429) and _NO_CREDIT.search(code):
        return Outcome(Kind.HOPELESS, reason=f"no credit (HTTP {status})", remedy=_REMEDY[402], **about)
    if status in (429, 503, 529):
        reason = "rate limit (HTTP 429)" if status == 429 else reason
        return Outcome(Kind.BUSY, reason=reason, wait=wait_of(headers), **about)
    if status >= 500 or status in _PASSING:
        return Outcome(Kind.LOST, reason=reason, wait=wait_of(headers), **about)
    if _FILTER_WORDS.search(code) or (status in (400, 403, 422) and _FILTER_WORDS.search(words.lower())):
        return Outcome(Kind.REFUSED, reason=FILTERED, **about)
    if status in (400, 403) and _NO_CREDIT_WORDS.search(words):
        return Outcome(Kind.HOPELESS, reason=f"no credit (HTTP {status})", remedy=_REMEDY[402], **about)
    if status in (400, 422) and _ROOM_FIELD.search(words) and _ROOM_USED.search(words):
        return Outcome(Kind.CUT, reason="cut short", **about)
    if status in (400, 413, 422) and _CONTEXT.search(f"{code} {words}"):
        return Outcome(Kind.REFUSED, reason=TOO_LONG, **about)
    return Outcome(Kind.REFUSED, reason=f"request refused (HTTP {status})", remedy=_REMEDY.get(status, ""), **about)


def wait_of(headers: Mapping[str, str]) -> float | None:
    """Seconds that a response asks to wait: ``retry-after-ms``, or ``Retry-After`` as a number or an HTTP date."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = (headers.get(name) or "").strip()
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{0,9})?", value):
            return float(value) / scale
        if value and scale == 1.0:
            try:
                when = parsedate_to_datetime(value)
            except (ValueError, TypeError, IndexError, OverflowError):
                continue
            when = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
            return max(0.0, (when - datetime.now(timezone.utc)).total_seconds())
    return None


def _parsed(body: bytes) -> Any:
    if len(body) > LARGEST_REPLY:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _error_in(data: Any) -> dict[str, Any] | None:
    """The error that an object carries, in any of the usual places."""
    data = data[0] if isinstance(data, list) and data else data
    if not isinstance(data, dict):
        return None
    error = data.get("error")
    if isinstance(error, dict) and error:
        return {**error, "param": error.get("param")}
    if error:  # a text, or whatever else somebody puts there
        return {**{k: data.get(k) for k in ("code", "type", "status")}, "message": error}
    if data.get("object") == "error" or ("choices" not in data and ("message" in data or "detail" in data)):
        return {"code": data.get("code"), "type": data.get("type"), "message": data.get("message", data.get("detail"))}
    return None


def _code(error: dict[str, Any]) -> str:
    return " ".join(str(error[k]) for k in ("code", "type", "status") if error.get(k))[:200].lower()


def _words(error: dict[str, Any]) -> str:
    """The server's own words and the parameter it names."""
    message = error.get("message")
    said = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False, default=str)[:4000]
    parts = [str(part) for part in (error.get("code"), error.get("param"), said if message else None) if part]
    return _as_text(" ".join(parts).encode("utf-8", "replace"))


def _as_text(body: bytes) -> str:
    text = body[: 8 * QUOTED].decode("utf-8", "replace")
    return " ".join(without_keys(text).split())[:QUOTED]
