"""Verdicts on disk: each is stored the moment it arrives, so that no crash can lose what was paid for."""

from __future__ import annotations

import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

log = logging.getLogger(f"lm_eval.{__name__}")

_TABLES = """
CREATE TABLE IF NOT EXISTS verdict (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS finished (key TEXT PRIMARY KEY) WITHOUT ROWID;
"""


def cache_folder() -> Path:
    """Where verdicts and answers in waiting are kept (``XDG_CACHE_HOME`` moves it)."""
    return user_cache_path("lm-eval-tasks")


class VerdictCache:
    """An SQLite file that several processes may share.

    Whatever goes wrong with it (damaged, read-only, disk full) is one warning, and the run goes on without it. Where it
    can't be written any more, what was written before can still be read.

    Args:
        where: True for the file in the user's cache folder, a path for another one, False for none.
    """

    def __init__(self, where: str | bool) -> None:
        self.path = (
            None
            if where is False
            else cache_folder() / "verdicts.sqlite"
            if where is True
            else Path(where).expanduser()
        )
        self._db: sqlite3.Connection | None = None
        self._full = False
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")  # readers and one writer at a time, across processes
            self._db.execute(
                "PRAGMA synchronous=NORMAL"
            )  # survives a killed process; a power cut may cost the last few
            self._db.execute("PRAGMA cache_size=-256")  # KiB, however many verdicts there are
            self._db.executescript(_TABLES)
            self._db.execute("INSERT OR IGNORE INTO finished VALUES ('writable')")
        except (sqlite3.Error, OSError) as error:
            self._warn(error)
            self.close()

    @property
    def writable(self) -> bool:
        """Whether everything so far could be stored."""
        return self._db is not None and not self._full

    def get(self, key: str) -> dict[str, Any] | None:
        """The stored reply of a question, or None."""
        row = self._read("SELECT reply FROM verdict WHERE key = ?", key)
        try:
            return json.loads(row[0]) if row else None
        except ValueError:
            return None

    def put(self, key: str, reply: dict[str, Any]) -> None:
        """Store a usable reply. Unusable and cut-short ones must not come here."""
        self._write("INSERT OR REPLACE INTO verdict VALUES (?, ?)", key, json.dumps(reply))

    def is_finished(self, key: str) -> bool:
        """Whether a task with exactly these requests and settings was judged to its end before."""
        return self._read("SELECT 1 FROM finished WHERE key = ?", key) is not None

    def set_finished(self, key: str) -> None:
        """Remember that this task was judged to its end, so that doing it again needs no trial call."""
        self._write("INSERT OR IGNORE INTO finished VALUES (?)", key)

    def close(self) -> None:
        """Close the file. Nothing has to be flushed: every row was committed when it was stored."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _read(self, statement: str, *values: str) -> Any:
        try:
            return self._db.execute(statement, values).fetchone() if self._db else None
        except sqlite3.Error as error:
            self._warn(error)
            self.close()
            return None

    def _write(self, statement: str, *values: str) -> None:
        if self._db is None or self._full:
            return
        try:
            self._db.execute(statement, values)
        except sqlite3.Error as error:
            self._full = True
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        log.warning(
            "The verdict cache %s cannot be used (%s). The run goes on without it: its verdicts are in the results "
            "only and would be asked for again. Move the file away, free the disk, or pass judge_cache=PATH.",
            self.path,
            error,
        )
