"""Asks many questions at once: one client, one cache, and one place that decides what is asked again."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakValueDictionary

from tqdm import tqdm

from lm_eval_tasks.judge import batch
from lm_eval_tasks.judge.budget import BYTES_A_TOKEN, Budget, estimate, prompt_tokens
from lm_eval_tasks.judge.cache import VerdictCache
from lm_eval_tasks.judge.check import check
from lm_eval_tasks.judge.question import NoVerdict, Question, Unjudged, Verdict, storable
from lm_eval_tasks.server.client import NOT_ASKED as CALL_NOT_MADE
from lm_eval_tasks.server.client import Client, Server
from lm_eval_tasks.server.keys import without_keys
from lm_eval_tasks.server.outcome import Kind, Outcome
from lm_eval_tasks.settings import JudgeSettings, judge_api_key

log = logging.getLogger(f"lm_eval.{__name__}")

ATTEMPTS = 3
"""How often a question is put: once, and twice more where the reply was no verdict."""

NOT_ASKED = "judge unavailable"
"""The reason of questions that were not put because the judge had stopped or gone."""

UNREACHABLE = "judge unreachable"
"""The reason of a question to which no answer came, while others had theirs."""

BACKLOG = 4
"""So many questions for each call in flight may wait ahead of ``ask``."""

CHARACTERS = 32
"""A reply with more than so many characters for each token that was asked for is no verdict, and is not read."""

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
        withheld: keys of questions that must not be asked directly -> why.
    """

    _shared: dict[tuple[str, str], Judge] = {}  # noqa: RUF012 - one process-wide table, see of()

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.client = Client(_server(settings))
        self.cache = VerdictCache(settings.judge_cache)
        self.fresh = False
        self._remembered: dict[str, dict[str, Any]] = {}
        self.answered_by: set[str] = set()
        self.budget = Budget(settings)
        self.withheld: dict[str, str] = {}
        self._checked: set[str] = set()
        self._typical: dict[str, int] = {}  # completion tokens of the trial's reply
        self._has_asked = False
        self._said: str | None = None
        self._loop = asyncio.new_event_loop()
        self._putting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._early: dict[str, asyncio.Task[Verdict | Unjudged]] = {}
        self._early_calls: set[str] = set()  # keys of what was asked early and is in the cache: no need to hold it here
        self._backlog = threading.BoundedSemaphore(BACKLOG * settings.judge_concurrency)
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

    def begin_run(self) -> None:
        """Forget what holds for one run only. Called before each task's requests; asking ends a run's beginning."""
        self._loop.call_soon_threadsafe(self._forget_early)  # of a run that was broken off: this one has no answers yet
        if self._has_asked:
            self._has_asked = False
            self._checked.clear()
            self._loop.call_soon_threadsafe(self.client.begin)
            self.answered_by.clear()
            self._remembered.clear()
            self.withheld.clear()
            self.budget.begin()

    @property
    def stopped(self) -> str | None:
        """Why no further question is put, or None."""
        return self.client.stopped or self.budget.reached

    def check(self, trial: Question) -> None:
        """Put one small question, so that a wrong key, model or address is found before any answer is paid for.

        Args:
            trial: a question as the benchmark asks it, so that the server's dialect is learnt as well. Its verdict
                counts nowhere.

        Raises:
            ValueError: the judge cannot be used; says what to set.
        """
        if trial.prompt_version not in self._checked:  # each benchmark has a form of its own
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
            if not self.knows(question) and (key := self.key(question)) not in seen:
                seen.add(key)
                prompt += prompt_tokens(question.messages)
                completion += self._typical.get(question.prompt_version) or len(question.form) // BYTES_A_TOKEN
        price, batched = self.settings.judge_price, self.settings.judge_batch
        return estimate(len(seen), prompt, completion, price, batched) if seen else None

    def check_batches(self) -> None:
        """Make sure that the server takes batches; raises a ValueError where it doesn't."""
        self._wait(batch.check(self))

    def fill(self, questions: Callable[[], Iterable[Question]]) -> None:
        """Put verdicts into the cache by way of batches.

        Args:
            questions: gives all of them anew with each call.
        """
        self._wait(batch.fill(self, questions))

    def ask(self, questions: Collection[Question], title: str) -> list[Verdict | Unjudged]:
        """Put all questions, at most ``judge_concurrency`` at a time, and show a progress bar.

        Args:
            questions: any number.
            title: shown beside the bar.

        Returns:
            One outcome for each question, in the same order. Never raises for a failure of the judge.
        """
        if not self._has_asked:  # a judge that went away while the model was still answering may be back
            self._has_asked = True
            self._loop.call_soon_threadsafe(self.client.begin)
        with tqdm(total=len(questions), desc=title, unit="call", dynamic_ncols=True) as bar:
            self.client.pace.notice = bar.set_postfix_str
            try:
                return self._wait(self._put_all(questions, bar))
            finally:
                self.client.pace.notice = lambda text: None

    def remember(self, question: Question, verdict: dict[str, Any]) -> None:
        """Take a verdict of a stored run, given as its fields, instead of asking for it again."""
        self._remembered[self.key(question)] = {name: verdict[name] for name in _STORED if name in verdict}

    def knows(self, question: Question) -> bool:
        """Whether a question needs no call, because its verdict is remembered or in the cache."""
        key = self.key(question)
        return not self.fresh and bool(self._remembered.get(key) or self.cache.get(key))

    def submit(self, question: Question, wait: float = 0.0) -> Future[Verdict | Unjudged] | None:
        """Put one question ahead of ``ask``, while the model is still answering; may be called from any thread.

        ``ask`` takes its outcome as its own, but puts it again after a failure that may have passed. None where enough
        are waiting to keep the judge busy, even ``wait`` seconds later: more need not be held in memory, for ``ask``
        will put them.
        """
        if not self._backlog.acquire(timeout=wait):
            return None
        return asyncio.run_coroutine_threadsafe(self._put_early(question), self._loop)

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C too: what has arrived is in the cache, the rest is called off
            future.cancel()
            raise

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
            await self.cache.free()
            if stored := self._stored(question, key):
                return stored
            reason = self.withheld.get(key)
            return Unjudged(reason) if reason else await self._put_now(question, key)

    async def _put_now(self, question: Question, key: str) -> Verdict | Unjudged:
        outcome = await self.ask_until_usable(question)
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
            **({"extra_body": settings.judge_extra_body} if settings.judge_extra_body else {}),
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

    async def ask_until_usable(self, question: Question, tries: int | None = None) -> Verdict | Unjudged:
        """Put a question up to three times: the form restated, with double the room where a reply was cut short.

        Args:
            question: not looked up in any cache.
            tries: as in ``Client.ask``.
        """
        room, messages = self.settings.judge_max_tokens, question.messages
        tokens, unusable = [0, 0], None
        for attempt in range(1, ATTEMPTS + 1):
            held = prompt_tokens(messages) + room
            if not await self.budget.wait(held):
                self._say_stopped()
                return replace(unusable or Unjudged(self.budget.reached), reason=self.budget.reached)
            reply = await self.client.ask(self._request(messages, room, question.schema), tries=tries)
            await self.budget.done(held, _used(reply, held))
            if reply.kind in (Kind.REFUSED, Kind.HOPELESS, Kind.BUSY, Kind.LOST):
                return self._without_reply(reply, unusable, attempt)
            tokens = [tokens[0] + reply.prompt_tokens, tokens[1] + reply.completion_tokens]
            about = {"judge": storable(reply.model), "attempts": attempt}
            about |= {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
            try:
                return self._verdict(question, reply, room, about)
            except NoVerdict as error:
                said = storable(without_keys(reply.text[: CHARACTERS * room]))
                unusable = Unjudged(str(error), reply=said, why=reply.words, **about)
            if reply.kind is Kind.BROKEN:  # which the client has tried again itself
                return unusable
            room *= 2 if reply.kind is Kind.CUT else 1
            messages = _restated(question)
        return unusable

    def request(self, question: Question, attempt: int) -> dict[str, Any]:
        """A question as it is put the first or the second time; the second time with its form and double the room."""
        messages = question.messages if attempt == 1 else _restated(question)
        return self._request(messages, attempt * self.settings.judge_max_tokens, question.schema)

    def take(self, question: Question, key: str, reply: Outcome, attempt: int) -> None:
        """Keep a reply that did not come from ``ask``, as one of this run. Raises ``NoVerdict`` where it is none."""
        about = {"judge": storable(reply.model), "attempts": attempt}
        about |= {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
        verdict = self._verdict(question, reply, attempt * self.settings.judge_max_tokens, about)
        self.cache.put(key, {name: getattr(verdict, name) for name in _STORED})
        self._early_calls.add(key)
        self._heard_from(verdict.judge)

    def _verdict(self, question: Question, reply: Outcome, room: int, about: dict[str, Any]) -> Verdict:
        value = question.parse(_usable_text(reply, room))
        text = storable(without_keys(reply.text))
        return Verdict(value, reply=text, **about, dialect=sorted(self.client.given_up))

    def _without_reply(self, outcome: Outcome, unusable: Unjudged | None, attempt: int) -> Unjudged:
        """Why there is no verdict where no reply came; after an unusable reply that one is the reason."""
        if self.client.stopped is not None:
            self._say_stopped()
        if outcome.kind is Kind.REFUSED:  # a later one may be due to the longer question or the greater room
            return replace(unusable or Unjudged(outcome.reason, why=outcome.words), attempts=attempt)
        if outcome.reason == CALL_NOT_MADE or outcome.kind is Kind.HOPELESS:
            return Unjudged(NOT_ASKED, attempts=attempt - (outcome.reason == CALL_NOT_MADE), why=outcome.words)
        return Unjudged(UNREACHABLE, attempts=attempt, why=outcome.words or outcome.reason)

    def _request(self, messages: Any, room: int, schema: dict[str, Any] | None) -> dict[str, Any]:
        settings = self.settings
        request: dict[str, Any] = {
            "model": settings.judge_model,
            "messages": [{**message, "content": storable(message["content"])} for message in messages],
            "max_tokens": room,
            "temperature": settings.judge_temperature,
        }
        if schema:
            form = {"name": "verdict", "strict": True, "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        return request | (settings.judge_extra_body or {})

    def _say_stopped(self) -> None:
        if self._said != self.stopped:
            self._said = self.stopped
            self._checked.clear()
            log.error("%s. Judging ends here; every verdict so far is kept.", self._said.rstrip("."))

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


def _used(reply: Outcome, held: int) -> int:
    """The tokens of a reply: as the server counts them, else what was held for it."""
    if not reply.answered:
        return 0
    return reply.prompt_tokens + reply.completion_tokens or held


def _restated(question: Question) -> tuple[dict[str, str], ...]:
    """The chat with the form of the reply said once more."""
    last = question.messages[-1]
    return (*question.messages[:-1], {**last, "content": f"{last['content']}\n\n{question.form}"})


def _usable_text(reply: Outcome, room: int) -> str:
    """The text, which may be a verdict. Raises ``NoVerdict`` where it can't be one."""
    if reply.kind is not Kind.REPLY:
        raise NoVerdict(reply.reason)
    if reply.refusal:
        raise NoVerdict("refused by the judge")
    if reply.only_thought:
        raise NoVerdict("the reply is in reasoning_content alone: check the reasoning parser of the judge's server")
    if not reply.text.strip():
        raise NoVerdict("empty reply")
    if len(reply.text) > CHARACTERS * room:
        raise NoVerdict("longer than the room that was asked for")
    return reply.text


def _server(settings: JudgeSettings) -> Server:
    parts = urlsplit(settings.judge_base_url)
    key = settings.judge_api_key_env or "key in JUDGE_API_KEY (or OPENAI_API_KEY)"
    return Server(
        who=f"The judge at {settings.judge_base_url}",
        url=urlunsplit((parts.scheme, parts.netloc, f"{parts.path}/chat/completions", parts.query, "")),
        key=judge_api_key(settings),
        concurrency=settings.judge_concurrency,
        timeout=settings.judge_timeout,
        max_retries=settings.judge_max_retries,
        patience=settings.judge_patience,
        options={"key": key, "address": "judge_base_url", "model": "judge_model", "timeout": "judge_timeout"},
    )
