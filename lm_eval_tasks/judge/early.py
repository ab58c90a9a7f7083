"""Questions that are put ahead of their turn: while the model is still answering, or a task before is being judged."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from typing import Any

from lm_eval_tasks.judge.asking import NOT_ASKED, UNREACHABLE
from lm_eval_tasks.judge.question import Question, Unjudged, Verdict

log = logging.getLogger(f"lm_eval.{__name__}")

BACKLOG = 4
"""So many questions for each call in flight may wait ahead of ``Judge.ask``."""


class Early:
    """What a judge was asked ahead of time. All but ``submit`` and ``progress`` run in the judge's event loop.

    Attributes:
        expected: questions that will be put before the last answer is there.
    """

    def __init__(self, judge: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._judge, self._loop = judge, loop
        self._backlog = threading.BoundedSemaphore(BACKLOG * judge.settings.judge_concurrency)
        self._tasks: dict[str, asyncio.Task[Verdict | Unjudged]] = {}
        self._running: set[asyncio.Task[Any]] = set()  # the loop itself would let go of them
        self.expected = self._verdicts = 0
        self._over = False
        self._notice = ""
        judge.client.pace.notice = self.noticed

    def noticed(self, text: str) -> None:
        """Take what holds the judge up, or ""."""
        self._notice = text

    def submit(self, question: Question, wait: float = 0.0) -> Future[Verdict | Unjudged] | None:
        """Put one question ahead of ``Judge.ask``, while the model is still answering; may be called from any thread.

        ``ask`` takes its outcome as its own, but puts it again after a failure that may have passed. None where enough
        are waiting to keep the judge busy, even ``wait`` seconds later: more need not be held in memory, for ``ask``
        will put them.
        """
        if not self._backlog.acquire(timeout=wait):
            return None
        future = asyncio.run_coroutine_threadsafe(self._put(question), self._loop)
        future.add_done_callback(lambda _: self._backlog.release())
        return future

    def go_on(self, questions: Iterator[Question], until: asyncio.Event) -> None:
        """Put what will be asked next, one question after the other, until an event is set."""
        self._start(self._put_until(questions, until))

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception():  # a question that cannot be made is met again in its turn
            log.debug("A question ahead of its turn: %r", task.exception())

    async def _put_until(self, questions: Iterator[Question], until: asyncio.Event) -> None:
        for question in questions:
            await asyncio.sleep(0)  # a known one costs no call, but time in which replies may come
            if until.is_set() or self._judge.stopped:
                return
            if not self._judge.knows(question):
                await self._put(question)

    def progress(self) -> str:
        """How far judging has come, for the bar of the model."""
        told = f"verdicts {self._verdicts}/{self.expected}"
        held_up = "judge stopped" if self._judge.stopped else self._notice
        return f"{told} \u00b7 {held_up}" if held_up else told

    async def outcome(self, key: str) -> Verdict | Unjudged | None:
        """What became of a question; None where it was not put early, or failed by what may have passed."""
        task = self._tasks.pop(key, None)
        outcome = await task if task else None
        passing = isinstance(outcome, Unjudged) and outcome.reason in (NOT_ASKED, UNREACHABLE)
        return None if passing else outcome

    def call_off(self) -> None:
        """Ask nothing more: the run was broken off."""
        self._over = True
        for task in self._running:
            task.cancel()
        self._tasks.clear()

    def begin(self) -> None:
        """Begin with another run, which has no answers yet."""
        self.call_off()
        self._over, self._verdicts = False, 0
        self._judge.paid.clear()

    async def _put(self, question: Question) -> Verdict | Unjudged:
        if self._over:  # a thread of the model that was broken off
            raise asyncio.CancelledError
        key = self._judge.key(question)
        if key not in self._tasks:
            self._tasks[key] = self._start(self._put_now(question, key))
        return await self._tasks[key]

    async def _put_now(self, question: Question, key: str) -> Verdict | Unjudged:
        outcome = await self._judge.put(question, key)
        if isinstance(outcome, Verdict):
            self._verdicts += 1
            if self._tasks.get(key) is asyncio.current_task() and self._judge.knows(question):
                del self._tasks[key]
                if not outcome.cached:
                    self._judge.paid.add(key)
        return outcome
