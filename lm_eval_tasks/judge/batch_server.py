"""OpenAI's Batch API as the judge uses it: upload, create, find again, wait, download; no question is known here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import openai
from tqdm import tqdm

from lm_eval_tasks.judge.jobs import Job, Jobs
from lm_eval_tasks.server.client import Client
from lm_eval_tasks.server.connection import time_limit
from lm_eval_tasks.server.keys import without_keys
from lm_eval_tasks.server.replies import read
from lm_eval_tasks.settings import JudgeSettings

log = logging.getLogger(f"lm_eval.{__name__}")

ENDPOINT = "/v1/chat/completions"
SETTLE = 60.0
"""Seconds after which a batch whose creation got no answer is listed if it was created."""

WINDOW = 86_400.0
"""Seconds in which a batch is to be done, where the server does not say."""

LONGEST_WINDOW = 14 * 86_400.0
"""What no server's window exceeds; a longer one is not believed."""

GRACE = 3600.0
"""Seconds beyond its window for which a batch without a known end is waited for."""

LARGEST_RESULTS = 1 << 29
"""Bytes; 50,000 verdicts with their reasoning have a tenth of that."""

_TRANSFER = 1800.0
"""Seconds that a file may take, in either direction."""

_ENDED = ("completed", "failed", "expired", "cancelled")
_LISTED = 1000
_MARK = "lm_eval_tasks"


class Trouble(Exception):
    """Nothing more can be done about batches now; the text says why. What was submitted is kept.

    Attributes:
        remedy: what the user can do about it, or "".
    """

    remedy = ""


class OneLost(Trouble):
    """A single batch cannot be read."""


async def check(judge: Any) -> None:
    """Make sure that the judge's server takes batches, which costs nothing.

    Raises:
        ValueError: it does not; one line.
    """
    try:
        async with time_limit(judge.settings.judge_timeout):
            page = await judge.client.api().batches.list(limit=1)
        if not isinstance(getattr(page, "data", None), list):
            raise openai.OpenAIError("its list of batches is none")
    except Exception as error:  # no reply, or one that is none, in whatever way
        raise ValueError(
            f"{judge.client.server.who} does not take batches ({told(error)}): leave judge_batch out. Nothing "
            "has been generated or paid for."
        ) from None


