"""Verdicts through OpenAI's Batch API, at half the price: a batch fills the verdict cache, and judging runs as ever.

A request's ``custom_id`` is its question's key, so that a result finds its place in any process. What a batch leaves
without any reply is not asked directly unless the user says so: that would cost what was not agreed to.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from tqdm import tqdm

from lm_eval_tasks.judge.batch_server import ENDPOINT, BatchServer, Trouble
from lm_eval_tasks.judge.budget import prompt_tokens
from lm_eval_tasks.judge.jobs import Job, Jobs
from lm_eval_tasks.judge.question import NoVerdict, Question
from lm_eval_tasks.server.dialect import adapted
from lm_eval_tasks.server.outcome import Kind, Outcome, lost
from lm_eval_tasks.server.replies import read

log = logging.getLogger(f"lm_eval.{__name__}")

MAX_REQUESTS = 50_000
MAX_BYTES = 190_000_000
"""Of one file; OpenAI takes 200 MB."""
_NOT_AGAIN = ("failed", "cancelled")
"""Ends after which its questions are not put into another batch by the same command."""
_ANSWERED = (Kind.REPLY, Kind.CUT, Kind.BROKEN, Kind.REFUSED)


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
            if getattr(trouble, "remedy", ""):
                log.error(trouble.remedy)
            work.silent = dict.fromkeys(work.wanted, f"batch: {trouble}")
        for held in work.held.values():  # of a batch without an end: it may cost as much, and nobody may wait for it
            judge.budget.give_back(held, held)
        judge.withheld.update({key: work.silent[key] for key in work.wanted if key in work.silent})


class _Fill:
    """One filling.

    Attributes:
        wanted: key -> rounds that it has been through, of the questions without a verdict.
        silent: key -> why no reply came, of the questions that must therefore not be asked directly.
        held: key -> tokens of the budget, of what this process submitted.
    """

    def __init__(self, judge: Any, questions: Callable[[], Iterable[Question]], wanted: dict[str, int]) -> None:
        self.judge, self.questions, self.wanted = judge, questions, wanted
        self.settings = judge.settings
        self.jobs = Jobs(judge.cache.path)
        self.server = BatchServer(judge.client, judge.settings, self.jobs)
        self.rounds = 1 if self.settings.judge_batch_rest == "direct" else 2
        self.silent: dict[str, str] = {}
        self.held: dict[str, int] = {}
        self._done_with: set[str] = set()  # refused one by one, or their batch failed or was cancelled

    async def run(self) -> None:
        """Submit, wait and collect until nothing is left that a batch may still give.

        Raises:
            Trouble: the server cannot be used, or the disk.
        """
        with tqdm(total=len(self.wanted), desc="Batch", unit="verdict", dynamic_ncols=True) as bar:
            while self.wanted:
                async with self.jobs.alone():
                    self._leave_out_known()
                    jobs = self.jobs.with_any(self.wanted)
                    for job in [job for job in jobs if not job.batch_id]:
                        if not await self.server.find(job):
                            self.jobs.drop(job)
                            jobs.remove(job)
                    under_way = {key for job in jobs for key in job.keys}
                    jobs += [job async for job in self._submit(under_way)]
                jobs = [job for job in jobs if job.token not in self.server.lost]
                if not jobs:
                    break
                for job in await self.server.until_one_ended(jobs, bar):
                    async with self.jobs.alone():
                        self._leave_out_known()
                        self._collect(job)
                bar.n = bar.total - len(self.wanted)
        for job in self.jobs.with_any(self.wanted) if self.server.lost else ():
            if why := self.server.lost.get(job.token):
                self.silent |= {key: f"batch: {job.batch_id} {why}" for key in job.keys if key in self.wanted}

    def _leave_out_known(self) -> None:
        """Take off what another process has put into the cache meanwhile."""
        for key in [key for key in self.wanted if self.judge.has(key)]:
            del self.wanted[key]
            self.silent.pop(key, None)
            if held := self.held.pop(key, 0):
                self.judge.budget.give_back(held, held)

    async def _submit(self, under_way: set[str]) -> AsyncIterator[Job]:
        """Submit what is in no batch, in files as large as they may be; gives the jobs."""
        for rounds in range(self.rounds):
            keys = {
                key
                for key, had in self.wanted.items()
                if had == rounds and key not in under_way and key not in self._done_with
            }
            for content, held in self._requests(keys, rounds + 1):
                if not self.judge.cache.writable:
                    raise Trouble("the verdict cache cannot be written, so nothing is submitted")
                yield await self.server.create(Job(held, rounds + 1), content)

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
            request = self.judge.asker.request(question, number)
            held = prompt_tokens(request["messages"]) + request["max_tokens"]
            if not self.judge.budget.take(held):
                self.judge.budget.stop()
                self.silent[key] = self.judge.budget.reached
                self._done_with.add(key)
                continue
            self.held[key] = held
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
            log.warning(
                "Batch %s: %d lines of its results are about questions that were not in it.", job.batch_id, unknown
            )
        for question in self.questions():
            key = self.judge.key(question)
            if key in outcomes:
                self._conclude(question, key, outcomes.pop(key), job)
        if not self.judge.cache.writable:
            raise Trouble("the verdict cache cannot be written; the results stay beside it")
        self.jobs.looked_at(job, mine | set(filter(self.judge.has, job.keys)))
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
        if held := self.held.pop(key, 0):
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
