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
        word: the word in the section marks of the messages, which is not the same everywhere and is no part of the key.
        again: how often the very same question was put before, where it is put several times (``judge_repeats``).
    """

    messages: tuple[dict[str, str], ...]
    parse: Callable[[str], Any] = field(compare=False)
    form: str
    prompt_version: str
    schema: dict[str, Any] | None = None
    repeat: int = 0
    part: str = ""
    word: str = ""
    again: int = 0

    def key(self, **endpoint: Any) -> str:
        """SHA-256 of the canonical JSON of everything that shapes the verdict; ``endpoint`` names who is asked."""
        shape = {
            "messages": self.messages,
            "prompt_version": self.prompt_version,
            "schema": self.schema,
            "repeat": self.repeat,
            "part": self.part,
            **({"again": self.again} if self.again else {}),
            **endpoint,
        }
        return hashlib.sha256(json.dumps(shape, sort_keys=True).replace(self.word, "").encode()).hexdigest()


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


_THOUGHT = re.compile(
    r"""[<\[\u25c1](?i:
      (?<=<)(?P<answer>\|channel\|>\s{0,3}final\b[^\n<]{0,40}(?:<\|constrain\|>[^\n<]{0,40})?<\|message\|>|channel\|>)
    | (?<=<)\|channel\|?>
    | (?<=\[)\s{0,3}(?P<end>/)?\s{0,3}THINK\s{0,3}\]
    | (?<!\[)\s{0,3}[|\uff5c]?\s{0,3}(?:(?P<end_too>/|end_(?:of_)?)|(?:begin|start)_(?:of_)?)?\s{0,3}(?:\w{1,20}:)?
      (?:think|thinking|thoughts?|reason|reasoning|scratchpad|reflection|analysis)
      (?:\s[\w\s="'.:-]{0,200})?[|\uff5c]?\s{0,3}[>\u25b7]
    )""",
    re.VERBOSE,
)
"""Where a thought begins or ends: ``<think>``, ``[THINK]`` and their kind, and the channels of a reply."""

_UNKNOWN_THOUGHT = re.compile(
    r"<(?=[A-Za-z])[\w:-]{0,20}(?:th(?:ink|ought)|reason|rationale|scratch|monologu|reflect|deliberat)[\w:-]{0,20}>",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"""<[|\uff5c][^<>()|\uff5c\s]{1,60}[|\uff5c]?> | <[^<>()|\uff5c\s]{1,60}[|\uff5c]>
    | <</?SYS>> | \[/?INST\] | \[\|[^\[\]()|\s]{1,40}\|\] | \]~!?b[\[\]] | \[e~\[
    | </?seed:\w{1,40}> | <(?:[A-Z]{2,20}_TOKEN|PAD|UNK|CLS|SEP|SPECIAL_\d{1,5})>
    | \[/?(?:SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_(?:CALLS|RESULTS|CONTENT)|ARGS|CALL_ID|PREFIX|SUFFIX|MIDDLE)\]
    | \[(?:IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|TRANSCRIBE|g?MASK|CLS|SEP|PAD|UNK|BOS|EOS)\]
    | </?(?:s|bos|eos|pad|unk|mask|sop|eop|eod|image|audio|video|unused\d{1,4}|[a-z]+(?:_[a-z0-9]+)+)>
    """,
    re.VERBOSE,
)
"""Tokens of chat templates, letter by letter as a server reads them in any text."""

_BRACKET = re.compile(r"[<\[\u25c1]|\]~")
"""How all of them begin; to look for that alone takes a tenth of the time, and most texts have none."""

_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]+"
)
"""Characters without a glyph."""

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: " ", 0xFF0C: ", "}

LONGEST_REPLY, LONGEST_VERDICT = 1_000_000, 40_000
"""Characters of a reply with and without its reasoning; no form of a verdict needs a tenth of that."""


def without_template_tokens(text: str) -> tuple[str, bool]:
    """The text with round brackets on what a server or a parser would take for more than text, and whether any was.

    That is tokens of chat templates (``<|im_end|>`` becomes ``(|im_end|)``) and marks of reasoning; whatever else looks
    like a part of a prompt is left as it is. No pattern allows a round bracket inside, so that what is left over from
    one that stood in another is none itself.
    """
    if not _BRACKET.search(text):
        return text, False
    calm, tokens = _TOKEN.subn(_in_round_brackets, text)
    calm, thoughts = _THOUGHT.subn(_in_round_brackets, calm)
    return calm, tokens + thoughts > 0


def _in_round_brackets(found: re.Match[str]) -> str:
    return f"({found[0][1:-1]})"


def without_reasoning(reply: str) -> str:
    """What a reply says once its thoughts are over, without invisible characters, tokens and full-width signs.

    Tokens of chat templates and bare tags, such as ``<|im_end|>`` or ``<answer>``, are read as line ends.

    Raises:
        NoVerdict: a thought has no end, or the reply is far longer than any verdict.
    """
    if len(reply) > LONGEST_REPLY:
        raise NoVerdict("longer than was asked for")
    said, done, thinking = [], 0, False
    for mark in _THOUGHT.finditer(reply) if _BRACKET.search(reply) else ():
        ends = mark["answer"] or mark["end"] or mark["end_too"]
        if not thinking and not ends:
            said.append(reply[done : mark.start()])
        elif not thinking or mark["answer"]:  # its beginning was a part of the prompt, or what went before a header
            said.clear()
        done, thinking = mark.end(), not ends
    if thinking:
        raise NoVerdict("reasoning without an end")
    text = "\n".join([*said, reply[done:]])
    if _UNKNOWN_THOUGHT.search(text):
        raise NoVerdict("reasoning under an unknown name")
    if len(text) > LONGEST_VERDICT:
        raise NoVerdict("longer than was asked for")
    return plain(text)


def is_half_a_thought(text: str) -> bool:
    """Whether a text's last reasoning has no end."""
    ends = True
    for mark in _THOUGHT.finditer(text):
        ends = bool(mark["answer"] or mark["end"] or mark["end_too"])
    return not ends


def plain(text: str) -> str:
    """Text without invisible characters and without tokens or bare tags, and with full-width signs as usual ones."""
    text = _ROLE.sub("\n", text) if "<" in text or "[" in text else text
    text = _INVISIBLE.sub("", text)
    return (text if text.isascii() else text.translate(_FULL_WIDTH)).strip()


_ROLE = re.compile(
    rf"(?:{_TOKEN.pattern}|</?[A-Za-z][\w:-]{{0,40}}>)(?:\s{{0,9}}(?:assistant|model)(?=[\s<]))?", re.VERBOSE
)


def storable(text: str) -> str:
    """The same text, or one with ``?`` for halves of surrogate pairs, which JSON can carry and a UTF-8 file cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text
