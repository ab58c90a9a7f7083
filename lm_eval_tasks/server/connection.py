"""The openai client that carries the calls to a server: address, key, proxies, certificates, connections, time-outs."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import openai

from lm_eval_tasks.errors import ServerUnusable
from lm_eval_tasks.server.bounded import bounded
from lm_eval_tasks.server.keys import know, without_keys
from lm_eval_tasks.server.outcome import Kind, Outcome, lost
from lm_eval_tasks.server.replies import read
from lm_eval_tasks.settings import NO_KEY

if sys.version_info >= (3, 11):
    from asyncio import timeout as time_limit
else:
    from async_timeout import timeout as time_limit  # which aiohttp brings where asyncio has none

log = logging.getLogger(f"lm_eval.{__name__}")

CONNECT = 10.0
"""Seconds in which a server must take a connection; only its answer may take longer."""

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


class Connection:
    """Single calls to one server, each made once. To be made and used in one event loop."""

    def __init__(self, server: Server) -> None:
        self.server = server
        know(None if server.key == NO_KEY else server.key)
        self._url, self._client = _connect(server)

    async def close(self) -> None:
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

    async def post(self, pieces: Pieces, max_tokens: int | None) -> Outcome:
        """Make one request.

        Args:
            pieces: its body.
            max_tokens: the room that it asks for.
        """
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
