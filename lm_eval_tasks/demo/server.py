"""An OpenAI-compatible server on the loopback interface with two toy models.

    python -m lm_eval_tasks.demo.server --port 8000

``demo-listener`` decodes the audio it is sent and says what it measures, or takes one of the choices that it is given;
to text alone it gives a canned reply.
``demo-judge`` answers AIR-Bench prompts with scores by word overlap and INTIMA prompts with levels by keywords.
``GET /stats`` counts requests by model and the most that were in flight; ``POST /reset`` sets it back.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from lm_eval_tasks.demo import hearing, judging, media, replies

LISTENER, JUDGE = "demo-listener", "demo-judge"
LARGEST_REQUEST = 1 << 28
TOKEN = re.compile(r"\s*(?:[^\W_]{1,6}|[^\w\s]|_)")
"""What the server counts as one token: up to six letters or digits, or one other sign, with the space before it."""
AUDIO_TOKENS_PER_SECOND = 25


@dataclass(frozen=True)
class Options:
    """How the server runs.

    Args:
        host: address to listen on.
        port: port to listen on, 0 for a free one.
        latency_ms: time that each chat request waits before it is answered.
        allow_files: folder below which ``audio_url`` may name files, None for nowhere.
    """

    host: str = "127.0.0.1"
    port: int = 0
    latency_ms: float = 0
    allow_files: Path | None = None


class Stats:
    """Counts since the start or the last reset."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.in_flight: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self.clips = 0
        self.audio_seconds = 0.0

    @contextlib.contextmanager
    def count(self, model: str) -> Iterator[None]:
        """Count a request of ``model`` as in flight inside the block."""
        self.requests[model] += 1
        for key in (model, "all"):
            self.in_flight[key] += 1
            self.peak[key] = max(self.peak[key], self.in_flight[key])
        try:
            yield
        finally:
            for key in (model, "all"):
                self.in_flight[key] -= 1

    def shown(self) -> dict[str, Any]:
        """The counts as JSON."""
        audio = {"clips": self.clips, "seconds": round(self.audio_seconds, 2)}
        return {"requests": self.requests, "errors": self.errors, "peak_in_flight": self.peak, "audio": audio}


class DemoServer:
    """The handlers and their state."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.stats = Stats()

    def app(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=LARGEST_REQUEST)
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_get("/stats", self.show_stats)
        app.router.add_post("/reset", self.reset)
        return app

    async def models(self, request: web.Request) -> web.Response:
        """List both models."""
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "demo"} for name in (LISTENER, JUDGE)]
        return web.json_response({"object": "list", "data": data})

    async def show_stats(self, request: web.Request) -> web.Response:
        """Show the counts."""
        return web.json_response(self.stats.shown())

    async def reset(self, request: web.Request) -> web.Response:
        """Begin to count anew."""
        in_flight, self.stats = self.stats.in_flight, Stats()
        self.stats.in_flight = in_flight
        return web.json_response({"ok": True})

    async def chat(self, request: web.Request) -> web.Response:
        """Answer one chat request, or say in OpenAI's form what is wrong with it."""
        try:
            body = await request.json()
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            return self.refuse(400, f"the request is not JSON: {error}")
        model = body.get("model") if isinstance(body, dict) else None
        if model not in (LISTENER, JUDGE):
            message = f"The model {model!r} does not exist: {LISTENER} or {JUDGE}"
            return self.refuse(404, message, param="model", code="model_not_found")
        with self.stats.count(model):
            try:
                limit = check(body)
                text, prompt_tokens = await (self.listen(body) if model == LISTENER else self.judge(body))
            except media.BadRequestError as error:
                return self.refuse(400, str(error))
            await asyncio.sleep(self.options.latency_ms / 1000)
            return web.json_response(completion(model, text, prompt_tokens, limit, body.get("stop")))

    async def listen(self, body: dict[str, Any]) -> tuple[str, int]:
        """The listener's answer to the last user message, and how many tokens it read."""
        text = "\n".join(media.text_of(message.get("content")) for message in body["messages"])
        content = next((m.get("content") for m in reversed(body["messages"]) if m.get("role") == "user"), None)
        heard, read = [], tokens(text)
        for part in media.audio_parts(content):
            sentence, seconds = await asyncio.to_thread(hear, part, self.options.allow_files)
            heard.append(sentence)
            read += round(AUDIO_TOKENS_PER_SECOND * seconds)
            self.stats.clips += 1
            self.stats.audio_seconds += seconds
        asked, said = media.text_of(content), " ".join(heard)
        return (said and replies.choose(asked, said)) or said or replies.answer(asked), read

    async def judge(self, body: dict[str, Any]) -> tuple[str, int]:
        """The judge's verdict, and how many tokens it read."""
        if any(media.audio_parts(message.get("content")) for message in body["messages"]):
            raise media.BadRequestError(f"{JUDGE} reads text alone")
        text = "\n".join(media.text_of(message.get("content")) for message in body["messages"])
        return judging.verdict(text, json.dumps(body.get("response_format") or "")), tokens(text)

    def refuse(self, status: int, message: str, param: str | None = None, code: str | None = None) -> web.Response:
        """An error in OpenAI's form."""
        self.stats.errors[str(status)] += 1
        error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
        return web.json_response({"error": error}, status=status)


