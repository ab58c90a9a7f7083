"""Which optional fields of a request a server does not take: found out from its refusals, each once.

A field is given up for good only when the same request without it has succeeded. So a refusal that merely mentions a
field, or quotes a prompt that does, teaches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from lm_eval_tasks.server.outcome import FILTERED, TOO_LONG, Kind, Outcome

OTHER_NAME = "max_completion_tokens"
"""Stands for sending the limit of tokens under its other name."""
SYSTEM = "system"
"""Stands for sending the system message inside the user's."""

_NAMED = {
    "response_format": re.compile(r"response_?format|json_?schema|response_?schema|guided|structured|grammar", re.I),
    "stop": re.compile(r"\bstop(?:_?(?:sequences?|strings?|words?|token_ids))?\b", re.I),
    "seed": re.compile(r"\bseed\b", re.I),
    "temperature": re.compile(r"\btemperature\b", re.I),
    OTHER_NAME: re.compile(r"max_tokens", re.I),
    SYSTEM: re.compile(r"\bsystem\b|\broles?\b", re.I),
}
"""What can be left out or said otherwise -> how a refusal names it; the least harmful first."""

EFFECT = {
    "response_format": "the form of the reply is asked for in words",
    "stop": "stop strings are cut from the text here",
    "seed": "no seed is sent",
    "temperature": "no temperature is sent: the server's own default holds",
    OTHER_NAME: "max_completion_tokens is sent instead of max_tokens",
    SYSTEM: "the instructions go into the user's message",
}
"""What is then done otherwise, in the words of the log."""

_LEAST_ROOM = 16
"""Tokens; a smaller number in a refusal is no limit of a reply."""
_DATE = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}\b")  # as in a version of an API
_GROUPED = re.compile(r"(?<![\w.,(\[])[0-9]{1,3}(?:,[0-9]{3})+(?!\w|,[0-9])")  # 8,192; not the range [1,512]
_NUMBER = re.compile(r"(?<![\w.])[0-9]{1,9}(?![\w]|\.[0-9])")


def adapted(request: dict[str, Any], given_up: Collection[str]) -> dict[str, Any]:
    """A request without the fields that are given up; the request itself is left as it is."""
    if not given_up:
        return request
    request = {key: value for key, value in request.items() if key not in given_up or key == OTHER_NAME}
    if OTHER_NAME in given_up and "max_tokens" in request:
        request[OTHER_NAME] = request.pop("max_tokens")
    if SYSTEM in given_up and isinstance(request.get("messages"), list):
        request["messages"] = _without_system(request["messages"])
    return request


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    heads = [m["content"] for m in messages if m.get("role") == "system" and isinstance(m.get("content"), str)]
    rest = [dict(message) for message in messages if message.get("role") != "system"]
    if not heads or not rest:
        return messages
    head, content = "\n\n".join(heads), rest[0].get("content")
    if isinstance(content, str):
        rest[0]["content"] = f"{head}\n\n{content}"
    else:
        rest[0]["content"] = [{"type": "text", "text": head}, *(content or [])]
    return rest


def can_give_up(request: dict[str, Any], field: str) -> bool:
    """Whether a request has what a field of the dialect is about."""
    if field == OTHER_NAME:
        return "max_tokens" in request
    if field == SYSTEM:
        return any(m.get("role") == "system" for m in request.get("messages", ()) if isinstance(m, dict))
    return field in request


def next_to_give_up(outcome: Outcome, request: dict[str, Any], given_up: Collection[str], guess: bool) -> str | None:
    """What to leave out of a refused request, or None.

    Args:
        outcome: the refusal.
        request: as it was made, before anything was given up.
        given_up: what this try has already done without.
        guess: whether to try what the refusal does not name, too.
    """
    if outcome.reason in (FILTERED, TOO_LONG):
        return None
    open_ones = [f for f in _NAMED if f not in given_up and can_give_up(request, f)]
    if outcome.kind in (Kind.REFUSED, Kind.CUT, Kind.BROKEN) or outcome.status >= 500:
        for field in open_ones:
            if _NAMED[field].search(f"{outcome.code} {outcome.words}"):
                return field
    guessable = [field for field in open_ones if field not in (OTHER_NAME, SYSTEM)]
    return guessable[0] if guess and guessable else None


def named_limit(outcome: Outcome, asked: int | None) -> int | None:
    """The greatest room for a reply that a refusal names ("valid range of max_tokens is [1, 8192]"), or None."""
    if asked is None or outcome.status not in (400, 422) or outcome.reason == TOO_LONG:
        return None
    if not re.search(r"max_?(completion_|output_|new_)?tokens|completion tokens|output tokens", outcome.words, re.I):
        return None
    words = _GROUPED.sub(lambda number: number[0].replace(",", ""), _DATE.sub("", outcome.words))
    smaller = (int(number) for number in _NUMBER.findall(words))
    return max((n for n in smaller if _LEAST_ROOM <= n < asked and n != outcome.status), default=None)
