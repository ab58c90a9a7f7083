"""OpenAI's Batch API as the judge uses it: upload, create, find again, wait, download; no question is known here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import openai
from tqdm import tqdm

from lm_eval_tasks.judge.jobs import Job, Jobs
from lm_eval_tasks.server.client import Client
from lm_eval_tasks.server.keys import without_keys
from lm_eval_tasks.server.replies import read
from lm_eval_tasks.settings import JudgeSettings

log = logging.getLogger(f"lm_eval.{__name__}")

ENDPOINT = "/v1/chat/completions"
SETTLE = 60.0
"""Seconds after which a batch whose creation got no answer is listed if it was created."""

_ENDED = ("completed", "failed", "expired", "cancelled")
_LISTED = 1000
_MARK = "lm_eval_tasks"


class Trouble(Exception):
    """Nothing more can be done about batches now; the text says why. What was submitted is kept."""


class OneLost(Trouble):
    """A single batch cannot be read."""


async def check(judge: Any) -> None:
    """Make sure that the judge's server takes batches, which costs nothing.

    Raises:
        ValueError: it does not; one line.
    """
    try:
        page = await judge.client.api().batches.list(limit=1)
        if not isinstance(getattr(page, "data", None), list):
            raise openai.OpenAIError("its list of batches is none")
    except (openai.OpenAIError, ValueError, TypeError, AttributeError) as error:
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
            Trouble: there is no batch, or the disk does not take it.
        """
        try:
            self.jobs.save(job)
        except OSError as error:
            raise Trouble(f"{self.jobs.folder} cannot be written ({error}), so nothing is submitted") from None
        try:
            sent = await self.api.files.create(file=(f"{job.token}.jsonl", content), purpose="batch")
            job.file_id = _text(_fields(sent), "id")
            if not job.file_id:
                raise openai.OpenAIError("the reply names no file")
        except openai.OpenAIError as error:
            self.jobs.drop(job)
            raise Trouble(f"the requests could not be uploaded ({told(error)})") from None
        self.jobs.save(job)
        once = self.api.with_options(max_retries=0)  # a second try could be a second batch
        try:
            batch = await once.batches.create(
                input_file_id=job.file_id,
                endpoint=ENDPOINT,
                completion_window="24h",
                metadata={_MARK: job.token},
            )
            job.batch_id = _text(_fields(batch), "id")
            if not job.batch_id:
                raise openai.OpenAIError("the reply names no batch")
        except openai.OpenAIError as error:
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
        unknown = f"whether a batch of the file {job.file_id} was created is not known"
        seen = 0
        try:
            async for batch in self.api.batches.list(limit=100):
                found = _fields(batch)
                mark = _fields(found.get("metadata")).get(_MARK)
                if job.token == mark or job.file_id == found.get("input_file_id"):
                    job.batch_id = _text(found, "id")
                    self.jobs.save(job)
                    return bool(job.batch_id)
                if mark is None and not found.get("input_file_id"):
                    raise Trouble(f"{unknown} (the list of batches does not name their files)")
                seen += 1
                if seen == _LISTED:
                    raise Trouble(f"{unknown} (it is not among the last {_LISTED})")
        except (openai.OpenAIError, ValueError, TypeError, AttributeError) as error:  # or a list that is none
            raise Trouble(f"{unknown} ({told(error)})") from None
        return False

    async def until_one_ended(self, jobs: list[Job], bar: tqdm) -> list[Job]:
        """Wait until a batch has ended and its results are here.

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
                    anew = f"; to submit its questions anew, and pay for them again, remove {self.jobs.file(job)}"
                    self.lost[job.token] = str(trouble)
                    log.error("Batch %s: %s%s.", job.batch_id, trouble, anew)
            if (ended := [job for job in jobs if job.ended]) or not states:
                return ended
            bar.set_postfix_str(_progress(states))
            await asyncio.sleep(self.settings.judge_batch_poll)

    async def _look(self, job: Job) -> dict[str, Any]:
        """A batch as the server shows it; where it has ended, its results are fetched and kept."""
        batch = _fields(await self._patiently(lambda: self.api.batches.retrieve(job.batch_id)))
        status = _text(batch, "status").lower().replace("canceled", "cancelled")
        if status not in _ENDED:
            return batch
        parts = []
        for file_id in filter(None, (_text(batch, "output_file_id"), _text(batch, "error_file_id"))):
            found = await self._patiently(lambda file_id=file_id: self.api.files.content(file_id))
            parts.append(found.content.rstrip(b"\n") + b"\n")
        errors = _fields(batch.get("errors")).get("data")
        first = [_fields(error) for error in errors[:3]] if isinstance(errors, list) else []
        said = "; ".join(" ".join(filter(None, (_text(e, "code"), _text(e, "message")))) for e in first)
        job.ended, job.why = status, without_keys(said)[:300]
        try:
            self.jobs.keep_results(job, b"".join(parts))
        except OSError as error:
            raise Trouble(f"{self.jobs.folder} cannot be written ({error})") from None
        return batch

    async def _patiently(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """A call that may be made again and again: until it succeeds, or ``judge_patience`` is over."""
        begun = time.monotonic()
        while True:
            try:
                return await call()
            except openai.APIStatusError as error:
                if error.status_code < 500 and error.status_code not in (408, 409, 429):
                    raise OneLost(f"cannot be read ({told(error)})") from None
                last = error
            except openai.OpenAIError as error:
                last = error
            if time.monotonic() - begun > self.settings.judge_patience:
                raise Trouble(f"a batch is under way, and its server does not answer ({told(last)})")
            await asyncio.sleep(min(self.settings.judge_batch_poll, 10.0))


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
