"""The report's words in the language it is written in: English stands in the code, Chinese in one table.

The notes under the tables and the warnings stand in tables of their own, in both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

LANGUAGES = ("en", "zh")
_language = ContextVar("language", default="en")


@contextmanager
def language(name: str) -> Iterator[None]:
    """Everything that is built inside is in this language."""
    token = _language.set(name)
    try:
        yield
    finally:
        _language.reset(token)


def t(english: str, **values: Any) -> str:
    """A text in the language of now, with its values put in; one that is not in the table stays as it is."""
    words = chinese().get(english, english) if _language.get() == "zh" else english
    return words.format(**values) if values else words


def notes(table: str, **values: Any) -> tuple[str, ...]:
    """The notes under a table, in the language of now."""
    return tuple(note[_language.get()].format(**values) for note in _stored("notes.json")[table])


def warning(name: str, **values: Any) -> str:
    """A sentence of the section “Read this first”, in the language of now."""
    return _stored("warnings.json")[name][_language.get()].format(**values)


def listed(names: list[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    some = ", ".join(names[:most])
    return some if len(names) <= most else t("{some} and {n} more", some=some, n=len(names) - most)


def chinese() -> dict[str, str]:
    """The table: English -> Chinese."""
    return _stored("texts.zh.json")


@lru_cache
def _stored(name: str) -> Any:
    return json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))
