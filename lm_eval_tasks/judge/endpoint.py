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

from lm_eval_tasks.judge.question import NoVerdict, storable
from lm_eval_tasks.settings import NO_KEY, JudgeSettings, judge_api_key

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

    def usable_text(self) -> str:
        """The text, which may be a verdict. Raises ``NoVerdict`` where it can't be one."""
        if self.finish == MALFORMED:
            raise NoVerdict("malformed reply")
        if self.finish == "length":
            raise NoVerdict("cut short")
        if self.refused:
            raise NoVerdict("refused by the judge")
        if not self.text.strip():
            raise NoVerdict("empty reply")
        return self.text


_KEY_VARIABLES = "JUDGE_API_KEY (or OPENAI_API_KEY)"

CONNECT = 10.0
"""Seconds in which a server must take the connection; only its answer may take longer."""

MALFORMED = "malformed"
"""What ``Reply.finish`` says where the server sent something else than a chat completion, such as a web page."""

_CONTEXT = re.compile(
    r"context.?(length|size|window)|maximum (context|model length)|too many (input )?tokens|prompt is too long|"
    r"token count.{0,30}exceeds",
    re.I,
)
FILTERED = re.compile(r"content.?(filter|management|policy)|safety|moderation|flagged", re.I)
_AMOUNT = re.compile(r"too (large|small|high|low|long)|at (most|least)|exceed", re.I)
_REFUSAL = (
    r"not (?:support|permit|allow|available|one of)|unsupported|unrecogni[sz]ed|unknown|unexpected|extra |deprecated|"
    r"disabled|invalid|only|must"
)


def _refusing(what: str) -> re.Pattern[str]:
    """Finds a part of the request and a word of refusal close to each other, in either order."""
    return re.compile(rf"(?:{what}).{{0,80}}?(?:{_REFUSAL})|(?:{_REFUSAL}).{{0,80}}?(?:{what})", re.I | re.S)


_DIALECTS = {  # what a refusal mentions -> what is then done otherwise, in the words of the log
    "max_completion_tokens": (_refusing("max_tokens"), "max_completion_tokens is sent"),
    "no_temperature": (_refusing("temperature"), "no temperature is sent: the server's own default judges"),
    "no_schema": (_refusing("response_format|json_schema|guided|structured"), "the form is asked for in words"),
    "no_system": (
        _refusing("system.{0,30}role|role.{0,30}system|system (?:message|prompt|instruction)|roles"),
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
        key = judge_api_key(settings)
        self._key = "" if key == NO_KEY else key
        self._client = openai.AsyncOpenAI(
            api_key=key,
            base_url=settings.judge_base_url,
            timeout=openai.Timeout(settings.judge_timeout, connect=min(settings.judge_timeout, CONNECT)),
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
            options: ``max_retries``, to differ from the settings.

        Raises:
            CallFailed, Unreachable, Stopped: see the module.
        """
        client = self._client.with_options(**options) if options else self._client
        while True:
            spoken = frozenset(self.learnt)
            self.calls += 1
            try:
                # post() takes half the CPU time of chat.completions.create(), which checks and copies every field
                body = self._request(messages, max_tokens, schema, spoken)
                answer = await client.post("/chat/completions", cast_to=object, body=body)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                self._learn_or_raise(error, spoken, schema is not None)
                continue
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
                raise self._failure(error) from None
            except (openai.OpenAIError, ValueError, TypeError, AttributeError):
                return Reply("", MALFORMED, "", 0, 0)
            return self._read(answer)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _request(self, messages: Any, max_tokens: int, schema: Any, spoken: frozenset[str]) -> dict[str, Any]:
        room = "max_completion_tokens" if "max_completion_tokens" in spoken else "max_tokens"
        messages = [{**message, "content": storable(message["content"])} for message in messages]
        request = {"model": self.settings.judge_model, "messages": messages, room: max_tokens}
        if "no_temperature" not in spoken:
            request["temperature"] = self.settings.judge_temperature
        if schema and "no_schema" not in spoken:
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "strict": True, "schema": schema},
            }
        if "no_system" in spoken:
            head = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
            rest = [message for message in messages if message["role"] != "system"]
            rest[0]["content"] = f"{head}\n\n{rest[0]['content']}" if head else rest[0]["content"]
            request["messages"] = rest
        return request

    def _learn_or_raise(self, error: openai.APIStatusError, spoken: frozenset[str], with_schema: bool) -> None:
        """Take a refusal as a lesson about the server, or raise what it says about this question."""
        text = self._error_text(error)
        if _CONTEXT.search(text):
            raise CallFailed("context too long", text) from None
        if FILTERED.search(text):
            raise CallFailed("content filter", text) from None
        for lesson, (pattern, effect) in _DIALECTS.items() if not _AMOUNT.search(text) else ():
            if lesson in spoken or not pattern.search(text) or (lesson == "no_schema" and not with_schema):
                continue
            if lesson not in self.learnt:  # calls in flight may meet the same refusal at once
                self.learnt.add(lesson)
                log.warning("The judge's server refused a part of the request; %s. It said: %s", effect, text[:200])
            return
        if spoken != frozenset(self.learnt):
            return
        raise CallFailed(f"request refused (HTTP {error.status_code})", text) from None

    def _failure(self, error: openai.APIStatusError) -> CallFailed | Unreachable | Stopped:
        """What a status other than 200, 400, 422 and 429 means."""
        settings, status = self.settings, error.status_code
        where = f"HTTP {status} from the judge at {settings.judge_base_url}"
        if status >= 500 or status in (408, 409):
            return Unreachable(f"HTTP {status}")
        if status == 403 and FILTERED.search(self._error_text(error)):
            return CallFailed("content filter", self._error_text(error))
        if status in (401, 403):
            return Stopped(f"{where}: set a valid key in {settings.judge_api_key_env or _KEY_VARIABLES}")
        if status == 402:
            return Stopped(f"{where}: the account has no credit left")
        if status in (404, 405, 410):
            return Stopped(
                f"{where} for model {settings.judge_model!r}: set judge_model to a model of that server, or "
                "judge_base_url to the address that ends before /chat/completions"
            )
        return CallFailed(f"request refused (HTTP {status})", self._error_text(error))

    def _read(self, answer: Any) -> Reply:
        """A chat completion as a ``Reply``; no field of it is trusted to be there or to have the right type."""
        answer = _object(answer)
        usage, choices = _object(answer.get("usage")), answer.get("choices")
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        tokens = [count if isinstance(count, int) else 0 for count in counts]
        model = self._clean(str(answer.get("model") or ""))
        if not isinstance(choices, list):
            return Reply("", MALFORMED, model, *tokens)
        choice = _object(choices[0]) if choices else {}
        if choice.get("message") is None:
            return Reply("", "empty", model, *tokens)
        finish = str(choice.get("finish_reason") or "")
        if finish == "content_filter":
            raise CallFailed("content filter")
        message = _object(choice["message"])
        content = message.get("content")
        text = self._clean(content) if isinstance(content, str) else ""
        return Reply(text, finish, model, *tokens, refused=bool(message.get("refusal")))

    def _error_text(self, error: openai.APIStatusError) -> str:
        """The server's own words and the parameter it names."""
        body = error.body if isinstance(error.body, dict) else {}
        parts = (body.get("code"), body.get("param"), body.get("message") or error.response.text)
        return self._clean(" ".join(str(part) for part in parts if part))[:1000]

    def _clean(self, text: str) -> str:
        """A server's text as UTF-8 can hold it, without the key should the server repeat it."""
        return storable(text.replace(self._key, "[key]") if self._key else text)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
