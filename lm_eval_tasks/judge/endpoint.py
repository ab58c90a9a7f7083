"""One call to an OpenAI-compatible chat endpoint, in the dialect that this server understands.

Failures are a small tree: ``CallFailed`` concerns one question and leaves the rest alone; ``Unreachable`` means that
the client's own retries are used up; ``Stopped`` means that no further call can succeed.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any

import openai

from lm_eval_tasks.settings import JudgeSettings, judge_api_key

log = logging.getLogger(f"lm_eval.{__name__}")


class CallFailed(Exception):
    """This question cannot be answered by this server; the text is the reason, ``detail`` the server's own words."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.detail = detail


class Unreachable(Exception):
    """No answer after all retries; the text is the cause."""


class Stopped(Exception):
    """A permanent fault (wrong key, unknown model, wrong address); the text names cause and remedy."""


@dataclass(frozen=True)
class Reply:
    """What came back: text ("" where there was none), why it ended, who answered, and the server's token counts."""

    text: str
    finish: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    refused: bool = False


_CONTEXT = re.compile(
    r"context.?length|maximum context|context window|too many (input )?tokens|prompt is too long", re.I
)
_FILTER = re.compile(r"content.?(filter|management|policy)|safety", re.I)
_DIALECTS = {  # what a refusal mentions -> what is then done otherwise, in the words of the log
    "max_completion_tokens": (re.compile(r"max_tokens|max_completion_tokens", re.I), "max_completion_tokens is sent"),
    "no_temperature": (re.compile(r"temperature", re.I), "no temperature is sent: the server's own default judges"),
    "no_schema": (re.compile(r"response_format|json_schema|guided|structured", re.I), "the form is asked for in words"),
    "no_system": (
        re.compile(
            r"system.{0,30}role|role.{0,30}system|system (message|prompt|instruction)|only user.{0,20}roles", re.I
        ),
        "the instructions go into the user's message",
    ),
}


class Endpoint:
    """The judge's server. Retries, back-off and Retry-After are the openai client's.

    Attributes:
        calls: requests made, the client's own retries not counted.
        learnt: what this server refused, found out from its errors; each is found out once.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.calls = 0
        self.learnt: set[str] = set()
        limit = openai.DEFAULT_CONNECTION_LIMITS.__class__(max_connections=None, max_keepalive_connections=None)
        self._client = openai.AsyncOpenAI(
            api_key=judge_api_key(settings),
            base_url=settings.judge_base_url,
            timeout=settings.judge_timeout,
            max_retries=settings.judge_max_retries,
            http_client=openai.DefaultAsyncHttpxClient(limits=limit),
        )

    async def ask(
        self,
        messages: tuple[dict[str, str], ...],
        max_tokens: int,
        schema: dict[str, Any] | None = None,
        **options: Any,
    ) -> Reply:
        """Send one chat and return the reply.

        Args:
            messages: the chat.
            max_tokens: room for the reply, reasoning included.
            schema: JSON schema for ``response_format``, where the server takes it.
            options: ``max_retries`` or ``timeout``, to differ from the settings.

        Raises:
            CallFailed, Unreachable, Stopped: see the module.
        """
        client = self._client.with_options(**options) if options else self._client
        while True:
            spoken = frozenset(self.learnt)
            self.calls += 1
            try:
                answer = await client.chat.completions.create(**self._request(messages, max_tokens, schema, spoken))
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                self._learn_or_raise(error, spoken, schema is not None)
                continue
            except (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError) as error:
                raise Stopped(self._permanent(error)) from None
            except openai.RateLimitError as error:
                if "insufficient_quota" in str(error.code or error.message):
                    raise Stopped(f"The judge's account at {self.settings.judge_base_url} has no quota left") from None
                raise Unreachable("rate limit (HTTP 429)") from None
            except openai.APITimeoutError:
                raise Unreachable(f"no answer within judge_timeout={self.settings.judge_timeout:g} s") from None
            except openai.APIConnectionError as error:
                cause = error.__cause__ or error
                raise Unreachable(f"no connection ({type(cause).__name__})") from None
            except openai.APIStatusError as error:
                if error.status_code >= 500 or error.status_code in (408, 409):
                    raise Unreachable(f"HTTP {error.status_code}") from None
                raise CallFailed(f"request refused (HTTP {error.status_code})") from None
            except (openai.OpenAIError, ValueError, TypeError, AttributeError):
                raise CallFailed("malformed reply") from None
            return self._read(answer)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _request(self, messages: Any, max_tokens: int, schema: Any, spoken: frozenset[str]) -> dict[str, Any]:
        room = "max_completion_tokens" if "max_completion_tokens" in spoken else "max_tokens"
        request = {"model": self.settings.judge_model, "messages": list(messages), room: max_tokens}
        if "no_temperature" not in spoken:
            request["temperature"] = self.settings.judge_temperature
        if schema and "no_schema" not in spoken:
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "strict": True, "schema": schema},
            }
        if "no_system" in spoken:
            head = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
            rest = [dict(message) for message in messages if message["role"] != "system"]
            rest[0]["content"] = f"{head}\n\n{rest[0]['content']}" if head else rest[0]["content"]
            request["messages"] = rest
        return request

    def _learn_or_raise(self, error: openai.APIStatusError, spoken: frozenset[str], with_schema: bool) -> None:
        """Take a refusal as a lesson about the server, or raise what it says about this question."""
        text = self._error_text(error)
        if _CONTEXT.search(text):
            raise CallFailed("context too long", text) from None
        if _FILTER.search(text):
            raise CallFailed("content filter", text) from None
        for lesson, (pattern, effect) in _DIALECTS.items():
            if lesson in spoken or not pattern.search(text) or (lesson == "no_schema" and not with_schema):
                continue
            if lesson not in self.learnt:  # calls in flight may meet the same refusal at once
                self.learnt.add(lesson)
                log.warning("The judge's server refused a part of the request; %s. It said: %s", effect, text[:200])
            return
        if spoken != frozenset(self.learnt):
            return
        raise CallFailed(f"request refused (HTTP {error.status_code})", text) from None

    def _permanent(self, error: openai.APIStatusError) -> str:
        settings = self.settings
        if error.status_code == 404:
            return (
                f"HTTP 404 from the judge at {settings.judge_base_url} for model {settings.judge_model!r}: set "
                "judge_model to a model of that server, or judge_base_url to the address that ends before "
                "/chat/completions"
            )
        variable = settings.judge_api_key_env or "JUDGE_API_KEY (or OPENAI_API_KEY)"
        return f"HTTP {error.status_code} from the judge at {settings.judge_base_url}: set a valid key in {variable}"

    def _read(self, answer: Any) -> Reply:
        usage = getattr(answer, "usage", None)
        tokens = [getattr(usage, name, None) or 0 for name in ("prompt_tokens", "completion_tokens")]
        model = getattr(answer, "model", None) or ""
        choices = getattr(answer, "choices", None)
        if not choices or choices[0].message is None:
            return Reply("", "empty", model, *tokens)
        message = choices[0].message
        if choices[0].finish_reason == "content_filter":
            raise CallFailed("content filter")
        text = message.content if isinstance(message.content, str) else ""
        return Reply(text, choices[0].finish_reason or "", model, *tokens, refused=bool(message.refusal))

    def _error_text(self, error: openai.APIStatusError) -> str:
        """The server's own words and the parameter it names, without the key should the server repeat it."""
        body = error.body if isinstance(error.body, dict) else {}
        parts = (body.get("code"), body.get("param"), body.get("message") or error.message)
        return " ".join(str(part) for part in parts if part).replace(self._client.api_key, "[key]")[:1000]
