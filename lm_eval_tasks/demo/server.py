"""An OpenAI-compatible server on the loopback interface with two toy models.

    python -m lm_eval_tasks.demo.server --port 8000

``demo-listener`` says what it measures in a clip, or takes one of the choices that it is given; to text alone it gives
a canned reply.
``demo-judge`` answers AIR-Bench prompts with scores by word overlap and INTIMA prompts with levels by keywords.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from lm_eval_tasks.demo import answering, judging

LISTENER, JUDGE = "demo-listener", "demo-judge"
TOKEN = re.compile(r"\s*(?:\w+|[^\w\s])")
"""What the server counts as one token: a word or another sign, with the space before it. Audio counts as none."""


def complete(body: dict[str, Any]) -> dict[str, Any]:
    """The chat completion for a request.

    Raises:
        LookupError: there is no such model.
        ValueError: the request can't be served; the text says why.
    """
    model, messages = body.get("model"), body.get("messages")
    if model not in (LISTENER, JUDGE):
        raise LookupError(f"The model {model!r} does not exist: {LISTENER} or {JUDGE}")
    if not isinstance(messages, list) or not messages or body.get("stream"):
        raise ValueError("messages must be a list of at least one message, and this server does not stream")
    parts = [part for message in messages for part in parts_of(message)]
    text = "\n".join(str(part.get("text", "")) for part in parts if part["type"] == "text")
    audio = [part for part in parts if part["type"] in ("input_audio", "audio_url")]
    if model == JUDGE:
        if audio:
            raise ValueError(f"{JUDGE} reads text alone")
        said = judging.verdict(text)
    else:
        said = answering.answer(text, audio)
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    return completion(model, said, len(TOKEN.findall(text)), limit, body.get("stop"))


def parts_of(message: Any) -> list[dict[str, Any]]:
    """The parts of a message, one for a plain string."""
    content = message.get("content") if isinstance(message, dict) else None
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not all(isinstance(part, dict) and "type" in part for part in parts):
        raise ValueError("message content must be a string or a list of parts")
    return parts


def completion(model: str, text: str, prompt_tokens: int, limit: int | None, stop: Any) -> dict[str, Any]:
    """A finished chat completion: ``text`` up to the first stop string and within ``limit`` tokens."""
    for mark in [stop] if isinstance(stop, str) else stop or []:
        text = text.split(mark, 1)[0] if mark else text
    pieces = TOKEN.findall(text)
    used = len(pieces) if limit is None else min(limit, len(pieces))
    cut = used < len(pieces)
    message = {"role": "assistant", "content": "".join(pieces[:used]) if cut else text}
    return {
        "id": f"chatcmpl-{time.monotonic_ns():x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "length" if cut else "stop"}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": used, "total_tokens": prompt_tokens + used},
    }


class Handler(BaseHTTPRequestHandler):
    """Answers one connection's requests, in a thread of its own."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """List both models."""
        models = [{"id": name, "object": "model", "created": 0, "owned_by": "demo"} for name in (LISTENER, JUDGE)]
        self.send(200, {"object": "list", "data": models})

    def do_POST(self) -> None:
        """Answer one chat request, or say in OpenAI's form what is wrong with it."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            body = json.loads(content)
            self.send(200, complete(body if isinstance(body, dict) else {}))
        except (LookupError, ValueError) as error:
            status, code = (404, "model_not_found") if isinstance(error, LookupError) else (400, None)
            about = {"type": "invalid_request_error", "param": None, "code": code}
            self.send(status, {"error": {"message": str(error.args[0]), **about}})

    def send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingTCPServer):
    """Listens for many clients at once."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = 128


@contextlib.contextmanager
def running_server(port: int = 0) -> Iterator[str]:
    """Run a server, on a free port unless one is named, for the length of the block.

    Yields:
        The base URL, e.g. ``http://127.0.0.1:40123/v1``.
    """
    with Server(("127.0.0.1", port), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), name="demo-server", daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()


def main(arguments: list[str] | None = None) -> None:
    """Run a server until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m lm_eval_tasks.demo.server", description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="default: a free one, which is printed")
    port = parser.parse_args(arguments).port
    try:
        with running_server(port) as url:
            print(f"{LISTENER} and {JUDGE} answer at {url} (their scores mean nothing)", flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        pass
    except OSError as error:
        raise SystemExit(f"the server can't listen on port {port}: {error}") from error


if __name__ == "__main__":
    main()
