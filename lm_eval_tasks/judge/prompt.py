"""The wording of a question to the judge: a benchmark's own or that of a user's file, filled in one pass."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from lm_eval_tasks.files import open_regular
from lm_eval_tasks.judge.marks import word_for
from lm_eval_tasks.judge.question import without_template_tokens

if TYPE_CHECKING:
    from typing_extensions import Self


MARK = "{mark}"
"""Where a wording has this field, its section marks hold a word that no text between them can know."""


@dataclass(frozen=True)
class Wording:
    """The wording of one run. A benchmark's subclass sets the three class variables and adds ``ask``.

    Attributes:
        template: the user's message with its fields.
        system: the system message, or "" for none.
        version: ``pack-`` or ``file-`` and the first 12 hex digits of the wording's SHA-256.
    """

    template: str
    system: str
    version: str

    OWN_TEMPLATE: ClassVar[str]
    OWN_SYSTEM: ClassVar[str]
    FIELDS: ClassVar[Mapping[str, str]]
    """How a field may be written in a template -> its name; the first way to write a name is the usual one."""

    @classmethod
    def load(cls, path: str | None) -> Self:
        """The pack's own wording, or that of a UTF-8 text file.

        Raises:
            ValueError: the file is missing, not UTF-8, or lacks a field; the message names it.
        """
        if path is None:
            return cls(cls.OWN_TEMPLATE, cls.OWN_SYSTEM, f"pack-{_digest(cls.OWN_SYSTEM + cls.OWN_TEMPLATE)}")
        try:
            with open_regular(Path(path).expanduser()) as file:
                template = file.readall().decode("utf-8-sig").replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"judge_prompt={path}: cannot be read as a UTF-8 text file ({error})") from None
        usual = {name: field for field, name in reversed(cls.FIELDS.items())}
        there = {cls.FIELDS.get(match[0]) for match in cls._pattern().finditer(template)}
        lacking = [usual[name] for name in dict.fromkeys(cls.FIELDS.values()) if name not in there]
        if lacking:
            raise ValueError(
                f"judge_prompt={path}: the field(s) {', '.join(lacking)} are missing. The file needs each of these, "
                f"under any of its names: {', '.join(cls.FIELDS)}. With both benchmarks in one command, set each one's "
                'own file: {"intima": {"judge_prompt": "..."}}.'
            )
        return cls(template, "", f"file-{_digest(template)}")

    def fill(self, values: Mapping[str, str]) -> tuple[tuple[dict[str, str], ...], str]:
        """The chat with every field replaced by its value in one pass: text inside a value is never taken for a field.

        Args:
            values: name -> text as it came.

        Returns:
            The messages, and the word in their section marks ("" where the wording has no place for it).
        """
        word = word_for(values.values()) if MARK in self.template else ""
        filled = {name: self.neutral(text)[0] for name, text in values.items()}
        text = self._pattern().sub(lambda m: word if m[0] == MARK else filled[self.FIELDS[m[0]]], self.template)
        system = ({"role": "system", "content": self.system},) if self.system else ()
        return (*system, {"role": "user", "content": text}), word

    def neutral(self, text: str) -> tuple[str, bool]:
        """A text as it stands in the question, and whether that differs from how it came.

        Round brackets take the place of those on chat-template tokens and reasoning marks. In a wording whose marks
        hold no word, they do so on whatever reads like one of its marks as well, in any case, brackets and spacing.
        """
        calm, changed = without_template_tokens(text)
        if not self._marks:
            return calm, changed
        marked = _bracketed().sub(self._unless_mark, calm)
        return marked, changed or marked != calm

    @cached_property
    def _marks(self) -> tuple[str, ...]:
        """What stands in brackets in a wording whose marks hold no word, as bare letters."""
        if MARK in self.template:
            return ()
        found = (match[1] for match in _bracketed().finditer(self.template) if match[0] not in self.FIELDS)
        return tuple(bare for bare in map(_bare, found) if len(bare) > 2)

    def _unless_mark(self, found: re.Match[str]) -> str:
        return f"({found[1]}{found[2] and ')'}" if _bare(found[1]).startswith(self._marks) else found[0]

    @classmethod
    def _pattern(cls) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, (*cls.FIELDS, MARK))))


@lru_cache
def _bracketed() -> re.Pattern[str]:
    """Finds up to 80 characters after an opening bracket of any script, with the closing one where it is there."""
    opening, closing = (
        re.escape("".join(char for char in map(chr, range(0x10000)) if unicodedata.category(char) == kind)) + sign
        for kind, sign in (("Ps", "<"), ("Pe", ">"))
    )
    return re.compile(f"[{opening}]([^{opening}{closing}]{{1,80}})([{closing}]?)")


def _bare(text: str) -> str:
    """Letters and digits alone, in one case, without accents and without forms of width or style."""
    return "".join(char for char in unicodedata.normalize("NFKD", text).casefold() if char.isalnum())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
