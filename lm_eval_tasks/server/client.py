"""The one client for every OpenAI-compatible chat server, the model's or the judge's.

The openai client carries the calls (proxies, certificates, keys, connections); here is decided what a response leads
to, by ``outcome.py``'s table: another try, another way to ask, or the end of asking.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import openai

from lm_eval_tasks.errors import ServerUnusable
from lm_eval_tasks.server.bounded import bounded
from lm_eval_tasks.server.dialect import EFFECT, adapted, can_give_up, named_limit, next_to_give_up
from lm_eval_tasks.server.keys import know, without_keys
from lm_eval_tasks.server.outcome import FILTERED, TOO_LONG, Kind, Outcome, lost
from lm_eval_tasks.server.pace import Pace
from lm_eval_tasks.server.replies import read

if sys.version_info >= (3, 11):
    from asyncio import timeout as time_limit
else:
    from async_timeout import timeout as time_limit  # which aiohttp brings where asyncio has none

log = logging.getLogger(f"lm_eval.{__name__}")

ALIKE = 8
"""So many equal refusals with no success between mean a fault of the set-up, not of the docs."""
OUTRUN = 60
"""So many rate limits of one request, with calls answered between them that were sent later, concern that request."""
BROKEN_TRIES = 3
"""How often a request is made whose reply is broken."""
CONNECT = 10.0
"""Seconds in which a server must take a connection; only its answer may take longer."""
NOT_ASKED = "not asked"
"""The reason of calls that were not made because asking had ended."""
NO_KEY = "none"
"""What is sent as a key to a server that asks for none."""

_MAY_CONCERN_A_FIELD = (400, 415, 422, 500, 501)
"""Statuses with which servers refuse a field of a request."""

_SLICE = 1 << 18  # bytes

Pieces = Sequence[Any]
"""A request body as one or more pieces of bytes."""


@dataclass(frozen=True)
class Server:
    """Where a server is and how it is asked.

    Attributes:
        who: the server in a few words, for logs and errors: "The judge at http://127.0.0.1:8001/v1".
        url: full address of its chat completions; a query such as ``?api-version=...`` is sent with each call.
        key: the API key, or ``NO_KEY``.
        concurrency: calls in flight at the most.
        timeout: seconds for one call, from its first byte to the reply's last.
        max_retries: tries after the first one of a call that gets no answer while others do.
        patience: seconds without any success after which the server has gone.
        options: how the user sets ``key``, ``address`` and ``model``; named in remedies.
        headers: sent with each call.
        verify: whether certificates are checked, or how.
    """

    who: str
    url: str
    key: str
    concurrency: int
    timeout: float
    max_retries: int
    patience: float
    options: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict)
    verify: bool | ssl.SSLContext = True


def shown(url: str) -> str:
    """An address as it may be shown: without a user name, a password and a query, which may hold keys."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Client:
    """Calls to one server. To be made and used in one event loop.

    Attributes:
        given_up: optional fields that the server refused; see ``dialect.EFFECT``.
        stopped: why no further call is made, or None.
        refuses: whether that is because it refused many requests alike.
        last: how the last call ended.
        calls: requests made, each try counted.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.pace = Pace(server.who, server.concurrency, server.patience)
        self.given_up: frozenset[str] = frozenset()
        self.stopped: str | None = None
        self.refuses = False
        self.last: Outcome | None = None
        self.calls = 0
        self._taken: set[str] = set()  # fields of requests that were answered
        self._guessed: set[tuple[Any, ...]] = set()
        self._negotiating = asyncio.Lock()
        self._alike: tuple[tuple[Any, ...], int] = ((), 0)
        self._struggling = 0
        self._answers = 0
        self._answered = 0.0  # when the last call was sent that has been answered
        know(None if server.key == NO_KEY else server.key)
        self._url, self._client = _connect(server)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def api(self) -> openai.AsyncOpenAI:
        """The openai client below this server's base URL, for its other endpoints; it tries again by itself."""
        return self._client.with_options(base_url=self._url.removesuffix("/chat/completions"), max_retries=2)

    async def models(self) -> list[dict[str, Any]]:
        """What the server lists as its models; nothing where it doesn't say, for whatever reason."""
        path = self._url.removesuffix("/chat/completions") + "/models"
        try:
            async with time_limit(min(CONNECT, self.server.timeout)):
                found = json.loads(await self._client.get(path, cast_to=bytes))
        except (openai.OpenAIError, TimeoutError, asyncio.TimeoutError, ValueError, RecursionError):
            return []
        data = found.get("data") if isinstance(found, dict) else None
        return [model for model in data if isinstance(model, dict)] if isinstance(data, list) else []

    async def ask(
        self,
        request: dict[str, Any],
        encode: Callable[[dict[str, Any]], Pieces] | None = None,
        tries: int | None = None,
        again: Callable[[Outcome], bool] | None = None,
    ) -> Outcome:
        """Make a request until it is answered, refused, or nothing helps.

        Args:
            request: the body, with its limit of tokens as ``max_tokens``.
            encode: makes bytes of a body; JSON by default.
            tries: how often it is made at the most where no answer comes; None for as long as patience lasts.
            again: whether it may be made again after this broken reply; by default it may.

        Returns:
            The outcome; NOT_ASKED is its reason where asking had ended.
        """
        encode = encode or _as_json
        tried, broken, outrun, struggling, failed_at, overtaken = 0, 0, 0, False, 0.0, 0.0
        try:
            while True:
                if self.stopped is not None:
                    return lost(NOT_ASKED)
                outcome = await self._negotiated(request, encode, again=tried > 0)
                if outcome.kind is Kind.BROKEN:
                    broken += 1
                    if broken < min(BROKEN_TRIES, tries or BROKEN_TRIES) and (again is None or again(outcome)):
                        await asyncio.sleep(0.5 * broken)
                        continue
                elif outcome.kind in (Kind.BUSY, Kind.LOST):
                    tried += outcome.kind is Kind.LOST
                    if not struggling:
                        struggling, self._struggling = True, self._struggling + 1
                        failed_at = overtaken = time.monotonic()
                    if outcome.kind is Kind.BUSY and self._answered > overtaken:
                        outrun, overtaken = outrun + 1, self._answered
                    if outrun < OUTRUN and self._is_worth_another(outcome, tried, tries, failed_at):
                        continue
                return self._concluded(outcome)
        finally:
            self._struggling -= struggling

    def _is_worth_another(self, outcome: Outcome, tried: int, tries: int | None, failed_at: float) -> bool:
        """Whether a call without an answer, which failed first at ``failed_at``, is made again."""
        if self.stopped is not None or self.pace.has_gone():
            return False
        if outcome.kind is Kind.BUSY:
            return True
        if tries is not None:
            return tried < tries
        if tried <= self.server.max_retries:
            return True
        alone = outcome.status >= 500 and self._struggling == 1  # it answers, and only this request fails
        others_do = self._answered > failed_at  # and not just those that were under way when an outage began
        return self.pace.proven and not alone and not others_do

    def _concluded(self, outcome: Outcome) -> Outcome:
        """Note what an outcome says of the calls to come."""
        who = self.server.who
        remedy = outcome.remedy.format(**self.server.options)
        outcome = self.last = replace(outcome, remedy=remedy) if remedy != outcome.remedy else outcome
        if outcome.answered:
            self._answers += 1
            self._alike = ((), 0)
        elif outcome.kind is Kind.HOPELESS:
            self._stop(f"{who}: {outcome.explained()}")
        elif outcome.kind in (Kind.REFUSED, Kind.BROKEN):
            mark, count = _fingerprint(outcome), 1
            if mark == self._alike[0]:
                count = self._alike[1] + 1
            self._alike = (mark, count)
            concerns_a_doc = outcome.reason in (FILTERED, TOO_LONG)
            if count >= (4 * ALIKE if concerns_a_doc else ALIKE) and not (concerns_a_doc and self._answers):
                self._stop(f"{who}: {count} requests in a row, each time: {outcome.explained()}", refuses=True)
        elif outcome.kind in (Kind.BUSY, Kind.LOST):
            seconds = self.pace.in_trouble_for()
            if self.pace.has_gone():
                self._stop(f"{who} has gone: no success for {seconds:.0f} s: {outcome.explained()}")
            elif not self.pace.proven and outcome.kind is Kind.LOST:
                start = "" if outcome.status else f"; start it, or set {self.server.options['address']}"
                self._stop(f"{who} does not answer: {outcome.explained()}{start}")
        return outcome

    def _stop(self, why: str, refuses: bool = False) -> None:
        if self.stopped is None:
            self.stopped, self.refuses = without_keys(why), refuses

    def begin(self) -> None:
        """Ask again after an end, as with another run."""
        self.stopped, self.refuses, self._alike = None, False, ((), 0)
        self.pace.forget_trouble()

    async def _negotiated(
        self, request: dict[str, Any], encode: Callable[[dict[str, Any]], Pieces], again: bool
    ) -> Outcome:
        """One call; where the server refuses a part of it, once more without that part."""
        while True:
            spoken = self.given_up
            outcome = await self._send(request, spoken, encode)
            within = await self._within_limit(request, spoken, encode, outcome)
            if within is not None:
                return within
            if outcome.status not in _MAY_CONCERN_A_FIELD or outcome.answered or outcome.kind is Kind.HOPELESS:
                return outcome
            if outcome.status >= 500 and not self._may_guess(request, outcome):
                return outcome
            if self.given_up == spoken:
                async with self._negotiating:
                    if self.given_up == spoken:
                        guess = (again or outcome.kind is Kind.REFUSED) and self._may_guess(request, outcome)
                        return await self._otherwise(request, spoken, encode, outcome, guess)

    async def _within_limit(
        self,
        request: dict[str, Any],
        spoken: frozenset[str],
        encode: Callable[[dict[str, Any]], Pieces],
        refusal: Outcome,
    ) -> Outcome | None:
        """The same call with the room that a refusal names; None where it names none or that does not help."""
        outcome = refusal
        while (limit := named_limit(outcome, request.get("max_tokens"))) is not None:
            request = {**request, "max_tokens": limit}
            outcome = await self._send(request, spoken, encode)
            if outcome.answered:
                return outcome
        return None

    def _may_guess(self, request: dict[str, Any], refusal: Outcome) -> bool:
        """Whether a refusal that names no field may still be due to one: no request with such fields was answered."""
        untaken = set(request) - self._taken - self.given_up
        return any(can_give_up(request, name) for name in untaken) and _fingerprint(refusal) not in self._guessed

    async def _otherwise(
        self,
        request: dict[str, Any],
        spoken: frozenset[str],
        encode: Callable[[dict[str, Any]], Pieces],
        refusal: Outcome,
        guess: bool,
    ) -> Outcome:
        """Leave out one field after the other; what was left out when it helped stays out from now on.

        Where that was guessed, the whole request is made once more: if it is taken now, the refusal had passed by
        itself and teaches nothing.
        """
        without, outcome, guessed = set(spoken), refusal, False
        while (name := next_to_give_up(outcome, request, without, guess)) is not None:
            guessed |= next_to_give_up(outcome, request, without, guess=False) is None
            without.add(name)
            outcome = await self._send(request, without, encode)
            if outcome.answered:
                if guessed:
                    whole = await self._send(request, spoken, encode)
                    if whole.answered:
                        return whole
                self._learn(without, refusal)
                return outcome
            if (
                outcome.reason == FILTERED
                or outcome.kind in (Kind.HOPELESS, Kind.BUSY)
                or (outcome.kind is Kind.LOST and not outcome.status)
            ):
                return outcome
        if guess:
            self._guessed.add(_fingerprint(refusal))
        return refusal

    def _learn(self, without: Collection[str], refusal: Outcome) -> None:
        for name in sorted(set(without) - self.given_up):
            log.warning(
                "%s refused a part of the request; %s. It said: %s", self.server.who, EFFECT[name], refusal.words[:200]
            )
        self.given_up |= frozenset(without)

    async def _send(
        self, request: dict[str, Any], without: Collection[str], encode: Callable[[dict[str, Any]], Pieces]
    ) -> Outcome:
        """One HTTP request and what came of it."""
        sent = adapted(request, without)
        began = await self.pace.enter()
        if self.stopped is not None:
            self.pace.leave()
            return lost(NOT_ASKED)
        try:
            self.calls += 1
            outcome = await self._post(encode(sent), request.get("max_tokens"))
        finally:
            self.pace.leave()
        if outcome.kind is Kind.BUSY:
            self.pace.busy(outcome.wait, began)
        elif outcome.kind is Kind.LOST:
            self.pace.failed(outcome.reason, outcome.wait, began)
        elif outcome.answered:
            self.pace.succeeded()
            self._answered = max(self._answered, began)
            self._taken.update(name for name in sent if name not in self._taken)
        elif outcome.kind is not Kind.HOPELESS:
            self.pace.is_there()
        return outcome

    async def _post(self, pieces: Pieces, max_tokens: int | None) -> Outcome:
        server = self.server
        content = pieces[0] if len(pieces) == 1 else _Streamed(pieces)
        length = sum(map(len, pieces))
        headers = {"Content-Type": "application/json", "Content-Length": str(length)}
        headers["X-Stainless-Raw-Response"] = "true"  # so that openai gives the headers as well
        try:
            async with time_limit(server.timeout):
                reply = await self._client.post(self._url, cast_to=bytes, content=content, options={"headers": headers})
        except openai.APIStatusError as error:
            return read(error.status_code, error.response.headers, error.response.content, max_tokens)
        except (TimeoutError, asyncio.TimeoutError):  # two types before Python 3.11
            return lost(f"no answer within {server.options['timeout']}={server.timeout:g} s")
        except openai.APIConnectionError as error:
            return _unconnected(error)
        except (openai.OpenAIError, ValueError, TypeError, AttributeError) as error:
            return Outcome(Kind.BROKEN, reason="malformed reply", words=without_keys(str(error))[:200])
        except Exception as error:  # what is no HTTP: the transport has errors of its own, which openai lets through
            log.debug("A response that is none:", exc_info=True)
            return replace(_unconnected(error), words=without_keys(" ".join(str(error).split()))[:200])
        return read(200, reply.headers, reply.content, max_tokens)


