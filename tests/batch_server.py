"""A loopback server that speaks OpenAI's files and batches, and plays any fault of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

KEEP = object()
"""What a plan returns for a line that is to be answered as ever."""


def line(request: dict[str, Any], text: str | None = "8 6", status: int = 200, **more: Any) -> dict[str, Any]:
    """A line of results; ``more`` goes beside the response (``error``)."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 100, "completion_tokens": 4}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    body: Any = {"model": "judge-1", "choices": choices, "usage": usage}
    if status != 200:
        body = {"error": {"message": text, "code": "content_filter"}}
    found = {"id": "r", "custom_id": request["custom_id"], "response": {"status_code": status, "body": body}}
    return {**found, "error": None, **more}


def expired(request: dict[str, Any]) -> dict[str, Any]:
    return {"id": "r", "custom_id": request["custom_id"], "response": None, "error": {"code": "batch_expired"}}


@dataclass
class BatchServer:
    """A running server.

    Attributes:
        ends: how the first, second, ... batch ends; the last one for all others.
        results: makes output and errors of a batch's requests, by the batch's number.
        faults: (method, start of the path) -> answers, used up one by one: a status, the bytes of a 200, or "drop"
            after the work is done.
        polls: how often a batch is looked at before it has ended.
        live: what a direct call is answered.
    """

    ends: list[str] = field(default_factory=lambda: ["completed"])
    results: Callable[[int, list[dict]], tuple[list[dict], list[dict]]] = lambda number, asked: (
        [line(request) for request in asked][::-1],
        [],
    )
    faults: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    polls: int = 1
    live: Callable[[dict[str, Any]], str] = lambda body: "7 7"
    errors: dict[str, Any] | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[list[dict[str, Any]]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @web.middleware
    async def fault(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Answer with the next fault that is set for this kind of request, if there is one."""
        for (method, path), answers in self.faults.items():
            if request.method == method and request.path.startswith(f"/v1/{path}") and answers:
                answer = answers.pop(0)
                if answer == "drop":
                    await handler(request)
                    request.transport.close()
                    return web.Response()
                if isinstance(answer, bytes):
                    return web.Response(body=answer, content_type="application/json")
                if answer is not KEEP:
                    return web.json_response({"error": {"message": "a fault"}}, status=answer)
        return await handler(request)

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.calls.append(body)
        message = {"role": "assistant", "content": self.live(body)}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        return web.json_response({"model": "judge-1", "choices": choices, "usage": {}})

    async def upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        assert form["purpose"] == "batch"
        name = f"file-{len(self.files)}"
        self.files[name] = form["file"].file.read()
        return web.json_response({"id": name, "object": "file", "purpose": "batch", "filename": "x", "bytes": 1})

    async def create(self, request: web.Request) -> web.Response:
        given = await request.json()
        asked = [json.loads(row) for row in self.files[given["input_file_id"]].splitlines()]
        assert len({row["custom_id"] for row in asked}) == len(asked)
        assert all(row["url"] == given["endpoint"] and row["method"] == "POST" for row in asked)
        number = len(self.batches)
        self.asked.append(asked)
        name = f"batch_{number}"
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "created_at": 0,
            "status": "validating",
            "number": number,
            "polls": 0,
            **{key: given[key] for key in ("input_file_id", "endpoint", "completion_window", "metadata")},
        }
        return web.json_response(self.shown(name))

    async def listed(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [self.shown(name) for name in self.batches][::-1]})

    async def retrieve(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        batch = self.batches[name]
        batch["polls"] += 1
        if batch["polls"] > self.polls and "output_file_id" not in batch:
            number = batch["number"]
            batch["status"] = self.ends[min(number, len(self.ends) - 1)]
            output, errors = self.results(number, self.asked[number])
            for part, rows in (("output_file_id", output), ("error_file_id", errors)):
                file = f"{name}-{part}"
                rows = [row if isinstance(row, str) else json.dumps(row) for row in rows]
                self.files[file] = "\n".join(rows).encode()
                batch[part] = file if rows else None
            if batch["status"] == "failed":
                batch["errors"] = self.errors
        return web.json_response(self.shown(name))

    async def content(self, request: web.Request) -> web.Response:
        return web.Response(body=self.files[request.match_info["name"]])

    def shown(self, name: str) -> dict[str, Any]:
        return {key: value for key, value in self.batches[name].items() if key not in ("number", "polls")}


@contextlib.contextmanager
def running(**options: Any) -> Iterator[BatchServer]:
    """A server on a free port for the time of the block."""
    server, loop, started = BatchServer(**options), asyncio.new_event_loop(), threading.Event()

    async def start() -> web.AppRunner:
        app = web.Application(client_max_size=1 << 28, middlewares=[server.fault])
        app.router.add_post("/v1/chat/completions", server.chat)
        app.router.add_post("/v1/files", server.upload)
        app.router.add_get("/v1/files/{name}/content", server.content)
        app.router.add_post("/v1/batches", server.create)
        app.router.add_get("/v1/batches", server.listed)
        app.router.add_get("/v1/batches/{name}", server.retrieve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.port = runner.addresses[0][1]
        return runner

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run, name="batch-server", daemon=True)
    thread.start()
    started.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
