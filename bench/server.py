"""A server that costs as little as it can: an answer for whatever has audio, a verdict for whatever has not.

    python bench/server.py --latency-ms 200

Prints its port. ``GET /stats`` counts requests, the most in flight and bytes received since the last time it was asked.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter

from aiohttp import web


class Server:
    """Requests of the model under test (``model``) and of the judge (``judge``)."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
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

    async def stats(self, request: web.Request) -> web.Response:
        """Show the counts and begin to count anew."""
        shown = {"calls": dict(self.calls), "peak": self.peak, "received": self.received}
        self.calls.clear()
        self.peak = self.received = 0
        return web.json_response(shown)


async def serve(latency: float) -> None:
    """Run until the process is ended."""
    server = Server(latency)
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
    asyncio.run(serve(parser.parse_args().latency_ms / 1000))