class _Streamed:
    """Pieces in slices: not joined, and other calls get their turn in between."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            view = memoryview(piece)
            for start in range(0, len(view), _SLICE):
                yield bytes(view[start : start + _SLICE])


def _as_json(request: dict[str, Any]) -> Pieces:
    return [json.dumps(request).encode()]


def _connect(server: Server) -> tuple[str, openai.AsyncOpenAI]:
    """The full address and an openai client that makes each call once."""
    parts = urlsplit(server.url)
    query = dict(parse_qsl(parts.query))
    headers: dict[str, Any] = dict(server.headers)
    know(unquote(parts.password or ""), *(value for name, value in query.items() if name != "api-version"))
    if parts.username:  # HTTP libraries take it from the address or a header, and not with another key beside it
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        know(user)
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    own_way = bool(headers) and "authorization" not in map(str.lower, headers)
    if "api-version" in query and not headers:
        headers["api-key"], own_way = server.key, True  # Azure's own
    loopback = parts.hostname in ("localhost", "::1") or (parts.hostname or "").startswith("127.")
    transport = openai.DefaultAsyncHttpxClient if _needs_socks(parts) else openai.DefaultAioHttpClient
    limits = openai.DEFAULT_CONNECTION_LIMITS.__class__(
        max_connections=server.concurrency + 1, max_keepalive_connections=server.concurrency + 1
    )
    try:
        http = bounded(transport)(limits=limits, verify=server.verify, trust_env=not loopback, follow_redirects=False)
        if own_way:
            http.event_hooks = {"request": [_without_authorization]}
        client = openai.AsyncOpenAI(
            api_key=server.key,
            base_url=urlunsplit((parts.scheme, parts.netloc, "/", "", "")),
            timeout=openai.Timeout(server.timeout, connect=min(server.timeout, CONNECT)),
            max_retries=0,
            default_headers=headers,
            default_query=query,
            http_client=http,
        )
    except (ImportError, ValueError, OSError) as error:
        raise ServerUnusable(f"{server.who} cannot be reached through the proxy that is set: {error}") from None
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")), client


async def _without_authorization(request: Any) -> None:
    """Keep the openai client's own header from a server that is told the key in another one."""
    request.headers.pop("Authorization", None)


def _needs_socks(parts: Any) -> bool:
    """Whether this address goes through a SOCKS proxy, which needs httpx's own transport and its extra package."""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    return proxy.lower().startswith("socks") and not proxy_bypass(parts.hostname or "")


def _unconnected(error: Exception) -> Outcome:
    cause: BaseException = error
    while (cause.__cause__ or cause.__context__) is not None:
        cause = cause.__cause__ or cause.__context__
    return lost(f"no connection ({type(cause).__name__})")


def _fingerprint(outcome: Outcome) -> tuple[Any, ...]:
    """What two equal refusals have in common; numbers in their words make no difference."""
    return outcome.kind, outcome.status, outcome.code, re.sub(r"[0-9]+", "#", outcome.words)[:80]
