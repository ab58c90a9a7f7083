"""Verdicts through OpenAI's Batch API, at half the price: a batch fills the verdict cache, and judging runs as ever.

A request's ``custom_id`` is its question's key, so that a result finds its place in any process. What a batch leaves
without any reply is not asked directly unless the user says so: that would cost what was not agreed to.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import openai
from tqdm import tqdm

from lm_eval_tasks.judge.budget import prompt_tokens
from lm_eval_tasks.judge.jobs import Job, Jobs
from lm_eval_tasks.judge.question import NoVerdict, Question
from lm_eval_tasks.server.dialect import adapted
from lm_eval_tasks.server.keys import without_keys
from lm_eval_tasks.server.outcome import Kind, Outcome, lost, read

log = logging.getLogger(f"lm_eval.{__name__}")

MAX_REQUESTS = 50_000
MAX_BYTES = 190_000_000
"""Of one file; OpenAI takes 200 MB."""
ENDPOINT = "/v1/chat/completions"
SETTLE = 60.0
"""Seconds after which a batch whose creation got no answer is listed if it was created."""

_ENDED = ("completed", "failed", "expired", "cancelled")
_NOT_AGAIN = ("failed", "cancelled")
"""Ends after which its questions are not put into another batch by the same command."""
_ANSWERED = (Kind.REPLY, Kind.CUT, Kind.BROKEN, Kind.REFUSED)
_LISTED = 1000
_MARK = "lm_eval_tasks"


class Trouble(Exception):
    """Nothing more can be done about batches now; the text says why. What was submitted is kept."""


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
            f"{judge.client.server.who} does not take batches ({_told(error)}): leave judge_batch out, or set "
            "judge_base_url to a server that has OpenAI's Batch API. Nothing has been generated or paid for."
        ) from None


async def fill(judge: Any, questions: Callable[[], Iterable[Question]]) -> None:
    """Put the verdicts on all questions into the cache that a batch can give; goes on with what was submitted before.

    Args:
        judge: a ``Judge``. Its ``withheld`` gets the questions that must not be asked directly, each with the reason.
        questions: gives all of them anew with each call; those that are known cost nothing.
    """
    wanted = {key: 0 for question in questions() if (key := judge.key(question)) and not judge.knows(question)}
    if wanted:
        work = _Fill(judge, questions, wanted)
        try:
            await work.run()
        except (Trouble, OSError) as trouble:
            log.error("%s: %s. The same command goes on with what was submitted.", judge.client.server.who, trouble)
            work.silent = dict.fromkeys(work.wanted, f"batch: {trouble}")
        judge.withheld.update({key: work.silent[key] for key in work.wanted if key in work.silent})


class _Fill:
    """One filling.

    Attributes:
        wanted: key -> rounds that it has been through, of the questions without a verdict.
        silent: key -> why no reply came, of the questions that must therefore not be asked directly.
    """

    def __init__(self, judge: Any, questions: Callable[[], Iterable[Question]], wanted: dict[str, int]) -> None:
        self.judge, self.questions, self.wanted = judge, questions, wanted
        self.settings = judge.settings
        self.api = judge.client.api()
        self.jobs = Jobs(judge.cache.path)
        self.rounds = 1 if self.settings.judge_batch_rest == "direct" else 2
        self.silent: dict[str, str] = {}
        self._held: dict[str, int] = {}  # key -> tokens of the budget, of what this process submitted
        self._done_with: set[str] = set()  # refused one by one, or their batch failed or was cancelled

    async def run(self) -> None:
        """Submit, wait and collect until nothing is left that a batch may still give.

        Raises:
            Trouble: the server cannot be used, or the disk.
        """
        with tqdm(total=len(self.wanted), desc="Batch", unit="verdict", dynamic_ncols=True) as bar:
            while self.wanted:
                with self.jobs.alone():
                    jobs = self.jobs.with_any(self.wanted)
                    for job in [job for job in jobs if not job.batch_id]:
                        if not await self._found(job):
                            self.jobs.drop(job)
                            jobs.remove(job)
                    under_way = {key for job in jobs for key in job.keys}
                    jobs += [job async for job in self._submit(under_way)]
                if not jobs:
                    return
                for job in await self._until_one_ended(jobs, bar):
                    with self.jobs.alone():
                        self._collect(job)
                bar.n = bar.total - len(self.wanted)

    async def _submit(self, under_way: set[str]) -> AsyncIterator[Job]:
        """Submit what is in no batch, in files as large as they may be; gives the jobs."""
        for rounds in range(self.rounds):
            keys = {
                key
                for key, had in self.wanted.items()
                if had == rounds and key not in under_way and key not in self._done_with
            }
            for content, held in self._requests(keys, rounds + 1):
                yield await self._create(Job(held, rounds + 1), content)

    def _requests(self, keys: set[str], number: int) -> Iterator[tuple[bytes, list[str]]]:
        """Files of requests, each with the keys in it."""
        lines: list[bytes] = []
        inside: list[str] = []
        size, left = 0, set(keys)
        for question in self.questions() if keys else ():
            key = self.judge.key(question)
            if key not in left:
                continue
            left.discard(key)
            request = self.judge.request(question, number)
            held = prompt_tokens(request["messages"]) + request["max_tokens"]
            if not self.judge.budget.take(held):
                self.judge.budget.stop()
                self.silent[key] = self.judge.budget.reached
                self._done_with.add(key)
                continue
            self._held[key] = held
            body = adapted(request, self.judge.client.given_up)
            line = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
            content = json.dumps(line).encode() + b"\n"
            if lines and (len(lines) == MAX_REQUESTS or size + len(content) > MAX_BYTES):
                yield b"".join(lines), inside
                lines, inside, size = [], [], 0
            lines.append(content)
            inside.append(key)
            size += len(content)
        if lines:
            yield b"".join(lines), inside

    async def _create(self, job: Job, content: bytes) -> Job:
        """Upload and submit. The job is on the disk before, and the batch's id the moment that it is known."""
        if not self.judge.cache.writable:
            raise Trouble("the verdict cache cannot be written, so nothing is submitted")
        try:
            self.jobs.save(job)
        except OSError as error:
            raise Trouble(f"{self.jobs.folder} cannot be written ({error}), so nothing is submitted") from None
        try:
            sent = await self.api.files.create(file=(f"{job.token}.jsonl", content), purpose="batch")
        except openai.OpenAIError as error:
            self.jobs.drop(job)
            raise Trouble(f"the requests could not be uploaded ({_told(error)})") from None
        job.file_id = str(sent.id)
        self.jobs.save(job)
        once = self.api.with_options(max_retries=0)  # a second try could be a second batch
        try:
            batch = await once.batches.create(
                input_file_id=job.file_id,
                endpoint=ENDPOINT,
                completion_window="24h",
                metadata={_MARK: job.token},
            )
            job.batch_id = str(batch.id or "")
        except openai.APIStatusError as error:
            if error.status_code < 500 and error.status_code not in (408, 409):
                self.jobs.drop(job)
                raise Trouble(f"the batch was refused ({_told(error)})") from None
            if not await self._found(job):
                self.jobs.drop(job)
                raise Trouble(f"the batch could not be created ({_told(error)})") from None
        except openai.OpenAIError as error:
            if not await self._found(job):
                self.jobs.drop(job)
                raise Trouble(f"the batch could not be created ({_told(error)})") from None
        self.jobs.save(job)
        log.info("Batch %s: %d questions submitted.", job.batch_id, len(job.keys))
        return job

    async def _found(self, job: Job) -> bool:
        """Whether a batch that may have been created was; then the job gets its id.

        Raises:
            Trouble: the server does not say.
        """
        if not job.file_id:  # nothing was submitted yet
            return False
        await asyncio.sleep(max(0.0, min(SETTLE, job.created + SETTLE - time.time())))
        seen = 0
        try:
            async for batch in self.api.batches.list(limit=100):
                mark = (getattr(batch, "metadata", None) or {}).get(_MARK)
                if mark == job.token or getattr(batch, "input_file_id", None) == job.file_id:
                    job.batch_id = str(batch.id)
                    self.jobs.save(job)
                    return True
                seen += 1
                if seen == _LISTED:
                    raise Trouble(f"whether a batch of the file {job.file_id} was created cannot be found out")
        except openai.OpenAIError as error:
            raise Trouble(
                f"whether a batch of the file {job.file_id} was created is not known ({_told(error)})"
            ) from None
        return False

    async def _until_one_ended(self, jobs: list[Job], bar: tqdm) -> list[Job]:
        """Wait until a batch has ended and its results are here; gives the jobs of which that is true."""
        while True:
            states = []
            for job in jobs:
                if not job.ended:
                    batch = await self._patiently(lambda job=job: self.api.batches.retrieve(job.batch_id))
                    if batch.status in _ENDED:
                        await self._download(job, batch)
                    states.append((job, batch))
            if ended := [job for job in jobs if job.ended]:
                return ended
            bar.set_postfix_str(_progress(states))
            await asyncio.sleep(self.settings.judge_batch_poll)

    async def _download(self, job: Job, batch: Any) -> None:
        parts = []
        for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
            found = await self._patiently(lambda file_id=file_id: self.api.files.content(file_id))
            parts.append(found.content.rstrip(b"\n") + b"\n")
        errors = getattr(getattr(batch, "errors", None), "data", None) or []
        said = "; ".join(" ".join(str(part) for part in (e.code, e.message) if part) for e in errors[:3])
        job.ended, job.why = batch.status, without_keys(said)[:300]
        try:
            self.jobs.keep_results(job, b"".join(parts))
        except OSError as error:
            raise Trouble(f"{self.jobs.folder} cannot be written ({error})") from None

    async def _patiently(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """A call that may be made again and again: until it succeeds, or ``judge_patience`` is over."""
        begun = time.monotonic()
        while True:
            try:
                return await call()
            except openai.APIStatusError as error:
                if error.status_code < 500 and error.status_code not in (408, 409, 429):
                    raise Trouble(f"a batch under way cannot be read ({_told(error)})") from None
                last = error
            except openai.OpenAIError as error:
                last = error
            if time.monotonic() - begun > self.settings.judge_patience:
                raise Trouble(f"a batch is under way, and its server does not answer ({_told(last)})")
            await asyncio.sleep(min(self.settings.judge_batch_poll, 10.0))

    def _collect(self, job: Job) -> None:
        """Put a batch's usable replies into the cache, and note of each other question what became of it."""
        mine = set(job.keys) & self.wanted.keys()
        outcomes: dict[str, list[Outcome]] = {key: [] for key in mine}
        unknown = 0
        for line in self.jobs.results(job):
            key = line.get("custom_id")
            if isinstance(key, str) and key in mine:
                outcomes[key].append(_outcome(line, self.settings.judge_max_tokens * job.round))
            else:
                unknown += key not in job.keys
        if unknown:
            log.warning("Batch %s: %d lines are of questions that were not in it.", job.batch_id, unknown)
        for question in self.questions():
            key = self.judge.key(question)
            if key in outcomes:
                self._conclude(question, key, outcomes.pop(key), job)
        if not self.judge.cache.writable:
            raise Trouble("the verdict cache cannot be written; the results stay beside it")
        self.jobs.looked_at(job, mine)
        if job.ended != "completed":
            log.warning(
                "Batch %s: %s%s; %d of its %d questions have a verdict.",
                *(job.batch_id, job.ended, f" ({job.why})" if job.why else ""),
                *(len(mine - self.wanted.keys()), len(mine)),
            )

    def _conclude(self, question: Question, key: str, outcomes: list[Outcome], job: Job) -> None:
        """Store the first usable reply to a question; where there is none, note what may be done about it."""
        self.wanted[key] = job.round
        self.silent.pop(key, None)
        if held := self._held.pop(key, 0):
            used = sum(o.prompt_tokens + o.completion_tokens for o in outcomes[:1] if o.answered)
            self.judge.budget.give_back(held, used)
        for outcome in outcomes:
            if outcome.kind in (Kind.REPLY, Kind.CUT):
                with contextlib.suppress(NoVerdict):
                    self.judge.take(question, key, outcome, job.round)
                    del self.wanted[key]
                    return
        kinds = {outcome.kind for outcome in outcomes}
        over = job.ended in _NOT_AGAIN
        if Kind.REFUSED in kinds or over:
            self._done_with.add(key)
        if kinds.isdisjoint(_ANSWERED) and (over or self.rounds > 1):
            self.silent[key] = f"batch {job.ended}" if job.ended != "completed" else "batch: no reply"


def _outcome(line: dict[str, Any], max_tokens: int) -> Outcome:
    """What a line of a batch's results means."""
    response = line.get("response")
    status = response.get("status_code") if isinstance(response, dict) else None
    if line.get("error") or type(status) is not int:
        return lost("batch: no reply")
    return read(status, {}, json.dumps(response.get("body")).encode(), max_tokens)


def _progress(states: list[tuple[Job, Any]]) -> str:
    """Where batches under way stand."""
    counts = [batch.request_counts for _, batch in states if getattr(batch, "request_counts", None)]
    done, failed, total = (sum(getattr(c, name, 0) or 0 for c in counts) for name in ("completed", "failed", "total"))
    age = timedelta(seconds=round(time.time() - min(job.created for job, _ in states)))
    statuses = ", ".join(dict.fromkeys(str(batch.status) for _, batch in states))
    return f"{done} done / {failed} failed / {total}, {statuses}, age {age}"


def _told(error: Exception) -> str:
    """An error of the openai client in a few words, without keys."""
    if isinstance(error, openai.APIStatusError):
        return read(error.status_code, {}, error.response.content).explained()[:300].rstrip(".")
    return without_keys(" ".join(str(error).split()))[:200].rstrip(".") or type(error).__name__
