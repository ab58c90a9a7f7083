"""What a judge is asked and what comes back. A failure is a type of its own with a reason, never a number."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


class NoVerdict(ValueError):
    """A reply that is not a verdict; the text is the reason, in a few words."""


@dataclass(frozen=True)
class Question:
    """One request to the judge.

    Attributes:
        messages: the chat as the judge gets it.
        parse: turns the whole reply into a value or raises ``NoVerdict``.
        form: the form of the reply in words; added to the question when it has to be asked again.
        prompt_version: identifies the wording, so that another wording is another cache entry.
        schema: JSON schema of the reply, for servers that take one (``response_format``).
        part: which of several questions about the same answer this is, such as the order of a swapped pair.
        repeat: which of several answers to the same doc this is about; equal answers are judged one by one.
    """

    messages: tuple[dict[str, str], ...]
    parse: Callable[[str], Any] = field(compare=False)
    form: str
    prompt_version: str
    schema: dict[str, Any] | None = None
    repeat: int = 0
    part: str = ""

    def key(self, **endpoint: Any) -> str:
        """SHA-256 of the canonical JSON of everything that shapes the verdict; ``endpoint`` names who is asked."""
        shape = {
            "messages": self.messages,
            "prompt_version": self.prompt_version,
            "schema": self.schema,
            "repeat": self.repeat,
            "part": self.part,
            **endpoint,
        }
        return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Verdict:
    """A reply that was parsed.

    Attributes:
        value: what ``Question.parse`` returned.
        reply: the judge's own words.
        judge: the model that the server says it was.
        prompt_tokens, completion_tokens: as the server counted them, over all attempts; 0 where it doesn't say.
        attempts: how often it was asked, 1 to 3.
        cached: whether it was read from the cache instead of asked for.
        dialect: what the server had refused by then, so that it was asked otherwise, such as without a temperature.
    """

    value: Any
    reply: str
    judge: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 1
    cached: bool = False
    dialect: Sequence[str] = ()


@dataclass(frozen=True)
class Unjudged:
    """Why there is no verdict.

    Attributes:
        reason: one of a few short texts, so that they can be counted.
        reply: the last reply, if there was one.
        judge, prompt_tokens, completion_tokens, attempts: as in ``Verdict``; 0 attempts if it was never asked.
        why: the server's own words, where it refused or failed.
    """

    reason: str
    reply: str = ""
    judge: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 0
    why: str = ""


def as_data(outcome: Verdict | Unjudged) -> dict[str, Any]:
    """An outcome as the JSON data that is logged with a sample, without the value, whose form is the benchmark's."""
    judged = isinstance(outcome, Verdict)
    return {
        "reply": outcome.reply,
        "judge": outcome.judge,
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": outcome.completion_tokens,
        "attempts": outcome.attempts,
        "dialect": list(outcome.dialect) if judged else [],
        "cached": judged and outcome.cached,
        "reason": None if judged else outcome.reason,
        "why": "" if judged else outcome.why,
    }


_INVISIBLE = (
    "\\x00-\\x08\\x0e-\\x1b\\x7f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
"""Characters without a glyph, which could be slipped into a mark to hide it from a plain search."""

_GAP = rf"[\s|/\\*_#~{_INVISIBLE}-]*"
_CLOSED = rf"(?={_GAP}[\]}}>])"
_OF_TEMPLATES = rf"(?:inst|sys|s|start_of_turn|end_of_turn){_CLOSED}|(?<=\|)[^\s|<>\[\]{{}}]{{1,40}}(?=\|[\]}}>])"
"""Marks of chat templates (``[INST]``, ``</s>``, ``<|im_start|>``), which a server may take for its own in any text."""

_FOLDED = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_FOLDED |= dict(zip(map(ord, "\u3010\u3014\u3016\u301a\u27e6\u2045"), "[" * 6, strict=True))
_FOLDED |= dict(zip(map(ord, "\u3011\u3015\u3017\u301b\u27e7\u2046"), "]" * 6, strict=True))
_FOLDED |= dict(zip(map(ord, "\u3008\u300a\u27e8\u3009\u300b\u27e9"), "<<<>>>", strict=True))
"""Full-width signs and brackets of other scripts -> what they stand for, one character for one."""


def neutraliser(marks: list[str]) -> Callable[[str], tuple[str, bool]]:
    """A function that takes the force out of text that looks like a part of a prompt.

    Args:
        marks: how section marks, fields and tags begin, without their brackets. They are found in any case, with any
            white space or invisible characters between, after square or angle brackets or braces of any script. Marks
            of chat templates are found as well.

    Returns:
        A function from a text to the text with those brackets made round, and to whether there were any. Takes time in
        proportion to the text.
    """
    words = "|".join(
        f"[{_INVISIBLE}]*".join(r"\s+" if char == " " else re.escape(char) for char in mark) for mark in marks
    )
    pattern = re.compile(
        rf"(?<![\[{{<])(?P<open>[\[{{<]+){_GAP}(?:{words}|{_OF_TEMPLATES})(?:[^\[\]{{}}<>]{{0,60}}(?P<close>[\]}}>]+))?",
        re.IGNORECASE,
    )

    def neutralise(text: str) -> tuple[str, bool]:
        calm, done = [], 0
        for match in pattern.finditer(text.translate(_FOLDED)):
            inner = match.start("close") if match["close"] else match.end()
            calm += [text[done : match.start()], "(", text[match.end("open") : inner], ")" if match["close"] else ""]
            done = match.end()
        return "".join(calm) + text[done:], done > 0

    return neutralise


def without_reasoning(reply: str) -> str:
    """The reply after its last ``</think>``; all of it where there is none."""
    return reply.rsplit("</think>", 1)[-1].strip()


def storable(text: str) -> str:
    """The same text, or one with ``?`` for halves of surrogate pairs, which JSON can carry and a UTF-8 file cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text