class BatchServer:
    """The server of batches; what it was asked for is on disk before anything else can happen.

    Args:
        client: the judge's.
        settings: how often to look and how long to wait.
        jobs: where batches are noted.

    Attributes:
        lost: token of a job whose batch can't be read -> why.
    """

    def __init__(self, client: Client, settings: JudgeSettings, jobs: Jobs) -> None:
        self.api, self.settings, self.jobs = client.api(), settings, jobs
        self.lost: dict[str, str] = {}

    async def create(self, job: Job, content: bytes) -> Job:
        """Upload and submit. The job is on the disk before, and the batch's id the moment that it is known.

        Raises:
            Trouble: there is no batch.
            OSError: the disk does not take it; then nothing is submitted.
        """
        self.jobs.save(job)
        limit = self.settings.judge_timeout
        try:
            upload = self.api.files.create(file=(f"{job.token}.jsonl", content), purpose="batch")
            job.file_id = await _id(upload, max(limit, _TRANSFER))
        except Exception as error:
            self.jobs.drop(job)
            raise Trouble(f"the requests could not be uploaded ({told(error)})") from None
        self.jobs.save(job)
        once = self.api.with_options(max_retries=0)  # a second try could be a second batch
        given = {"endpoint": ENDPOINT, "completion_window": "24h", "metadata": {_MARK: job.token}}
        try:
            job.batch_id = await _id(once.batches.create(input_file_id=job.file_id, **given), limit)
        except Exception as error:
            status = getattr(error, "status_code", 500)
            refused = status < 500 and status not in (408, 409)
            if refused or not await self.find(job):
                self.jobs.drop(job)
                what = "was refused" if refused else "could not be created"
                raise Trouble(f"the batch {what} ({told(error)})") from None
        self.jobs.save(job)
        log.info("Batch %s: %d questions submitted.", job.batch_id, len(job.keys))
        return job

    async def find(self, job: Job) -> bool:
        """Whether a batch that may have been created was; then the job gets its id.

        Raises:
            Trouble: the server does not say.
        """
        if not job.file_id:  # nothing was submitted yet
            return False
        await asyncio.sleep(max(0.0, min(SETTLE, job.created + SETTLE - time.time())))
        try:
            async with time_limit(self.settings.judge_timeout):
                job.batch_id = await self._find(job)
        except Exception as error:  # or a list that is none
            unknown = Trouble(f"whether a batch of the file {job.file_id} was created is not known ({told(error)})")
            unknown.remedy = f"Look it up there; where there is none, remove {self.jobs.file(job)} to submit it anew."
            raise unknown from None
        if job.batch_id:
            self.jobs.save(job)
        return bool(job.batch_id)

    async def _find(self, job: Job) -> str:
        """The id of the batch that was made of a job's file; "" where there is none."""
        seen = 0
        async for batch in self._listed():
            found = _fields(batch)
            mark = _fields(found.get("metadata")).get(_MARK)
            if job.token == mark or job.file_id == found.get("input_file_id"):
                if not _text(found, "id"):
                    raise openai.OpenAIError("the list of batches does not name it")
                return _text(found, "id")
            if mark is None and not found.get("input_file_id"):
                raise openai.OpenAIError("the list of batches does not say of which files they are")
            seen += 1
            if seen == _LISTED:
                raise openai.OpenAIError(f"it is not among the last {_LISTED}")
        return ""

    async def _listed(self) -> AsyncIterator[Any]:
        """All batches, the newest first."""
        page = await self.api.batches.list(limit=100)
        while True:
            if not isinstance(getattr(page, "data", None), list):
                raise openai.OpenAIError("its list of batches is none")
            for batch in page.data:
                yield batch
            if not page.data or not page.has_next_page():
                return
            page = await page.get_next_page()

    async def until_one_ended(self, jobs: list[Job], bar: tqdm) -> list[Job]:
        """Wait until a batch has ended and its results are here.

        A batch that has no known end when its window and ``GRACE`` are over is ``lost``, as one that can't be read.

        Returns:
            The jobs of which that is true; none where the batches of all are ``lost``.
        """
        while True:
            states = []
            for job in jobs:
                try:
                    if not job.ended and job.token not in self.lost:
                        states.append((job, await self._look(job)))
                except OneLost as trouble:
                    self.lost[job.token] = str(trouble)
                    log.error(
                        "Batch %s %s. The same command looks at it again; to submit its questions anew, and pay for "
                        "them again, remove %s.",
                        *(job.batch_id, trouble, self.jobs.file(job)),
                    )
            if (ended := [job for job in jobs if job.ended]) or not states:
                return ended
            bar.set_postfix_str(_progress(states))
            await asyncio.sleep(self.settings.judge_batch_poll)

    async def _look(self, job: Job) -> dict[str, Any]:
        """A batch as the server shows it; where it has ended, its results are fetched and kept."""
        limit = self.settings.judge_timeout
        batch = await self._patiently(lambda: self._state(job), limit)
        status = _text(batch, "status").lower().replace("canceled", "cancelled")
        files = [*filter(None, (_text(batch, "output_file_id"), _text(batch, "error_file_id")))]
        replies = _fields(batch.get("request_counts")).get("completed")
        lacks = status == "completed" and not files and isinstance(replies, int) and replies > 0
        if status not in _ENDED or lacks:
            if time.time() > job.created + _window(batch) + GRACE:
                raise OneLost(f"is still {_text(batch, 'status')!r}{' without its results' if lacks else ''}")
            return batch
        parts = [await self._patiently(lambda file=file: self._content(file), max(limit, _TRANSFER)) for file in files]
        errors = _fields(batch.get("errors")).get("data")
        first = [_fields(error) for error in errors[:3]] if isinstance(errors, list) else []
        said = "; ".join(" ".join(filter(None, (_text(e, "code"), _text(e, "message")))) for e in first)
        job.ended, job.why = status, without_keys(said)[:300]
        async with self.jobs.alone():
            self.jobs.keep_results(job, b"".join(parts))
        return batch

    async def _state(self, job: Job) -> dict[str, Any]:
        """A batch as the server shows it."""
        batch = _fields(await self.api.batches.retrieve(job.batch_id))
        if not _text(batch, "status"):
            raise openai.OpenAIError("the reply is no batch")
        return batch

    async def _content(self, file_id: str) -> bytes:
        """A file of the server, with a line's end behind it."""
        content = bytearray()
        async with self.api.files.with_streaming_response.content(file_id) as found:
            async for part in found.iter_bytes():
                content += part
                if len(content) > LARGEST_RESULTS:
                    raise OneLost(f"has results of more than {LARGEST_RESULTS >> 20} MB")
        return bytes(content.rstrip(b"\n") + b"\n")

    async def _patiently(self, call: Callable[[], Awaitable[Any]], limit: float) -> Any:
        """A call that may be made again and again: until it succeeds, or ``judge_patience`` is over.

        Args:
            call: makes it.
            limit: seconds that one of them may take.
        """
        begun = time.monotonic()
        while True:
            try:
                async with time_limit(limit):
                    return await call()
            except OneLost:
                raise
            except openai.APIStatusError as error:
                if error.status_code < 500 and error.status_code not in (408, 409, 429):
                    raise OneLost(f"cannot be read ({told(error)})") from None
                last = error
            except Exception as error:  # no reply, or one that is none, in whatever way
                last = error
            if time.monotonic() - begun > self.settings.judge_patience:
                raise Trouble(f"a batch is under way, and its server does not answer ({told(last)})")
            await asyncio.sleep(min(self.settings.judge_batch_poll, 10.0))


