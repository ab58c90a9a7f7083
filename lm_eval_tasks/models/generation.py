"""Sends a model's requests: each is built when its turn has come, and each ends with an answer or with a reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lm_eval.api.instance import Instance
from tqdm import tqdm

from lm_eval_tasks.audio.clips import BadAudio
from lm_eval_tasks.harness import compat
from lm_eval_tasks.models.answering import conclude, keep
from lm_eval_tasks.runs.answers import Answer, Unanswered
from lm_eval_tasks.server.client import NOT_ASKED as CALL_NOT_MADE
from lm_eval_tasks.server.client import Client
from lm_eval_tasks.server.connection import shown
from lm_eval_tasks.server.outcome import Kind

log = logging.getLogger(f"lm_eval.{__name__}")

NOT_ASKED = "model unavailable"
"""The reason of requests that were not sent because the server had refused for good or gone."""


class Generation:
    """The requests of an ``AudioChatCompletions``, sent at most ``num_concurrent`` at a time.

    Attributes:
        answers: in the order of the requests; ``Unanswered`` where there is none.
    """

    def __init__(self, model: Any, requests: list[Instance], bar: tqdm) -> None:
        self.model, self.requests, self.bar = model, requests, bar
        self.answers: list[str] = [Unanswered(NOT_ASKED)] * len(requests)
        self._notice = ""
        self._seen: dict[str, str] = {}  # reason -> what the server said first
        self._first: str | None = None  # the first failure for which there is a remedy
        self._resumes = compat.resumes(model)  # answers of this run, of which the other requests are left
        compat.keep_without_waiting(model)

    def run(self) -> None:
        """Send everything, beside a running event loop (a notebook's) from a thread of its own."""
        _run(self._send_all())

    async def _send_all(self) -> None:
        waiting = iter(enumerate(self.requests))
        client = self._client = Client(self.model.server())
        client.pace.notice = self._noticed

        async def work() -> None:
            for index, request in waiting:
                if client.stopped is not None:
                    return
                self.answers[index] = await self._answer(client, request)
                self._show(request)

        self._keeping = ThreadPoolExecutor(client.server.concurrency, "keep-answer")  # each may wait for the judge
        workers = [asyncio.create_task(work()) for _ in range(client.server.concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await client.close()
            self._keeping.shutdown(wait=False)

    def _noticed(self, text: str) -> None:
        self._notice = text
        self.bar.set_postfix_str(text)

    def _show(self, request: Instance) -> None:
        """One answer more, and how far the judge has come."""
        progress = getattr(request, "progress", None)
        told = " \u00b7 ".join(filter(None, (progress() if progress else "", self._notice)))
        self.bar.set_postfix_str(told, refresh=False)
        self.bar.update()

    async def _answer(self, client: Client, request: Instance) -> str:
        """One answer, stored and handed on the moment it is there."""
        chat, gen_kwargs = request.args
        try:
            body, encode, sent = await asyncio.to_thread(self.model.request_of, chat, gen_kwargs)
        except BadAudio as error:
            return self._without("audio gone or damaged", str(error))
        request.arguments = (sent, gen_kwargs)  # by which its answer is kept
        outcome = await client.ask(body, encode)
        if outcome.reason == CALL_NOT_MADE or outcome.kind is Kind.HOPELESS:
            return Unanswered(NOT_ASKED, outcome.words)
        answer = self.model.answer_of(outcome, gen_kwargs, tuple(sorted(client.given_up)))
        if isinstance(answer, Unanswered):
            if outcome.remedy and self._first is None:
                self._first = outcome.explained()
            return self._without(answer.reason, answer.detail)
        await asyncio.get_running_loop().run_in_executor(self._keeping, keep, self.model, request, answer)
        return answer

    def _without(self, reason: str, words: str) -> Unanswered:
        if reason not in self._seen:
            self._seen[reason] = words
            log.warning("A request has no answer: %s. %s", reason, words)
        return Unanswered(reason, words)

    def conclude(self) -> None:
        """Say what is missing or cut; raise where a task cannot do without it."""
        cut = sum(isinstance(answer, Answer) and answer.cut for answer in self.answers)
        if cut:
            log.warning(
                "%d of %d ANSWERS ARE CUT by the token limit, or are half a thought: they are judged as they are, and "
                "counted. For more room: --gen_kwargs max_gen_toks=...",
                cut,
                len(self.answers),
            )
        stopped, first = self._client.stopped, self._first or next(filter(None, self._seen.values()), "")
        cause = f" {stopped.rstrip('.')}." if stopped else f" The first of them: {first}" if first else ""
        others = self._resumes or self.model.world_size > 1
        may_be_all = self._resumes and self._client.refuses if stopped else others
        conclude(f"The model at {shown(self.model.base_url)}", self.requests, self.answers, cause, may_be_all)


def _run(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
