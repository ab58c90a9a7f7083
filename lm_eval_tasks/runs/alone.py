"""Locks of this user's runs: what is started twice at once would be paid for twice."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path
from typing import TextIO

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None

from lm_eval_tasks.judge.cache import cache_folder

log = logging.getLogger(f"lm_eval.{__name__}")

_held: dict[str, TextIO] = {}


class Busy(ValueError):
    """Another process is at it; the text names it."""


def claim(name: str, what: str) -> None:
    """Take a lock until ``release`` or the end of this process, however it ends; taking it again does nothing.

    Where no lock can be had (another system, a folder that can't be written), none is taken.

    Args:
        name: what must not be done twice at once.
        what: the same in words, to begin a sentence with.

    Raises:
        Busy: another process has it.
    """
    if fcntl is None or name in _held:
        return
    path = _path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = path.open("a+", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                owner = file.read(20).strip() or "another one"
                file.close()
                raise Busy(
                    f"{what} by process {owner}: wait for its end, for doing it twice would be paid for twice."
                ) from None
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
            file.close()  # removed by its last owner meanwhile
    except OSError as error:
        log.debug("no lock for %s: %s", what, error)
        return
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    _held[name] = file


def release(name: str) -> None:
    """Give a lock back."""
    file = _held.pop(name, None)
    if file is not None:
        _path(name).unlink(missing_ok=True)
        file.close()


def _path(name: str) -> Path:
    return cache_folder() / "running" / f"{hashlib.sha256(name.encode()).hexdigest()[:40]}.lock"
