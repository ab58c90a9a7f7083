"""Sends a model's requests: each is built when its turn has come, and each ends with an answer or with a reason.

A request that the server refuses is given up at once, one that fails is tried again, and a fault that concerns all of
them (wrong key, wrong address, a server that has gone) ends the sending.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from lm_eval.api.instance import Instance
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_exponential
from tqdm import tqdm

from lm_eval_tasks.audio.clips import BadAudio
from lm_eval_tasks.errors import ModelUnavailable
from lm_eval_tasks.judge.endpoint import FILTERED
from lm_eval_tasks.runs.answers import Unanswered

if TYPE_CHECKING:
    from lm_eval_tasks.models.api import AudioChatCompletions

log = logging.getLogger(f"lm_eval.{__name__}")

GIVE_UPS = 8
"""So many requests in a row that failed after all their attempts mean that the server has gone."""

NOT_ASKED = "model unavailable"
"""The reason of requests that were not sent because the server had refused for good or gone."""

_BACKOFF = wait_exponential(multiplier=0.5, min=1, max=10)  # as lm-eval's API models wait
_LONGEST_WAIT = 60.0
_MAY_PASS = (408, 409, 425, 429)
"""4xx that may pass, like every 5xx; any other 4xx will be the same the next time."""
_PERMANENT = {
    401: "set a valid key in OPENAI_API_KEY",
    402: "the account has no credit left",
    403: "set a valid key in OPENAI_API_KEY",
    404: "set base_url to the full address, which ends in /chat/completions, and model to a model of that server",
}
_SHOWN = 5
_QUOTED = 300
_SLICE = 1 << 18  # bytes


class NoAnswer(Exception):
    """This request gets no answer; the text is the reason, ``detail`` the server's own words."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.detail = detail


class Passing(NoAnswer):
    """No answer this time; another attempt may have one.

    Attributes:
        wait: seconds that the server asks to wait.
        unreachable: whether nothing came back at all.
    """

    def __init__(self, reason: str, detail: str = "", *, wait: float = 0.0, unreachable: bool = False) -> None:
        super().__init__(reason, detail)
        self.wait, self.unreachable = wait, unreachable


class Permanent(NoAnswer):
    """No request will be answered."""


