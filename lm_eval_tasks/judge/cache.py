"""Verdicts on disk: each is stored the moment it arrives, so that no crash can lose what was paid for."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

log = logging.getLogger(f"lm_eval.{__name__}")

BUSY = 0.05
"""Seconds that one access waits for another process; the judge's other calls stand still as long."""

RETRY = 0.5
"""Seconds between two tries."""

PATIENCE = 300.0
"""Seconds that a question waits for a file that another process has locked even for reading."""

LAST_TRY = 10
"""Seconds that the end of a run waits to store what is still held."""

_TABLE = "CREATE TABLE IF NOT EXISTS verdict (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID"


def cache_folder() -> Path:
    """Where verdicts and answers in waiting are kept (``XDG_CACHE_HOME`` moves it)."""
    return user_cache_path("lm-eval-tasks")


class VerdictCache:
    """An SQLite file that several processes may share.

    Whatever goes wrong with it is one warning, and the run goes on. While another process has it locked, or the disk is
    full, what arrives is held in memory and stored later. A file that can't be read is left alone for good.

    Args:
        where: True for the file in the user's cache folder, a path for another one, False for none.
    """

    def __init__(self, where: str | bool) -> None:
        own = cache_folder() / "verdicts.sqlite"
        self.path = None if where is False else own if where is True else Path(where).expanduser()
        self._db: sqlite3.Connection | None = None
        self._lock = threading.RLock()  # the judge's thread and the main one come here
        self._given_up = self.path is None
        self._held: dict[str, str] = {}
        self._again = 0.0  # not before this time is anything tried again that failed
        self._unreadable_until = 0.0
        self._warned: set[str] = set()
        self._open()

    @property
    def writable(self) -> bool:
        """Whether everything so far could be stored."""
        return self._db is not None and not self._held

    def get(self, key: str) -> dict[str, Any] | None:
        """The stored reply of a question, or None."""
        reply = self._held.get(key) or self._read(key)
        try:
            return json.loads(reply) if reply else None
        except ValueError:
            return None

    def put(self, key: str, reply: dict[str, Any]) -> None:
        """Store a usable reply. Unusable and cut-short ones must not come here."""
        if self._given_up:
            return
        with self._lock:
            self._held[key] = json.dumps(reply)
            self._open()
            self._store_held()

    def is_finished(self, key: str) -> bool:
        """Whether a task with exactly these requests and settings was judged to its end before."""
        return self.get(f"finished {key}") is not None

    def set_finished(self, key: str) -> None:
        """Remember that this task was judged to its end, so that doing it again needs no trial call."""
        self.put(f"finished {key}", {})

    async def free(self) -> None:
        """Wait while another process has the file locked for reading, ``PATIENCE`` seconds at the most.

        Else what is in it would be paid for again. Nothing but the caller waits.
        """
        deadline = time.monotonic() + PATIENCE
        while not self._given_up and not self._is_readable():
            if time.monotonic() > deadline:
                self._warn(f"it has been locked for {PATIENCE:.0f} s")
                self._given_up = True
                return
            await asyncio.sleep(RETRY)

    def close(self) -> None:
        """Store what is still held, if that can be done within some seconds, and close the file."""
        with self._lock:
            if self._held and self._db is not None:
                self._db.execute(f"PRAGMA busy_timeout = {1000 * LAST_TRY}")
                self._again = 0.0
                self._store_held()
            if self._held and not self._warned:
                self._warn(f"{len(self._held)} verdicts could not be stored in it")
            self._held.clear()
            self._given_up = True
            if self._db is not None:
                self._db.close()
                self._db = None

    def _open(self) -> None:
        if self._given_up or self._db is not None or time.monotonic() < self._again:
            return
        db = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(self.path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            db.execute("PRAGMA journal_mode=WAL")  # readers and one writer at a time, across processes
            db.execute("PRAGMA synchronous=NORMAL")  # survives a killed process; a power cut may cost the last few
            db.execute("PRAGMA cache_size=-256")  # KiB, however many verdicts there are
            db.execute(_TABLE)
            db.executescript("BEGIN IMMEDIATE; ROLLBACK")  # which fails where nothing can be written
            self._db = db
        except (sqlite3.Error, OSError) as error:
            if db is not None:
                db.close()
            self._failed(error)
            self._given_up = not _is_locked(error)

    def _is_readable(self) -> bool:
        with self._lock:
            if time.monotonic() < self._unreadable_until:
                return False
            self._open()
            try:
                found = self._db and self._db.execute("SELECT 1 FROM verdict LIMIT 1").fetchall()
            except sqlite3.Error as error:
                found = None if _is_locked(error) else []  # the next reading says what is wrong
            if found is None and not self._given_up:
                self._unreadable_until = time.monotonic() + RETRY  # for all who wait
                return False
            return True

    def _read(self, key: str) -> str | None:
        with self._lock:
            self._open()
            self._store_held()
            if self._db is None:
                return None
            try:
                row = self._db.execute("SELECT reply FROM verdict WHERE key = ?", (key,)).fetchone()
                return row and row[0]
            except sqlite3.Error as error:
                self._failed(error)
                if not _is_locked(error):
                    self._given_up = True
                    self._db.close()
                    self._db = None
                return None

    def _store_held(self) -> None:
        """Store what waits; after a failure, not before ``RETRY`` seconds are over."""
        if not self._held or self._db is None or time.monotonic() < self._again:
            return
        try:
            for key, reply in list(self._held.items()):
                self._db.execute("INSERT OR REPLACE INTO verdict VALUES (?, ?)", (key, reply))
                del self._held[key]
        except sqlite3.Error as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._again = time.monotonic() + RETRY
        if not _is_locked(error):
            self._warn(error)

    def _warn(self, what: Exception | str) -> None:
        if str(what) not in self._warned:
            self._warned.add(str(what))
            log.warning(
                "The verdict cache %s cannot be used (%s). The run goes on without it, and new verdicts are in the "
                "results only. judge_cache=PATH names another file.",
                self.path,
                what,
            )


def _is_locked(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # before Python 3.11, where only the words tell
        return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