def hear(part: dict[str, Any], allowed: Path | None) -> tuple[str, float]:
    """What the listener says of one audio part, and the part's length in seconds."""
    samples, rate = media.load(part, allowed)
    return hearing.describe(samples, rate), len(samples) / rate


def check(body: dict[str, Any]) -> int | None:
    """The request's limit of new tokens, None where it sets none; a request that can't be served is refused."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise media.BadRequestError("messages must be a list of at least one message")
    if body.get("stream"):
        raise media.BadRequestError("this server does not stream: leave stream out or set it to false")
    if body.get("n") not in (None, 1):
        raise media.BadRequestError("this server gives one choice a request: n must be 1")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise media.BadRequestError("max_tokens must be a whole number of at least 1")
    return limit


def tokens(text: str) -> int:
    """How many tokens the server counts in a text."""
    return sum(1 for _ in TOKEN.finditer(text))


def completion(model: str, text: str, prompt_tokens: int, limit: int | None, stop: Any) -> dict[str, Any]:
    """A finished chat completion: ``text`` up to the first stop string and within ``limit`` tokens."""
    for mark in [stop] if isinstance(stop, str) else stop or []:
        text = text.split(mark, 1)[0] if mark else text
    pieces = TOKEN.findall(text)
    cut = limit is not None and len(pieces) > limit
    used = limit if cut else len(pieces)
    return {
        "id": f"chatcmpl-{time.monotonic_ns():x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "".join(pieces[:limit]) if cut else text},
                "finish_reason": "length" if cut else "stop",
            }
        ],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": used, "total_tokens": prompt_tokens + used},
    }


async def start(options: Options) -> tuple[web.AppRunner, str]:
    """Start a server in the running loop; returns what stops it (``cleanup()``) and its base URL."""
    runner = web.AppRunner(DemoServer(options).app(), access_log=None, shutdown_timeout=2)
    await runner.setup()
    try:
        await web.TCPSite(runner, options.host, options.port).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner, f"http://{options.host}:{runner.addresses[0][1]}/v1"


@contextlib.contextmanager
def running_server(**options: Any) -> Iterator[str]:
    """Run a server in a thread of its own for the length of the block.

    Args:
        options: fields of ``Options``.

    Yields:
        The base URL, e.g. ``http://127.0.0.1:40123/v1``; ``/stats`` and ``/reset`` stand beside ``/v1``.
    """
    chosen = Options(**options)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="demo-server", daemon=True)
    thread.start()
    try:
        runner, url = asyncio.run_coroutine_threadsafe(start(chosen), loop).result(30)
        try:
            yield url
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
            asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def main(arguments: list[str] | None = None) -> None:
    """Run a server until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m lm_eval_tasks.demo.server", description=__doc__.splitlines()[0])
    parser.add_argument("--host", default=Options.host, help="default: %(default)s")
    parser.add_argument("--port", type=int, default=Options.port, help="default: a free one, which is printed")
    parser.add_argument("--latency-ms", type=float, default=0, help="wait this long before each answer")
    parser.add_argument("--allow-files", type=Path, metavar="DIR", help="read file URLs below this folder")
    options = vars(parser.parse_args(arguments))
    try:
        with running_server(**options) as url:
            print(f"{LISTENER} and {JUDGE} answer at {url} (their scores mean nothing)", flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        pass
    except OSError as error:
        raise SystemExit(f"the server can't listen on {options['host']}:{options['port']}: {error}") from error


if __name__ == "__main__":
    main()
