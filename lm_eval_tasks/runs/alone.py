"""Locks of this user's runs: what is started twice at once would be paid for twice."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from pathlib import Path

from filelock import FileLock, Timeout

from lm_eval_tasks.judge.cache import cache_folder

log = logging.getLogger(f"lm_eval.{__name__}")

_held: dict[str, FileLock] = {}


class Busy(ValueError):
    """Another process is at it; the text names it."""


def claim(name: str, what: str) -> None:
    """Take a lock until ``release`` or the end of this process, however it ends; taking it again does nothing.

    Where no lock can be had (a folder that can't be written, or whose disk knows none), none is taken.

    Args:
        name: what must not be done twice at once.
        what: the same in words, to begin a sentence with.

    Raises:
        Busy: another process has it.
    """
    if name in _held:
        return
    path = cache_folder() / "running" / f"{hashlib.sha256(name.encode()).hexdigest()[:40]}.lock"
    owner = path.with_suffix(".pid")  # which a waiting process does not empty
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        owner.write_text(str(os.getpid()))
    except Timeout:
        raise Busy(
            f"{what} by process {_read(owner)}: wait until that ends. Running it twice would cost twice."
        ) from None
    except (OSError, NotImplementedError) as error:
        log.debug("no lock for %s: %s", what, error)
        lock.release()
        return
    _held[name] = lock


def release(name: str) -> None:
    """Give a lock back."""
    lock = _held.pop(name, None)
    if lock is not None:
        Path(lock.lock_file).with_suffix(".pid").unlink(missing_ok=True)
        lock.release()


def _read(owner: Path) -> str:
    with contextlib.suppress(OSError):
        return owner.read_text()[:20].strip() or "another one"
    return "another one"
