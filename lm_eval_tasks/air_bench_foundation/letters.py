"""From an answer to the letter of a choice, by a strict reader and by the official rule. No I/O."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from lm_eval_tasks.judge.question import NoVerdict, without_reasoning

LETTERS = "ABCD"

_OPEN, _CLOSE = r"[(\[{\"'“‘「【]?", r"[)\]}\"'”’」】]?"
_LETTER = rf"(?i:option |choice |选项 ?)?{_OPEN}(?P<letter>[A-D]){_CLOSE}"
_RIGHT = (
    r"(?i: is (?:correct|right|(?:the )?(?:(?:correct|right|best|most (?:suitable|likely|appropriate)) )?"
    r"(?:answer|option|choice|one))|选项)"
)
_ALONE = re.compile(rf"{_LETTER}{_RIGHT}?(?:[\s.,;]+{_OPEN}(?P=letter){_CLOSE})* ?[.:,;。、]?")
_WITH_TEXT = re.compile(rf"(?P<head>{_LETTER})(?P<gap> ?[.:,;、–—-] ?| )(?P<text>.+)")
_LOWER = re.compile(rf"{_OPEN}([a-d]){_CLOSE}[.:]?")
_ANNOUNCED = re.compile(
    r"(?:(?:so|thus|therefore|hence|ok|okay|sure|yes|based on [^,.;]{1,80})[,.!:]? )?"
    r"(?:i (?:think|believe)(?: that)? )?"
    r"(?:(?:(?:the|my) )?(?:(?:final|correct|right|best|most (?:suitable|likely|appropriate)) )*"
    r"(?:answer|ans|option|choice)(?: is| would be| should be)?(?: ?[:–—-] ?| )"
    r"|i(?: would|'d)? (?:choose|select|pick|say|go with) )(?P<said>.+)"
    r"|(?:因此|所以|故)?[,，]? ?(?:我|应该?|最合适的|最终的?|正确的?)*"
    r"(?:(?:答案|选项) ?(?:应?[是为])? ?:?|选择?) ?(?P<chosen>.+)"
    r"|\{ ?[\"'](?:answer|choice|option|letter)[\"'] ?: ?[\"'](?P<value>[^\"']+)[\"'] ?\}",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?:[.:)] |[,;。] ?)(?!(?:or|and|either|maybe|perhaps|possibly)\b)(?P<rest>.+)|\s(?:because|since)\s.+"
)
_OTHER_LETTER = re.compile(r"(?<![\w'])(?:[B-D]|A(?! +[a-z]))(?![\w'])", re.ASCII)
_CLAIM = re.compile(r"\b(?i:(?:answer|option|choice|it)(?: is| should be|'s|:)) ?\W?(?P<letter>[A-D])(?!\w| [a-z])")
_LATEX = re.compile(r"\\(?:boxed|text|textbf|mathrm|mathbf) ?\{([^{}]*)\}")
_MARKS = re.compile(r"[*`$]+|\\[()\[\]]|^\s*(?:[#>•-]+\s)+|^_+|_+$")
_FENCE = re.compile(r"^```\w*$", re.MULTILINE)


def read_letter(answer: str, choices: Mapping[str, str]) -> str | None:
    """The letter that an answer names, or None where it names none or more than one.

    After any reasoning the answer is, or has as its first or last line: a letter alone ("B", "B.", "(B)"), a letter
    with the text of its own choice ("B. rain"), either of them announced ("The answer is B"), or the full text of
    exactly one choice. Nothing is guessed: "A dog barks" is no A. Lines that name different letters name none; only
    where one is announced may others list the choices.

    Args:
        answer: the model's own words.
        choices: letter -> text, of the choices that exist.
    """
    try:
        said = without_reasoning(answer)
    except NoVerdict:
        return None
    lines = [line for line in map(_unmarked, _FENCE.sub("", said).splitlines()) if line]
    if not lines:
        return None
    whole = _letter_of(" ".join(lines), choices, announced=None)
    if whole:
        return whole
    for announced in (True, False):
        found = [_letter_of(line, choices, announced) for line in lines]
        named = {letter for letter in found if letter}
        if named:
            claims = [claim for line in lines for claim in (*_CLAIM.finditer(line), _ALONE.fullmatch(line))]
            named |= {claim["letter"] for claim in claims if claim}
            return named.pop() if len(named) == 1 and (found[0] or found[-1]) else None
    return None


def official_letter(answer: str) -> str | None:
    """The letter by the official rule: the first character, else the last but one ("The answer is A."), else none."""
    text = answer.strip().replace("\n", "")
    for character in (text[:1], text[-2:-1]):
        if character and character in LETTERS:
            return character
    return None


def _unmarked(line: str) -> str:
    """A line without the marks of Markdown and LaTeX, with usual signs for full-width ones."""
    line, count = unicodedata.normalize("NFKC", line), 1
    while count:
        line, count = _LATEX.subn(r"\1", line)
    return " ".join(_MARKS.sub("", line.strip()).split())


def _letter_of(line: str, choices: Mapping[str, str], announced: bool | None) -> str | None:
    """The letter of a line; ``announced``: only where it is announced, only where not, or (None) either way."""
    start = _ANNOUNCED.fullmatch(line)
    if announced is not None and announced != bool(start):
        return None
    text = next(filter(None, start.groups())) if start else line
    if (lower := _LOWER.fullmatch(text)) and text != ("a" if start else ""):  # "the answer is a" may be a cut sentence
        return lower[1].upper()
    found = _named(text, choices, by_text=bool(start) or announced is None)
    return found or (_first_of(text, choices) if start else None)


def _named(text: str, choices: Mapping[str, str], by_text: bool) -> str | None:
    """A letter alone or with the text of its own choice; else the choice of which this is the full text."""
    if alone := _ALONE.fullmatch(text):
        return alone["letter"]
    same = {choice: letter for letter, choice in reversed(choices.items()) if _bare(text) == _bare(choice) != ""}
    found = _WITH_TEXT.fullmatch(text)
    if found and (found["head"], found["gap"]) != ("A", " "):  # "A dog" is no A
        own = choices.get(found["letter"], "")
        if _bare(found["text"]) == _bare(own) != "":
            same[own], by_text = found["letter"], True
    return next(iter(same.values())) if by_text and len(same) == 1 else None


def _first_of(text: str, choices: Mapping[str, str]) -> str | None:
    """The letter at the head of an announced sentence that goes on, and names no other letter and no other choice."""
    found = re.match(_LETTER, text)
    tail = _TAIL.fullmatch(text[found.end() :]) if found else None
    if not tail or _OTHER_LETTER.search(tail[0]):
        return None
    rest = _bare(tail["rest"] or "")
    texts = {key: _bare(choice) for key, choice in choices.items()}
    begun = [text for text in texts.values() if text and re.match(rf"{re.escape(text)}(?!\w)", rest)]
    return found["letter"] if not begun or texts.get(found["letter"]) == max(begun, key=len) else None


def _bare(text: str) -> str:
    """Text without case, marks, and quotes, brackets and full stops around it; nothing else is taken for the same."""
    return _unmarked(text).strip(" \"'“”‘’.!。()[]").casefold()
