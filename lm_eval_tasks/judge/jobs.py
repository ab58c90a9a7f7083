"""Batches that were submitted or may have been: kept on disk beside the verdict cache, for any process to go on with.

A job is written before its batch is created and goes only when nothing of it is wanted any more. So a process may die
at any moment and no verdict is paid for twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

log = logging.getLogger(f"lm_eval.{__name__}")

_WORTH_A_LINE = 5.0
"""Seconds of waiting for another process of which the log tells."""


@dataclass
class Job:
    """One batch.

    Attributes:
        keys: of its questions whose results were not looked at yet.
        round: 1, or 2 where its questions had been in a batch before.
        token: names it here and in the batch's metadata.
        file_id: of the uploaded requests; "" before.
        batch_id: "" where it is not known whether the batch was created.
        created: Unix time.
        ended: how it ended; then its results are here.
        why: what the server said of a failure.
    """

    keys: list[str]
    round: int
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    file_id: str = ""
    batch_id: str = ""
    created: float = field(default_factory=time.time)
    ended: str = ""
    why: str = ""


class Jobs:
    """The jobs beside a verdict cache.

    Args:
        cache: the cache's file.
    """

    def __init__(self, cache: Path) -> None:
        self.folder = cache.with_name(f"{cache.name}.batches")
        self._lock = FileLock(self.folder / ".lock", thread_local=False)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Keep other processes from submitting and collecting meanwhile; waits for one that does.

        Raises:
            OSError: no lock can be had here.
        """
        told_at = time.monotonic() + _WORTH_A_LINE
        while True:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._lock.acquire(timeout=0)
                break
            except Timeout:
                if time.monotonic() > told_at:
                    log.info("Another process is submitting batches; waiting for it.")
                    told_at = math.inf
                await asyncio.sleep(0.05)
            except NotImplementedError as error:
                raise OSError(f"{self.folder}: its disk knows no locks ({error})") from None
        try:
            yield
        finally:
            self._lock.release()

    def with_any(self, keys: Iterable[str]) -> list[Job]:
        """The jobs that hold any of these questions, oldest first.

        Raises:
            OSError: one cannot be read: it may hold these.
        """
        wanted, found = set(keys), []
        for file in self.folder.glob("*.json"):
            job = _read(file)
            if job and not wanted.isdisjoint(job.keys):
                found.append(job)
        return sorted(found, key=lambda job: job.created)

    def save(self, job: Job) -> None:
        """Write a job; it is on the disk when this returns.

        Raises:
            OSError: it cannot be written.
        """
        self._write(self.file(job), json.dumps(asdict(job)).encode())

    def keep_results(self, job: Job, content: bytes) -> None:
        """Write what a batch gave, and that it ended; nothing where another process has been through with it."""
        if self.file(job).exists():
            self._write(self._results(job), content)
            self.save(job)

    def results(self, job: Job) -> Iterator[dict[str, object]]:
        """The lines of a batch's results; what is no JSON object is passed over."""
        file, odd = self._results(job), 0
        with file.open("rb") if file.exists() else nullcontext(()) as lines:
            for line in lines:
                try:
                    found = json.loads(line) if line.strip() else None
                except (ValueError, RecursionError):
                    found = None
                if isinstance(found, dict):
                    yield found
                else:
                    odd += bool(line.strip())
        if odd:
            log.warning("Batch %s: %d lines of its results are not JSON objects.", job.batch_id, odd)

    def looked_at(self, job: Job, keys: set[str]) -> None:
        """Take questions off a job; with the last one it goes."""
        there = _read(self.file(job))
        if there is None:  # another process was as fast
            return
        there.keys = [key for key in there.keys if key not in keys]
        if there.keys:
            self.save(there)
        else:
            self.drop(there)

    def drop(self, job: Job) -> None:
        """Forget a job."""
        self.file(job).unlink(missing_ok=True)
        self._results(job).unlink(missing_ok=True)

    def file(self, job: Job) -> Path:
        """Where a job is noted."""
        return self.folder / f"{job.token}.json"

    def _results(self, job: Job) -> Path:
        return self.folder / f"{job.token}.jsonl"

    def _write(self, file: Path, content: bytes) -> None:
        part = file.with_suffix(f"{file.suffix}.part")
        with part.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)


def _read(file: Path) -> Job | None:
    """A job's note; None where there is none. Raises ``OSError`` where it cannot be read: a batch may be under way."""
    try:
        return Job(**json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise OSError(f"{file} is damaged ({error}): a batch may be under way; move it away to go on") from None
