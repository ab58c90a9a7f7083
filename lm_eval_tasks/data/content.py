"""Files of metadata or answers: all of their bytes, and JSON of which one odd value or line spoils only itself."""

from __future__ import annotations

import codecs
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lm_eval_tasks.audio.clips import LFS_POINTER
from lm_eval_tasks.errors import DataError
from lm_eval_tasks.files import open_regular

NO_CHARACTER = "holds what is no character (half of a surrogate pair, or no UTF-8)"
"""What is wrong with a text that no file can hold."""

_MAX_METADATA = 1 << 28
_LONGEST_INT = 4000  # digits; Python refuses to convert longer ones


def read_whole(path: Path) -> bytes:
    """All bytes of a file of metadata.

    Raises:
        DataError: it is no regular file, it cannot be read, it is bigger than any metadata, or Git LFS has not fetched
            it.
    """
    try:
        with open_regular(path) as file:
            content = file.read(_MAX_METADATA + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    if len(content) > _MAX_METADATA:
        raise DataError(f"{path} is over {_MAX_METADATA >> 20} MB, more than any list of records takes.")
    if content.startswith(LFS_POINTER):
        raise DataError(f"{path} is a Git LFS pointer: run `git lfs pull` in its folder.")
    return content


def parse_json(content: bytes, path: Path, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """JSON of which one odd value spoils only itself: bytes that are no UTF-8 become half surrogate pairs.

    Args:
        content, path: of a file.
        pairs: makes an object from its fields, as in ``json.loads``.

    Raises:
        DataError: it is no JSON.
    """
    try:
        return json.loads(content.decode("utf-8-sig", "surrogateescape"), parse_int=_integer, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged or not complete ({error}). Download it again.") from None


def read_rows(
    content: bytes, path: Path, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> list[tuple[str, Any]]:
    """The rows of a JSON list, or of a file with a JSON object a line, each with its place (``item 3``, ``line 3``).

    A line that is no JSON is a row of its own, as text. ``content``, ``path`` and ``pairs`` are as in ``parse_json``.

    Raises:
        DataError: it begins as a list and is no JSON.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # as a shell of Windows writes it
        with contextlib.suppress(UnicodeDecodeError):
            content = content.decode("utf-16", "surrogatepass").encode("utf-8", "surrogatepass")
    if content.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
        return [(f"item {number}", value) for number, value in enumerate(parse_json(content, path, pairs), 1)]

    def parsed(line: str) -> Any:
        try:
            return json.loads(line, object_pairs_hook=pairs)
        except (ValueError, RecursionError):
            return line

    lines = enumerate(content.decode("utf-8-sig", "surrogateescape").split("\n"), 1)
    return [(f"line {number}", parsed(line)) for number, line in lines if line.strip()]


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _LONGEST_INT else float("inf")  # which is no text, as a record's fault


def is_text(text: str) -> bool:
    """Whether UTF-8 can hold it: no half of a surrogate pair, no byte that could not be decoded."""
    return text.isascii() or text.encode("utf-8", "replace") == text.encode("utf-8", "surrogatepass")
