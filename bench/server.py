"""A server that costs as little as it can: an answer for whatever has audio, a verdict for whatever has not.

    python bench/server.py --latency-ms 200

Prints its port. ``GET /stats`` counts requests, the most in flight and bytes received since the last time it was asked.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import Counter

from aiohttp import web

_FAULTS = {
    "error": (500, '{"error": {"message": "out of memory"}}'),
    "busy": (429, '{"error": {"message": "slow down"}}'),
    "gateway": (502, "<html>Bad gateway</html>"),
    "filtered": (400, '{"error": {"message": "no", "code": "content_filter"}}'),
    "refused": (400, '{"error": {"message": "this one is not taken"}}'),
    "inside": (200, '{"error": {"message": "engine failure"}}'),
    "empty": (200, ""),
    "html": (200, "<html>Welcome</html>"),
    "cut": (200, '{"choices": [{"index": 0, "mess'),
    "no choice": (200, '{"choices": []}'),
    "broken off": (200, '{"choices": [{"index": 0, "finish_reason": "error", "message": {"content": "8 6"}}]}'),
    "odd": (200, '{"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": {"score": 8}}}]}'),
}


class Server:
    """Requests of the model under test (``model``) and of the judge (``judge``)."""

    def __init__(self, latency: float, faults: float) -> None:
        self.latency, self.faults = latency, faults
        self.random = random.Random(0)
        self.calls: Counter[str] = Counter()
        self.in_flight = self.peak = self.received = 0

    async def chat(self, request: web.Request) -> web.Response:
        """Answer after the latency; the body is looked at and not parsed, which would be most of the work."""
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            body = await request.read()
            self.received += len(body)
            role = "judge" if b'"bench-judge"' in body[-20_000:] or b'"bench-judge"' in body[:200] else "model"
            self.calls[role] += 1
            await asyncio.sleep(self.latency)
            if self.random.random() < self.faults:
                return await self.fault(request)
        finally:
            self.in_flight -= 1
        text = "8 6" if role == "judge" else f"Some noise, in a request of {len(body)} bytes."
        message = {"role": "assistant", "content": text}
        return web.json_response(
            {
                "id": "x",
                "object": "chat.completion",
                "created": 0,
                "model": f"bench-{role}",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": len(body) // 4, "completion_tokens": 3, "total_tokens": len(body) // 4 + 3},
            }
        )

    async def fault(self, request: web.Request) -> web.Response:
        """Fail, in one of many ways."""
        kind = self.random.choice((*_FAULTS, "drop", "slow"))
        if kind == "drop":
            request.transport.close()
        elif kind == "slow":
            await asyncio.sleep(3)
        status, body = _FAULTS.get(kind, (500, ""))
        headers = {"Content-Type": "application/json", **({"Retry-After": "1"} if status == 429 else {})}
        return web.Response(status=status, body=body, headers=headers)

    async def stats(self, request: web.Request) -> web.Response:
        """Show the counts and begin to count anew."""
        shown = {"calls": dict(self.calls), "peak": self.peak, "received": self.received}
        self.calls.clear()
        self.peak = self.received = 0
        return web.json_response(shown)


async def serve(latency: float, faults: float) -> None:
    """Run until the process is ended."""
    server = Server(latency, faults)
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/chat/completions", server.chat)
    app.router.add_get("/stats", server.stats)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--faults", type=float, default=0, help="share of requests that fail")
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.latency_ms / 1000, chosen.faults))
