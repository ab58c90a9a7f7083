"""The judge of a run: many questions at once, over one client and one verdict cache."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any
from weakref import WeakValueDictionary

from tqdm import tqdm

from lm_eval_tasks.judge import batch, batch_server
from lm_eval_tasks.judge.asking import Asker, server_of
from lm_eval_tasks.judge.budget import BYTES_A_TOKEN, Budget, estimate, prompt_tokens
from lm_eval_tasks.judge.cache import VerdictCache
from lm_eval_tasks.judge.check import check
from lm_eval_tasks.judge.early import Early
from lm_eval_tasks.judge.question import Question, Unjudged, Verdict
from lm_eval_tasks.server.client import Client
from lm_eval_tasks.server.keys import judge_api_key
from lm_eval_tasks.server.outcome import Outcome
from lm_eval_tasks.settings import JudgeSettings

log = logging.getLogger(f"lm_eval.{__name__}")

_STORED = ("reply", "judge", "prompt_tokens", "completion_tokens", "attempts", "dialect")


class Judge:
    """The judge of one run: settings, connection, cache and what was learnt, shared by all its tasks.

    Its event loop lives in a thread of its own, so that it works inside notebooks and beside a model that is still
    answering.

    Attributes:
        fresh: whether every question is put again, whatever is stored.
        client: the connection, and what the server was found to refuse.
        answered_by: the models that gave this run's verdicts, as the server named them.
        budget: what this run has used of the calls and tokens that it may.
        asker: puts a single question.
        early: what was asked while the model was answering.
        paid: keys of verdicts in the cache that are to count as calls of this run, once each.
        withheld: keys of questions that must not be asked directly -> why.
    """

    _shared: dict[tuple[str, str], Judge] = {}  # noqa: RUF012 - one process-wide table, see of()

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.client = Client(server_of(settings))
        self.cache = VerdictCache(settings.judge_cache)
        self.fresh = False
        self._remembered: dict[str, dict[str, Any]] = {}
        self.answered_by: set[str] = set()
        self.budget = Budget(settings)
        self.asker = Asker(settings, self.client, self.budget)
        self.withheld: dict[str, str] = {}
        self._checked: set[str] = set()
        self._typical: dict[str, int] = {}  # completion tokens of the trial's reply
        self._has_asked, self._ranks = False, (0, 1)
        self._loop = asyncio.new_event_loop()
        self._putting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.early = Early(self, self._loop)
        self.paid: set[str] = set()
        threading.Thread(target=self._loop.run_forever, name="judge", daemon=True).start()
        atexit.register(self.close)

    def close(self) -> None:
        """Close the connections and the cache, and end the thread."""
        atexit.unregister(self.close)
        if self._loop.is_running():
            with contextlib.suppress(TimeoutError, FutureTimeout):
                asyncio.run_coroutine_threadsafe(self.client.close(), self._loop).result(2)
            self._loop.call_soon_threadsafe(self._loop.stop)
        self.cache.close()

    @classmethod
    def of(cls, settings: JudgeSettings) -> Judge:
        """The judge for these settings, made once; settings that don't concern the judge make no difference."""
        own = JudgeSettings(**{key: getattr(settings, key) for key in JudgeSettings.model_fields})
        identity = own.model_dump_json(), judge_api_key(own)  # a corrected key makes another judge
        if identity not in cls._shared:
            cls._shared[identity] = cls(own)
        return cls._shared[identity]

    @classmethod
    def new_run(cls) -> None:
        """Let all judges begin anew with their next task, also where the run before was broken off."""
        for judge in cls._shared.values():
            judge._has_asked = True

    def begin_run(self, rank: int = 0, ranks: int = 1) -> None:
        """Forget what holds for one run only. Called before each task's requests; asking ends a run's beginning.

        Args:
            rank, ranks: of this process, which takes its share of the run's caps.
        """
        self._loop.call_soon_threadsafe(self.early.begin)
        self._ranks, before = (rank, ranks), self._ranks
        if self._has_asked or self._ranks != before:
            self._has_asked = False
            self._checked.clear()
            self._loop.call_soon_threadsafe(self.client.begin)
            self.answered_by.clear()
            self._remembered.clear()
            self.withheld.clear()
            self.budget = self.asker.budget = Budget(self.settings, rank, ranks)
            self.early.expected = 0

    @property
    def stopped(self) -> str | None:
        """Why no further question is put, or None."""
        return self.asker.stopped

    def check(self, trial: Question) -> None:
        """Put one small question, so that a wrong key, model or address is found before any answer is paid for.

        Args:
            trial: a question as the benchmark asks it, so that the server's dialect is learnt as well. Its verdict
                counts nowhere.

        Raises:
            ValueError: the judge cannot be used; says what to set.
        """
        if trial.prompt_version not in self._checked or self.client.stopped:  # each benchmark has a form of its own
            self._wait(check(self, trial))
            self._checked.add(trial.prompt_version)
            last = self.client.last
            self._typical[trial.prompt_version] = last.completion_tokens if last else 0

    def expected(self, questions: Iterable[Question]) -> str | None:
        """What asking these will cost, in one line; None where all are known. ``check`` has found how long replies are.

        The longest trial reply of a benchmark stands for all replies to its questions.
        """
        seen, prompt, completion = set(), 0, 0
        for question in questions:
            key = self.key(question)
            if key not in seen and not self.has(key):
                seen.add(key)
                prompt += prompt_tokens(question.messages)
                completion += self._typical.get(question.prompt_version) or len(question.form) // BYTES_A_TOKEN
        price, batched = self.settings.judge_price, self.settings.judge_batch
        return estimate(len(seen), prompt, completion, price, batched) if seen else None

    def check_batches(self) -> None:
        """Make sure that the server takes batches; raises a ValueError where it doesn't."""
        self._wait(batch_server.check(self))

    def fill(self, questions: Callable[[], Iterable[Question]]) -> None:
        """Put verdicts into the cache by way of batches.

        Args:
            questions: gives all of them anew with each call.
        """
        self._wait(batch.fill(self, questions))

    def ask(
        self, questions: Collection[Question], title: str, then: Iterable[Question] = ()
    ) -> list[Verdict | Unjudged]:
        """Put all questions, at most ``judge_concurrency`` at a time, and show a progress bar.

        Args:
            questions: any number.
            title: shown beside the bar.
            then: what will be asked next, and is put while the last of ``questions`` keep all others waiting.

        Returns:
            One outcome for each question, in the same order. Never raises for a failure of the judge.
        """
        if not self._has_asked:  # a judge that went away while the model was still answering may be back
            self._has_asked = True
            self._loop.call_soon_threadsafe(self.client.begin)
        with tqdm(total=len(questions), desc=title, unit="call", dynamic_ncols=True) as bar:
            self.client.pace.notice = bar.set_postfix_str
            try:
                return self._wait(self._put_all(questions, iter(then), bar))
            finally:
                self.client.pace.notice = self.early.noticed

    def remember(self, question: Question, verdict: dict[str, Any]) -> None:
        """Take a verdict of a stored run, given as its fields, instead of asking for it again."""
        self._remembered[self.key(question)] = {name: verdict[name] for name in _STORED if name in verdict}

    def knows(self, question: Question) -> bool:
        """Whether a question needs no call, because its verdict is remembered or in the cache."""
        return self.has(self.key(question))

    def has(self, key: str) -> bool:
        """As ``knows``, of a question's key."""
        return not self.fresh and bool(self._remembered.get(key) or self.cache.get(key))

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C too: what has arrived is in the cache, the rest is called off
            future.cancel()
            raise

    async def _put_all(
        self, questions: Collection[Question], then: Iterator[Question], bar: tqdm
    ) -> list[Verdict | Unjudged]:
        outcomes: list[Any] = [None] * len(questions)
        waiting, finished = iter(enumerate(questions)), asyncio.Event()

        async def work() -> None:
            for index, question in waiting:
                key = self.key(question)
                outcomes[index] = await self.early.outcome(key) or await self.put(question, key)
                bar.update()
            if None in outcomes:  # others are still under way
                self.early.go_on(then, finished)

        try:
            await asyncio.gather(*(work() for _ in range(min(len(questions), self.settings.judge_concurrency))))
        except BaseException:  # Ctrl-C: nothing is asked any more, not even ahead
            self.early.call_off()
            raise
        finally:
            finished.set()
        return outcomes

    def break_off(self) -> None:
        """Ask nothing more ahead of ``ask``; the model's run has been broken off. May be called from any thread."""
        self._loop.call_soon_threadsafe(self.early.call_off)

    async def put(self, question: Question, key: str) -> Verdict | Unjudged:
        """The outcome of one question, with its key; to be called in the judge's event loop."""
        async with self._putting.setdefault(key, asyncio.Lock()):  # the same question twice: the second is in the cache
            await self.cache.free()
            if stored := self._stored(question, key):
                return stored
            if reason := self.withheld.get(key):
                return Unjudged(reason)
            outcome = await self.asker.ask(question)
            if isinstance(outcome, Verdict):
                self._keep(key, outcome)
            return outcome

    def _keep(self, key: str, verdict: Verdict) -> None:
        self.cache.put(key, {name: getattr(verdict, name) for name in _STORED})
        self._heard_from(verdict.judge)

    def take(self, question: Question, key: str, reply: Outcome, attempt: int) -> None:
        """Keep the reply to a request of ``asker``, as one of this run. Raises ``NoVerdict`` where it is none."""
        self._keep(key, self.asker.read(question, reply, attempt))
        self.paid.add(key)

    def key(self, question: Question) -> str:
        """Identifies a question together with the judge and how it is asked."""
        settings = self.settings
        return question.key(
            base_url=settings.judge_base_url,
            model=settings.judge_model,
            temperature=settings.judge_temperature,
            max_tokens=settings.judge_max_tokens,
            **({"extra_body": settings.judge_extra_body} if settings.judge_extra_body else {}),
        )

    def _stored(self, question: Question, key: str) -> Verdict | None:
        stored = None if self.fresh else self._remembered.get(key) or self.cache.get(key)
        try:
            paid_now = key in self.paid
            verdict = Verdict(question.parse(stored["reply"]), **stored, cached=not paid_now) if stored else None
        except (ValueError, TypeError, KeyError, AttributeError):  # stored by another version of this package
            return None
        if verdict:
            self.paid.discard(key)  # if it occurs again, that costs no second call
            self._heard_from(verdict.judge)
        return verdict

    def _heard_from(self, model: str) -> None:
        asked = self.settings.judge_model
        if model in self.answered_by or not model:
            return
        self.answered_by.add(model)
        if model != asked:
            log.warning("The judge was asked for as %r, but the server says that %r answered.", asked, model)
        if len(others := sorted(self.answered_by)) > 1:
            log.error("MORE THAN ONE JUDGE ANSWERED IN THIS RUN: %s. Do not compare its scores.", ", ".join(others))
