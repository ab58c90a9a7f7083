"""The word in the section marks of a question, which nothing that is judged can know."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from lm_eval_tasks.judge.cache import cache_folder

log = logging.getLogger(f"lm_eval.{__name__}")

_BYTES = 32


def word_for(texts: Iterable[str]) -> str:
    """Sixteen hex digits: a keyed hash (BLAKE2b) of the texts of a question, in whatever order they come.

    The key belongs to the user of this machine, so the same texts always get the same word here, and both orders of a
    swapped pair share theirs, and with it the beginning of their prompts, which a server may keep.
    """
    found = hashlib.blake2b(key=_key(), digest_size=8)
    for text in sorted(texts):
        encoded = text.encode("utf-8", "surrogatepass")
        found.update(len(encoded).to_bytes(8, "big") + encoded)
    return found.hexdigest()


@lru_cache
def _key() -> bytes:
    """The user's key, made where there is none; one for this process alone where the folder can't hold it."""
    kept = cache_folder() / "marks.key"
    try:
        there = kept.exists()
        if not there or kept.stat().st_size != _BYTES:
            _make(kept, damaged=there)
        key = kept.read_bytes() if kept.is_file() else b""
    except OSError as error:
        log.debug("%s cannot be used (%s): the words in section marks are those of this process.", kept, error)
        key = b""
    return key if len(key) == _BYTES else secrets.token_bytes(_BYTES)


def _make(kept: Path, damaged: bool) -> None:
    """Write a new key as a whole; of several processes that do so at once, one wins and all read the same."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=kept.parent, prefix=f".{kept.name}-")  # for its owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        if damaged:
            Path(name).replace(kept)
        else:
            os.link(name, kept)
    except FileExistsError:
        return
    finally:
        Path(name).unlink(missing_ok=True)
