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
from lm_eval_tasks.errors import ModelUnavailable
from lm_eval_tasks.harness import compat
from lm_eval_tasks.models.missing import described, go_on_without, reasons
from lm_eval_tasks.runs.answers import Answer, Unanswered
from lm_eval_tasks.server.client import NOT_ASKED as CALL_NOT_MADE
from lm_eval_tasks.server.client import Client
from lm_eval_tasks.server.connection import shown
from lm_eval_tasks.server.outcome import Kind

log = logging.getLogger(f"lm_eval.{__name__}")

NOT_ASKED = "model unavailable"
"""The reason of requests that were not sent because the server had refused for good or gone."""


def generate(model: Any, requests: list[Instance], disable_tqdm: bool) -> list[str]:
    """Send all requests of an ``AudioChatCompletions``, at most ``num_concurrent`` at a time.

    Returns:
        The answers, in the order of the requests; ``Unanswered`` where there is none.

    Raises:
        ModelUnavailable: see ``AudioChatCompletions.generate_until``.
    """
    with tqdm(total=len(requests), desc="Requesting API", disable=disable_tqdm, dynamic_ncols=True) as bar:
        generation = Generation(model, requests, bar)
        _run(generation.run())
    generation.conclude()
    return generation.answers


class Generation:
    """Requests on their way.

    Attributes:
        answers: in the order of the requests.
        stopped: why no further request is sent, or None.
    """

    def __init__(self, model: Any, requests: list[Instance], bar: tqdm) -> None:
        self.model, self.requests, self.bar = model, requests, bar
        self.answers: list[str] = [Unanswered(NOT_ASKED)] * len(requests)
        self.stopped: str | None = None
        self._notice = ""
        self._refuses = False
        self._seen: dict[str, str] = {}  # reason -> what the server said first
        self._first: str | None = None  # the first failure for which there is a remedy
        self._resumes = compat.resumes(model)  # answers of this run, of which the other requests are left
        compat.keep_without_waiting(model)

    async def run(self) -> None:
        """Send everything."""
        waiting = iter(enumerate(self.requests))
        client = Client(self.model.server())
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
            self.stopped, self._refuses = client.stopped, client.refuses
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
        await asyncio.get_running_loop().run_in_executor(self._keeping, self._keep, request, answer)
        return answer

    def _keep(self, request: Instance, answer: str) -> None:
        compat.keep_answer(self.model, request, answer)
        hand_over = getattr(request, "on_answer", None)
        if hand_over:
            hand_over(request, answer)

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
        missing, total = reasons(self.requests, self.answers), len(self.requests)
        if sum(map(len, missing.values())) == total > 0:
            if self.stopped and not (self._refuses and self._resumes):
                raise ModelUnavailable(f"{self.stopped.rstrip('.')}. None of {total} requests was answered.")
            if not self._resumes and self.model.world_size == 1:
                said = self._first or next(filter(None, self._seen.values()), "")
                quoted = f" The first of them: {said}" if said else ""
                at = shown(self.model.base_url)
                raise ModelUnavailable(
                    f"The model at {at} answered none of {total} requests: {described(missing)}.{quoted}"
                )
        go_on_without(missing, total, f" {self.stopped.rstrip('.')}." if self.stopped else "")


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end; beside a running event loop (a notebook's) in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
