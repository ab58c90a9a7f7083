"""The wording of a question to the judge: a benchmark's own or that of a user's file, filled in one pass."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from typing_extensions import Self


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
            template = Path(path).expanduser().read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"judge_prompt={path}: cannot be read as a UTF-8 text file ({error})") from None
        usual = {name: field for field, name in reversed(cls.FIELDS.items())}
        there = {cls.FIELDS[match[0]] for match in cls._pattern().finditer(template)}
        lacking = [usual[name] for name in dict.fromkeys(cls.FIELDS.values()) if name not in there]
        if lacking:
            others = [field for field in cls.FIELDS if field not in usual.values()]
            raise ValueError(
                f"judge_prompt={path}: the field(s) {', '.join(lacking)} are missing. The file needs "
                f"{_all_of([field for field in cls.FIELDS if field not in others])}"
                f"{f', or {_all_of(others)}' if others else ''}. With both benchmarks in one command, set each one's "
                'own file: {"intima": {"judge_prompt": "..."}}.'
            )
        return cls(template, "", f"file-{_digest(template)}")

    def fill(self, values: Mapping[str, str]) -> tuple[dict[str, str], ...]:
        """The chat with every field replaced by its value in one pass: text inside a value is never taken for a field.

        Args:
            values: name -> text, with the force taken out of what looks like a section mark.
        """
        text = self._pattern().sub(lambda match: values[self.FIELDS[match[0]]], self.template)
        system = ({"role": "system", "content": self.system},) if self.system else ()
        return (*system, {"role": "user", "content": text})

    @classmethod
    def _pattern(cls) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, cls.FIELDS)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _all_of(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
