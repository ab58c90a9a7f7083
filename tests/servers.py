"""An OpenAI-compatible server on the loopback interface that plays any part and any fault.

The first part of the path is the role, so that one server can be the model (``/model/v1``) and the judge
(``/judge/v1``) at once. Each role follows a script: a list of steps that are used up, and then one step for the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Answer:
    """What the server sends for one request.

    Args:
        status: HTTP status.
        body: a dict is sent as JSON, bytes and text as they are.
        headers: added to the response.
        delay: seconds before it is sent.
        until: it is held back until this is set.
        drop: close the connection instead of answering, or after these bytes.
        flood: so many spaces go before the body.
    """

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    until: threading.Event | None = None
    drop: bool | bytes = False
    flood: int = 0


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    role: str
    body: dict[str, Any]
    headers: dict[str, str]
    at: float

    @property
    def text(self) -> str:
        """All text of the chat."""
        texts = []
        for message in self.body["messages"]:
            content = message["content"]
            texts += (
                [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
            )
        return "\n".join(texts)


Step = Answer | str | Callable[[Asked], "Answer | str"]
DROP = Answer(drop=True)


def said(text: str | None, finish: str = "stop", model: str = "judge-1", usage: bool = True, **more: Any) -> Answer:
    """A chat completion; ``more`` goes into the message, except ``delay`` which is the answer's."""
    delay = more.pop("delay", 0.0)
    body: dict[str, Any] = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **more}}],
    }
    if usage:
        body["usage"] = {"prompt_tokens": 100, "completion_tokens": 4, "total_tokens": 104}
    return Answer(body=body, delay=delay)


def refused(status: int, message: str, *, headers: dict[str, str] | None = None, **more: Any) -> Answer:
    """An error in OpenAI's form; ``more`` goes beside the message (``code``, ``param``)."""
    return Answer(status, {"error": {"message": message, "type": "error", **more}}, headers or {})


def busy(status: int = 429, wait_ms: int = 20) -> Answer:
    """A passing fault that asks to come back soon."""
    return refused(status, "busy", headers={"retry-after-ms": str(wait_ms)})


class Server:
    """A running server.

    Attributes:
        asked: every request that arrived, by role.
        peak: the most requests in flight at once, by role.
        flooded: bytes of ``flood`` that were sent.
    """

    def __init__(self) -> None:
        self.asked: dict[str, list[Asked]] = defaultdict(list)
        self.peak: Counter[str] = Counter()
        self._in_flight: Counter[str] = Counter()
        self.flooded = 0
        self._scripts: dict[str, tuple[list[Step], Step]] = {}
        self.port = 0

    def script(self, role: str, *steps: Step, then: Step | None = None) -> None:
        """Say what a role answers: each step once, then ``then`` (the last step where it is not given)."""
        self._scripts[role] = (list(steps), steps[-1] if then is None else then)

    def url(self, role: str = "judge") -> str:
        """Base URL of a role."""
        return f"http://127.0.0.1:{self.port}/{role}/v1"

    def calls(self, role: str = "judge") -> int:
        """How many requests a role got."""
        return len(self.asked[role])

    def texts(self, role: str = "judge") -> list[str]:
        """The chats that a role got, in the order of arrival."""
        return [asked.text for asked in self.asked[role]]

    def forget(self) -> None:
        """Forget all requests so far."""
        self.asked.clear()
        self.peak.clear()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        role = request.match_info["role"]
        asked = Asked(role, await request.json(), dict(request.headers), time.monotonic())
        self.asked[role].append(asked)
        steps, then = self._scripts[role]
        step = steps.pop(0) if steps else then
        answer = step(asked) if callable(step) else step
        answer = said(answer) if isinstance(answer, str) else answer
        self._in_flight[role] += 1
        self.peak[role] = max(self.peak[role], self._in_flight[role])
        try:
            if answer.delay:
                await asyncio.sleep(answer.delay)
            while answer.until and not answer.until.is_set():
                await asyncio.sleep(0.01)
        finally:
            self._in_flight[role] -= 1
        if answer.drop:
            if isinstance(answer.drop, bytes):
                request.transport.write(answer.drop)
            request.transport.close()
            return web.Response()
        headers = {"Content-Type": "application/json", **answer.headers}
        body = json.dumps(answer.body) if isinstance(answer.body, (dict, list)) else answer.body
        body = body.encode() if isinstance(body, str) else body
        if answer.flood:
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):
                for _ in range(answer.flood >> 16):
                    await response.write(b" " * (1 << 16))
                    self.flooded += 1 << 16
                await response.write(body)
            return response
        return web.Response(status=answer.status, body=body, headers=headers)


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server on a free port for the time of the block."""
    server, loop = Server(), asyncio.new_event_loop()
    started = threading.Event()

    async def start() -> web.AppRunner:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/{role}/v1/chat/completions", server.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.port = site._server.sockets[0].getsockname()[1]
        return runner

    async def end(runner: web.AppRunner) -> None:
        await runner.cleanup()
        others = asyncio.all_tasks() - {asyncio.current_task()}  # answers that were still to be sent after a delay
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(end(runner))
        loop.close()

    thread = threading.Thread(target=run, name="test-server", daemon=True)
    thread.start()
    started.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def completion(text="8 6", finish="stop", **choice):
    message = {"role": "assistant", "content": text}
    return Answer(body={"choices": [{"index": 0, "finish_reason": finish, "message": message, **choice}]})