def generate(model: AudioChatCompletions, requests: list[Instance], disable_tqdm: bool) -> list[str]:
    """Send all requests, at most ``num_concurrent`` at a time.

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

    def __init__(self, model: AudioChatCompletions, requests: list[Instance], bar: tqdm) -> None:
        self.model, self.requests, self.bar = model, requests, bar
        self.answers: list[str] = [Unanswered(NOT_ASKED)] * len(requests)
        self.stopped: str | None = None
        self._lost = False
        self._in_a_row = 0
        self._details: dict[str, str] = {}  # what the server said first, by reason
        self._resumes = bool(model.cache_hook.dbdict)  # answers of this run, of which the other requests are left

    async def run(self) -> None:
        """Send everything."""
        waiting = iter(enumerate(self.requests))

        async def work(session: aiohttp.ClientSession) -> None:
            patience = self._patience()
            for index, request in waiting:
                if self.stopped:
                    return
                self.answers[index] = await self._answer(patience, session, request)
                self.bar.update()

        async with self.model.session() as session:
            workers = [asyncio.create_task(work(session)) for _ in range(max(1, self.model._concurrent))]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()

    def conclude(self) -> None:
        """Say what is missing; raise where a task cannot do without it."""
        missing: dict[str, list[Instance]] = defaultdict(list)
        for request, answer in zip(self.requests, self.answers, strict=True):
            if isinstance(answer, Unanswered):
                missing[answer.reason].append(request)
        if not missing:
            return
        count, total = sum(map(len, missing.values())), len(self.requests)
        why = f" {self.stopped}." if self.stopped else ""
        what = "; ".join(f"{reason}: {len(those)} ({_some(those)})" for reason, those in missing.items())
        again = "Run the same command again to ask for these only (with --use_cache, which keeps all other answers)."
        if self._lost and count == total:
            raise ModelUnavailable(f"{self.stopped}. None of {total} requests was answered.")
        if count == total and not self._resumes and self.model.world_size == 1:
            said = next((detail for detail in self._details.values() if detail), "")
            quoted = f" The first of them: {said}" if said else ""
            raise ModelUnavailable(
                f"The model at {self.model.base_url} answered none of {total} requests: {what}.{why}{quoted}"
            )
        if not all(getattr(request, "may_stay_unanswered", False) for those in missing.values() for request in those):
            raise ModelUnavailable(f"{count} of {total} requests have no answer: {what}.{why} {again}")
        log.error("%d of %d REQUESTS HAVE NO ANSWER: %s.%s %s", count, total, what, why, again)

    def _patience(self) -> AsyncRetrying:
        """How one worker tries a request again; for all its requests, as each such object is a cycle that stays."""
        last = stop_after_attempt(self.model.max_retries)
        return AsyncRetrying(
            stop=lambda state: self.stopped is not None or last(state),
            wait=_wait,
            retry=retry_if_exception_type(Passing),
            reraise=True,
            before_sleep=lambda state: log.info("Attempt %d: %s", state.attempt_number, state.outcome.exception()),
        )

    async def _answer(self, patience: AsyncRetrying, session: aiohttp.ClientSession, request: Instance) -> str:
        """One answer, stored and handed on the moment it is there."""
        try:
            body = await asyncio.to_thread(self.model.request_body, *request.args)
            answer = await patience(self._send, session, body)
        except BadAudio as error:
            return self._without(NoAnswer("audio gone or damaged", str(error)))
        except NoAnswer as failure:
            return self._without(failure)
        self._in_a_row = 0
        self.model.cache_hook.add_partial("generate_until", request.args, answer)
        hand_over = getattr(request, "on_answer", None)
        if hand_over:
            hand_over(request, answer)
        return answer

    async def _send(self, session: aiohttp.ClientSession, body: list[bytes]) -> str:
        try:
            async with session.post(self.model.base_url, data=Body(body)) as response:
                text = await response.text()
        except asyncio.TimeoutError:
            raise Passing(f"no answer within timeout={self.model.timeout} s", unreachable=True) from None
        except aiohttp.InvalidURL as error:
            raise Permanent(f"base_url is not an address: {error}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Passing(f"no connection ({type(error).__name__})", str(error), unreachable=True) from None
        if not response.ok:
            raise _failure(response, self._without_key(text))
        try:
            return self.model.read_answer(json.loads(text))
        except ValueError:
            raise Passing("malformed reply", self._without_key(text)) from None

    def _without(self, failure: NoAnswer) -> Unanswered:
        """Note a failure; stop where it tells that the next request will fail as well."""
        reason = str(failure)
        if reason not in self._details:
            self._details[reason] = failure.detail[:_QUOTED]
            log.warning("A request has no answer: %s. %s", reason, failure.detail[:_QUOTED])
        server = f"The model's server at {self.model.base_url}"
        if isinstance(failure, Permanent):
            self._stop(f"{server}: {reason}: {failure.detail[:_QUOTED]}", lost=True)
        self._in_a_row = self._in_a_row + 1 if isinstance(failure, Passing) else 0
        lost = isinstance(failure, Passing) and failure.unreachable
        if self._in_a_row >= (min(GIVE_UPS, len(self.requests)) if lost else GIVE_UPS):
            remedy = "; start it, or set base_url in --model_args" if lost else ""
            self._stop(f"{server} has gone: {self._in_a_row} requests in a row: {reason}{remedy}", lost=lost)
        return Unanswered(reason)

    def _stop(self, why: str, lost: bool) -> None:
        if self.stopped is None:
            self.stopped, self._lost = why, lost

    def _without_key(self, text: str) -> str:
        """The server's words, without the key should the server repeat it."""
        key = self.model.api_key
        return text.replace(key, "[key]") if key else text


class Body(aiohttp.Payload):
    """A request's pieces, handed to the socket in slices: not copied, and other requests get their turn in between."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__(pieces, content_type="application/json")
        self._size = sum(map(len, pieces))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text; for aiohttp's debugging alone."""
        return b"".join(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body; may be called again after a redirect."""
        for piece in self._value:
            view = memoryview(piece)
            for start in range(0, len(view), _SLICE):
                await writer.write(view[start : start + _SLICE])


def _failure(response: aiohttp.ClientResponse, text: str) -> NoAnswer:
    """What an HTTP status says about this request and the next ones."""
    status = response.status
    reason = f"HTTP {status}"
    if status == 403 and FILTERED.search(text):
        return NoAnswer("content filter", text)
    if status in _PERMANENT:
        return Permanent(reason, f"{_PERMANENT[status]}. It said: {text}")
    if status == 429 and "insufficient_quota" in text:
        return Permanent(reason, f"{_PERMANENT[402]}. It said: {text}")
    if status < 500 and status not in _MAY_PASS:
        return NoAnswer(reason, text)
    wait = response.headers.get("Retry-After", "")
    return Passing(reason, text, wait=float(wait) if wait.isdecimal() else 0.0)


def _wait(state: RetryCallState) -> float:
    """Seconds until the next attempt: as lm-eval waits, or longer where the server asks for it."""
    return max(_BACKOFF(state), min(state.outcome.exception().wait, _LONGEST_WAIT))


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end; beside a running event loop (a notebook's) in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _some(requests: list[Instance]) -> str:
    names = [f"{request.task_name} doc {request.doc_id}" for request in requests[:_SHOWN]]
    more = f" and {len(requests) - _SHOWN} more" if len(requests) > _SHOWN else ""
    return ", ".join(names) + more
