"""An HTTP client that holds no more of a reply in memory than anybody would read."""

from __future__ import annotations

from typing import Any

from lm_eval_tasks.server.replies import LARGEST_REPLY

_OF_THE_TRANSFER = ("content-encoding", "content-length", "transfer-encoding")


def bounded(client: type[Any], most: int = LARGEST_REPLY) -> type[Any]:
    """The same class of asynchronous client (httpx's interface), which cuts a body that is longer than ``most`` bytes.

    A cut body is one byte longer than ``most``, by which ``replies.read`` knows it; as JSON it is damaged. A reply that
    is asked for as a stream comes whole, unless it is an error.
    """

    class Bounded(client):
        async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            response = await super().send(request, stream=True, **options)
            if stream and response.status_code < 400:
                return response
            body = bytearray()
            try:
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > most:
                        break
            finally:
                await response.aclose()
            headers = [(name, value) for name, value in response.headers.items() if name not in _OF_THE_TRANSFER]
            return type(response)(
                response.status_code,
                headers=headers,
                content=bytes(body[: most + 1]),
                request=response.request,
                extensions=response.extensions,
            )

    return Bounded