async def _id(call: Awaitable[Any], limit: float) -> str:
    """The id of what a call made, in at most so many seconds; raises where none comes back, in whatever way."""
    async with time_limit(limit):
        found = _text(_fields(await call), "id")
    if not found:
        raise openai.OpenAIError("the reply names no id")
    return found


def _window(batch: dict[str, Any]) -> float:
    """Seconds from its creation in which a batch is to be done, by the server's own clock."""
    begun, ends = batch.get("created_at"), batch.get("expires_at")
    told = ends - begun if isinstance(begun, (int, float)) and isinstance(ends, (int, float)) else 0
    return float(told) if 0 < told <= LONGEST_WINDOW else WINDOW


def _progress(states: list[tuple[Job, dict[str, Any]]]) -> str:
    """Where batches under way stand."""
    counts = [_fields(batch.get("request_counts")) for _, batch in states]
    done, failed, total = (
        sum(count[name] for count in counts if isinstance(count.get(name), int))
        for name in ("completed", "failed", "total")
    )
    age = timedelta(seconds=round(time.time() - min(job.created for job, _ in states)))
    statuses = ", ".join(dict.fromkeys(_text(batch, "status") or "no status" for _, batch in states))
    return f"{done} done / {failed} failed / {total}, {statuses}, age {age}"


def _fields(found: Any) -> dict[str, Any]:
    """A reply's fields, whatever they hold; {} where it is no object."""
    if isinstance(found, openai.BaseModel):
        found = found.to_dict(warnings=False)
    return found if isinstance(found, dict) else {}


def _text(fields: dict[str, Any], name: str) -> str:
    """A field's text; "" where it has none."""
    return fields[name] if isinstance(fields.get(name), str) else ""


def told(error: Exception) -> str:
    """An error of the openai client in a few words, without keys."""
    if isinstance(error, openai.APIStatusError):
        return read(error.status_code, {}, error.response.content).explained()[:300].rstrip(".")
    return without_keys(" ".join(str(error).split()))[:200].rstrip(".") or type(error).__name__
