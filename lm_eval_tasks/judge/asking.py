"""One question and the judge's server: how it is put, which reply is a verdict, and how often it is asked again."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from lm_eval_tasks.judge.budget import Budget, prompt_tokens
from lm_eval_tasks.judge.question import NoVerdict, Question, Unjudged, Verdict, storable
from lm_eval_tasks.server.client import NOT_ASKED as CALL_NOT_MADE
from lm_eval_tasks.server.client import Client
from lm_eval_tasks.server.connection import Server
from lm_eval_tasks.server.keys import judge_api_key, without_keys
from lm_eval_tasks.server.outcome import Kind, Outcome
from lm_eval_tasks.settings import JudgeSettings

log = logging.getLogger(f"lm_eval.{__name__}")

ATTEMPTS = 3
"""How often a question is put: once, and twice more where the reply was no verdict."""

NOT_ASKED = "judge unavailable"
"""The reason of questions that were not put because the judge had stopped or gone."""

UNREACHABLE = "judge unreachable"
"""The reason of a question to which no answer came, while others had theirs."""

CHARACTERS = 32
"""A reply with more than so many characters for each token that was asked for is no verdict, and is not read."""


class Asker:
    """Puts questions to one server, by the settings and within the budget of a run."""

    def __init__(self, settings: JudgeSettings, client: Client, budget: Budget) -> None:
        self.settings, self.client, self.budget = settings, client, budget
        self._said: str | None = None

    @property
    def stopped(self) -> str | None:
        """Why no further question is put, or None."""
        return self.client.stopped or self.budget.reached

    async def ask(self, question: Question, tries: int | None = None) -> Verdict | Unjudged:
        """Put a question up to three times: the form restated, with double the room where a reply was cut short.

        Args:
            question: not looked up in any cache.
            tries: as in ``Client.ask``.
        """
        room, messages, budget = self.settings.judge_max_tokens, question.messages, self.budget
        tokens, unusable = [0, 0], None
        for attempt in range(1, ATTEMPTS + 1):
            held = prompt_tokens(messages) + room
            if not await budget.wait(held):
                self._say_stopped(budget.reached)
                return replace(unusable or Unjudged(budget.reached), reason=budget.reached)
            reply = await self._ask(self._body(messages, room, question.schema), tries, budget, held)
            if reply.kind in (Kind.REFUSED, Kind.HOPELESS, Kind.BUSY, Kind.LOST):
                return self._without_reply(reply, unusable, attempt)
            tokens = [tokens[0] + reply.prompt_tokens, tokens[1] + reply.completion_tokens]
            about = _about(reply, attempt, *tokens)
            try:
                return self._verdict(question, reply, room, about)
            except NoVerdict as error:
                said = storable(without_keys(reply.text[: CHARACTERS * room]))
                unusable = Unjudged(str(error), reply=said, why=reply.words, **about)
            if reply.kind is Kind.BROKEN:  # which the client has tried again itself
                return unusable
            room *= 2 if reply.kind is Kind.CUT else 1
            messages = _restated(question)
        return unusable

    async def _ask(self, body: dict[str, Any], tries: int | None, budget: Budget, held: int) -> Outcome:
        """Make a call that so many tokens are held for; each broken reply on the way may have been paid for."""
        holding = True

        def again(broken: Outcome) -> bool:
            nonlocal holding
            budget.give_back(held, _used(broken, held))
            holding = budget.take(held)
            return holding

        reply = await self.client.ask(body, tries=tries, again=again)
        if holding:
            budget.give_back(held, _used(reply, held))
        await budget.tell()
        return reply

    def request(self, question: Question, attempt: int) -> dict[str, Any]:
        """A question as it is put the first or the second time; the second time with its form and double the room."""
        messages = question.messages if attempt == 1 else _restated(question)
        return self._body(messages, attempt * self.settings.judge_max_tokens, question.schema)

    def read(self, question: Question, reply: Outcome, attempt: int) -> Verdict:
        """The verdict in the reply to a ``request``. Raises ``NoVerdict`` where it is none."""
        about = _about(reply, attempt, reply.prompt_tokens, reply.completion_tokens)
        return self._verdict(question, reply, attempt * self.settings.judge_max_tokens, about)

    def _verdict(self, question: Question, reply: Outcome, room: int, about: dict[str, Any]) -> Verdict:
        value = question.parse(_usable_text(reply, room))
        text = storable(without_keys(reply.text))
        return Verdict(value, reply=text, **about, dialect=sorted(self.client.given_up))

    def _without_reply(self, outcome: Outcome, unusable: Unjudged | None, attempt: int) -> Unjudged:
        """Why there is no verdict where no reply came; after an unusable reply that one is the reason."""
        if self.client.stopped is not None:
            self._say_stopped(self.client.stopped)
        if outcome.kind is Kind.REFUSED:  # a later one may be due to the longer question or the greater room
            return replace(unusable or Unjudged(outcome.reason, why=outcome.words), attempts=attempt)
        if outcome.reason == CALL_NOT_MADE or outcome.kind is Kind.HOPELESS:
            return Unjudged(NOT_ASKED, attempts=attempt - (outcome.reason == CALL_NOT_MADE), why=outcome.words)
        return Unjudged(UNREACHABLE, attempts=attempt, why=outcome.words or outcome.reason)

    def _body(self, messages: Any, room: int, schema: dict[str, Any] | None) -> dict[str, Any]:
        settings = self.settings
        request: dict[str, Any] = {
            "model": settings.judge_model,
            "messages": [{**message, "content": storable(message["content"])} for message in messages],
            "max_tokens": room,
            "temperature": settings.judge_temperature,
        }
        if schema:
            form = {"name": "verdict", "strict": True, "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        return request | (settings.judge_extra_body or {})

    def _say_stopped(self, why: str) -> None:
        if self._said != why:
            self._said = why
            log.error("%s. Judging ends here; every verdict so far is kept.", why.rstrip("."))


def _about(reply: Outcome, attempts: int, prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    tokens = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return {"judge": storable(reply.model), "attempts": attempts, **tokens}


def _used(reply: Outcome, held: int) -> int:
    """The tokens of a reply, be it broken: as the server counts them, else what was held for it."""
    if not reply.answered and reply.kind is not Kind.BROKEN:
        return 0
    return reply.prompt_tokens + reply.completion_tokens or held


def _restated(question: Question) -> tuple[dict[str, str], ...]:
    """The chat with the form of the reply said once more."""
    last = question.messages[-1]
    return (*question.messages[:-1], {**last, "content": f"{last['content']}\n\n{question.form}"})


def _usable_text(reply: Outcome, room: int) -> str:
    """The text, which may be a verdict. Raises ``NoVerdict`` where it can't be one."""
    if reply.kind is not Kind.REPLY:
        raise NoVerdict(reply.reason)
    if reply.refusal:
        raise NoVerdict("refused by the judge")
    if reply.only_thought:
        raise NoVerdict("the reply is in reasoning_content alone: check the reasoning parser of the judge's server")
    if not reply.text.strip():
        raise NoVerdict("empty reply")
    if len(reply.text) > CHARACTERS * room:
        raise NoVerdict("longer than the room that was asked for")
    return reply.text


def server_of(settings: JudgeSettings) -> Server:
    """Where the judge is and how it is asked."""
    parts = urlsplit(settings.judge_base_url)
    key = settings.judge_api_key_env or "key in JUDGE_API_KEY (or OPENAI_API_KEY)"
    return Server(
        who=f"The judge at {settings.judge_base_url}",
        url=urlunsplit((parts.scheme, parts.netloc, f"{parts.path}/chat/completions", parts.query, "")),
        key=judge_api_key(settings),
        concurrency=settings.judge_concurrency,
        timeout=settings.judge_timeout,
        max_retries=settings.judge_max_retries,
        patience=settings.judge_patience,
        options={"key": key, "address": "judge_base_url", "model": "judge_model", "timeout": "judge_timeout"},
    )
