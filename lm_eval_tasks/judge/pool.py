"""Asks many questions at once: one limiter, one cache, and one place that decides what is asked again."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Collection, Coroutine
from concurrent.futures import Future
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from tqdm import tqdm

from lm_eval_tasks.judge.cache import VerdictCache
from lm_eval_tasks.judge.endpoint import MALFORMED, CallFailed, Endpoint, Stopped, Unreachable
from lm_eval_tasks.judge.question import NoVerdict, Question, Unjudged, Verdict
from lm_eval_tasks.settings import JudgeSettings, judge_api_key

log = logging.getLogger(f"lm_eval.{__name__}")

ATTEMPTS = 3
"""How often a question is put: once, and twice more where the reply was no verdict."""

GIVE_UPS = 8
"""So many calls in a row that failed after all their retries mean that the server has gone."""

NOT_ASKED = "judge unavailable"
"""The reason of questions that were not put because the judge had stopped or gone."""

BACKLOG = 4
"""So many questions for each call in flight may wait ahead of ``ask``."""

UNREACHABLE = "judge unreachable"
_STORED = ("reply", "judge", "prompt_tokens", "completion_tokens", "attempts", "dialect")


class Judge:
    """The judge of one run: settings, connection, cache and what was learnt, shared by all its tasks.

    Its event loop lives in a thread of its own, so that it works inside notebooks and beside a model that is still
    answering.

    Attributes:
        fresh: whether every question is put again, whatever is stored.
        stopped: why no further question is put, or None.
        answered_by: the models that gave this run's verdicts, as the server named them.
    """

    _shared: dict[tuple[JudgeSettings, str], Judge] = {}  # noqa: RUF012 - one process-wide table, see of()

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.endpoint = Endpoint(settings)
        self.cache = VerdictCache(settings.judge_cache)
        self.fresh = False
        self.stopped: str | None = None
        self._remembered: dict[str, dict[str, Any]] = {}
        self.answered_by: set[str] = set()
        self._checked = self._has_asked = False
        self._give_ups = 0
        self._loop = asyncio.new_event_loop()
        self._limit = asyncio.Semaphore(settings.judge_concurrency)
        self._putting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._early: dict[str, asyncio.Task[Verdict | Unjudged]] = {}
        self._early_calls: set[str] = set()  # keys of what was asked early and is in the cache: no need to hold it here
        self._backlog = threading.BoundedSemaphore(BACKLOG * settings.judge_concurrency)
        threading.Thread(target=self._loop.run_forever, name="judge", daemon=True).start()

    @classmethod
    def of(cls, settings: JudgeSettings) -> Judge:
        """The judge for these settings, made once; settings that don't concern the judge make no difference."""
        own = JudgeSettings(**{key: getattr(settings, key) for key in JudgeSettings.model_fields})
        identity = own, judge_api_key(own)  # a corrected key makes another judge
        if identity not in cls._shared:
            cls._shared[identity] = cls(own)
        return cls._shared[identity]

    def begin_run(self) -> None:
        """Forget what holds for one run only. Called before each task's requests; asking ends a run's beginning."""
        self._loop.call_soon_threadsafe(self._forget_early)  # of a run that was broken off: this one has no answers yet
        if self._has_asked:
            self._has_asked = self._checked = False
            self.stopped, self._give_ups = None, 0
            self.answered_by.clear()
            self._remembered.clear()

    def check(self, trial: Question) -> None:
        """Put one small question, so that a wrong key, model or address is found before any answer is paid for.

        Args:
            trial: a question as the benchmark asks it, so that the server's dialect is learnt as well. Its verdict
                counts nowhere.

        Raises:
            ValueError: the judge cannot be used; says what to set.
        """
        if not self._checked:
            self._wait(self._try(trial))
            self._checked = True

    def ask(self, questions: Collection[Question], title: str) -> list[Verdict | Unjudged]:
        """Put all questions, at most ``judge_concurrency`` at a time, and show a progress bar.

        Args:
            questions: any number.
            title: shown beside the bar.

        Returns:
            One outcome for each question, in the same order. Never raises for a failure of the judge.
        """
        if not self._has_asked:  # a judge that went away while the model was still answering may be back
            self._has_asked, self.stopped, self._give_ups = True, None, 0
        with tqdm(total=len(questions), desc=title, unit="call", dynamic_ncols=True) as bar:
            return self._wait(self._put_all(questions, bar))

    def remember(self, question: Question, verdict: dict[str, Any]) -> None:
        """Take a verdict of a stored run, given as its fields, instead of asking for it again."""
        self._remembered[self.key(question)] = {name: verdict[name] for name in _STORED if name in verdict}

    def knows(self, question: Question) -> bool:
        """Whether a question needs no call, because its verdict is remembered or in the cache."""
        key = self.key(question)
        return not self.fresh and bool(self._remembered.get(key) or self.cache.get(key))

    def submit(self, question: Question) -> Future[Verdict | Unjudged] | None:
        """Put one question ahead of ``ask``, while the model is still answering; may be called from any thread.

        ``ask`` takes its outcome as its own, but puts it again after a failure that may have passed. None where enough
        are waiting to keep the judge busy: more need not be held in memory, for ``ask`` will put them.
        """
        if not self._backlog.acquire(blocking=False):
            return None
        return asyncio.run_coroutine_threadsafe(self._put_early(question), self._loop)

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C too: what has arrived is in the cache, the rest is called off
            future.cancel()
            raise

    async def _try(self, trial: Question) -> None:
        retries = min(1, self.settings.judge_max_retries)
        address = f"The judge at {self.settings.judge_base_url}"
        try:
            room = self.settings.judge_max_tokens
            reply = await self.endpoint.ask(trial.messages, room, trial.schema, max_retries=retries)
            if reply.finish == MALFORMED:
                raise ValueError(
                    f"{address} answered with something that is no chat completion: set judge_base_url to the address "
                    "that ends before /chat/completions. Nothing has been generated yet."
                )
            trial.parse(reply.usable_text())
        except NoVerdict as error:
            log.warning(
                "%s answered a trial question, but not with a verdict (%s): %r", address, error, reply.text[:200]
            )
        except Stopped as stopped:
            raise ValueError(f"{stopped}. Nothing has been generated yet.") from None
        except CallFailed as failed:
            raise ValueError(f"{address} refused a trial call ({failed}): {failed.detail[:300]}") from None
        except Unreachable as cause:
            if str(cause).startswith("HTTP") or "429" in str(cause):
                log.warning("%s is there but busy (%s); going on.", address, cause)
                return
            raise ValueError(
                f"{address} does not answer: {cause}. Start it, or set judge_base_url in --metadata. "
                "Nothing has been generated yet."
            ) from None

    async def _put_all(self, questions: Collection[Question], bar: tqdm) -> list[Verdict | Unjudged]:
        outcomes: list[Any] = [None] * len(questions)
        waiting = iter(enumerate(questions))

        async def work() -> None:
            for index, question in waiting:
                outcomes[index] = await self._early_outcome(question) or await self._put(question)
                bar.update()

        await asyncio.gather(*(work() for _ in range(min(len(questions), self.settings.judge_concurrency))))
        return outcomes

    async def _put_early(self, question: Question) -> Verdict | Unjudged:
        try:
            key = self.key(question)
            if key in self._early:
                return await self._early[key]
            task = self._early[key] = asyncio.current_task()
            outcome = await self._put(question)
            if isinstance(outcome, Verdict) and self._early.get(key) is task and self.knows(question):
                del self._early[key]
                if not outcome.cached:
                    self._early_calls.add(key)
            return outcome
        finally:
            self._backlog.release()

    def _forget_early(self) -> None:
        self._early.clear()
        self._early_calls.clear()

    async def _early_outcome(self, question: Question) -> Verdict | Unjudged | None:
        early = self._early.pop(self.key(question), None)
        outcome = await early if early else None
        passing = isinstance(outcome, Unjudged) and outcome.reason in (NOT_ASKED, UNREACHABLE)
        return None if passing else outcome

    async def _put(self, question: Question) -> Verdict | Unjudged:
        key = self.key(question)
        async with self._putting.setdefault(key, asyncio.Lock()):  # the same question twice: the second is in the cache
            return self._stored(question, key) or await self._put_now(question, key)

    async def _put_now(self, question: Question, key: str) -> Verdict | Unjudged:
        async with self._limit:
            if self.stopped:
                return Unjudged(NOT_ASKED)
            try:
                outcome = await self._ask_until_usable(question)
            except Unreachable as cause:
                return self._gave_up(cause)
            except Stopped as stopped:
                self._stop(str(stopped))
                return Unjudged(NOT_ASKED, attempts=1)
        self._give_ups = 0
        if isinstance(outcome, Verdict):
            self.cache.put(key, {name: getattr(outcome, name) for name in _STORED})
            self._heard_from(outcome.judge)
        return outcome

    def key(self, question: Question) -> str:
        """Identifies a question together with the judge and how it is asked."""
        settings = self.settings
        return question.key(
            base_url=settings.judge_base_url,
            model=settings.judge_model,
            temperature=settings.judge_temperature,
            max_tokens=settings.judge_max_tokens,
        )

    def _stored(self, question: Question, key: str) -> Verdict | None:
        stored = None if self.fresh else self._remembered.get(key) or self.cache.get(key)
        try:
            asked_early = key in self._early_calls
            verdict = Verdict(question.parse(stored["reply"]), **stored, cached=not asked_early) if stored else None
        except (ValueError, TypeError, KeyError, AttributeError):  # stored by another version of this package
            return None
        if verdict:
            self._early_calls.discard(key)  # if it occurs again, that costs no second call
            self._heard_from(verdict.judge)
        return verdict

    async def _ask_until_usable(self, question: Question) -> Verdict | Unjudged:
        """Put a question up to three times: the form restated, with double the room where a reply was cut short."""
        room, messages = self.settings.judge_max_tokens, question.messages
        tokens, outcome = [0, 0], None
        for attempt in range(1, ATTEMPTS + 1):
            try:
                reply = await self.endpoint.ask(messages, room, question.schema)
            except CallFailed as failed:  # a later one may be due to the longer question or the greater room
                return replace(outcome or Unjudged(str(failed)), attempts=attempt)
            tokens = [tokens[0] + reply.prompt_tokens, tokens[1] + reply.completion_tokens]
            about = {"reply": reply.text, "judge": reply.model, "attempts": attempt}
            about |= {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
            try:
                return Verdict(question.parse(reply.usable_text()), **about, dialect=sorted(self.endpoint.learnt))
            except NoVerdict as error:
                outcome = Unjudged(str(error), **about)
            room *= 2 if reply.finish == "length" else 1
            last = question.messages[-1]
            messages = (*question.messages[:-1], {**last, "content": f"{last['content']}\n\n{question.form}"})
        return outcome

    def _gave_up(self, cause: Unreachable) -> Unjudged:
        self._give_ups += 1
        if self._give_ups >= GIVE_UPS:
            self._stop(
                f"The judge at {self.settings.judge_base_url} has gone: {self._give_ups} calls in a row: {cause}"
            )
        return Unjudged(UNREACHABLE, attempts=1)

    def _stop(self, why: str) -> None:
        if self.stopped is None:
            self.stopped = why
            self._checked = False
            log.error("%s. Judging ends here; every verdict so far is kept.", why)

    def _heard_from(self, model: str) -> None:
        asked = self.settings.judge_model
        if model in self.answered_by or not model:
            return
        self.answered_by.add(model)
        if model != asked:
            log.warning("The judge was asked for as %r, and the server says that %r answered.", asked, model)
        if len(others := sorted(self.answered_by)) > 1:
            log.error(
                "MORE THAN ONE JUDGE ANSWERED IN THIS RUN: %s. Its scores must not be compared.", ", ".join(others)
            )
