"""What a server is asked without: its refusals are answered with one field fewer, and what helped is remembered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from lm_eval_tasks.server.dialect import EFFECT, adapted, can_give_up, named_limit, next_to_give_up
from lm_eval_tasks.server.outcome import FILTERED, NO_STATUS, Kind, Outcome

log = logging.getLogger(f"lm_eval.{__name__}")

_FAULTS = (500, 501, 502)
"""Statuses of faults with which servers refuse a field of a request."""
_OF_ANOTHER_KIND = (403, 404, 405)
"""Statuses that concern a field only where they name it."""

Send = Callable[[dict[str, Any]], Awaitable[Outcome]]
"""Makes one request of a body."""


class Negotiation:
    """What one server takes and what it does not.

    Args:
        who: the server in a few words, for the log.

    Attributes:
        given_up: optional fields that it refused; see ``dialect.EFFECT``.
    """

    def __init__(self, who: str) -> None:
        self.given_up: frozenset[str] = frozenset()
        self._who = who
        self._taken: set[str] = set()  # fields of requests that were answered
        self._guessed: set[tuple[Any, ...]] = set()
        self._lock = asyncio.Lock()

    async def ask(self, request: dict[str, Any], send: Send, again: bool) -> Outcome:
        """One call; where the server refuses a part of it, once more without that part.

        Args:
            request: the body, as if the server took all of it.
            send: makes the requests.
            again: whether this very request had no answer before.
        """
        while True:
            spoken = self.given_up
            outcome = await self._send(request, spoken, send)
            within = await self._within_limit(request, spoken, send, outcome)
            if within is not None:
                return within
            if not _may_concern_a_field(outcome):
                return outcome
            if outcome.kind is not Kind.REFUSED and not self._may_guess(request, outcome):
                return outcome  # a fault, which may name a field by chance
            if self.given_up == spoken:
                async with self._lock:
                    if self.given_up == spoken:
                        guess = (again or outcome.kind is Kind.REFUSED) and self._may_guess(request, outcome)
                        return await self._otherwise(request, spoken, send, outcome, guess)

    async def _send(self, request: dict[str, Any], without: Collection[str], send: Send) -> Outcome:
        sent = adapted(request, without)
        outcome = await send(sent)
        if outcome.answered:
            self._taken.update(sent)
        return outcome

    async def _within_limit(
        self, request: dict[str, Any], spoken: frozenset[str], send: Send, refusal: Outcome
    ) -> Outcome | None:
        """The same call with the room that a refusal names; None where it names none or that does not help."""
        outcome = refusal
        while (limit := named_limit(outcome, request.get("max_tokens"))) is not None:
            request = {**request, "max_tokens": limit}
            outcome = await self._send(request, spoken, send)
            if outcome.answered:
                return outcome
        return None

    def _may_guess(self, request: dict[str, Any], refusal: Outcome) -> bool:
        """Whether a refusal that names no field may still be due to one: no request with such fields was answered."""
        untaken = set(request) - self._taken - self.given_up
        if refusal.status in _OF_ANOTHER_KIND or refusal.fingerprint in self._guessed:
            return False
        return any(can_give_up(request, name) for name in untaken)

    async def _otherwise(
        self, request: dict[str, Any], spoken: frozenset[str], send: Send, refusal: Outcome, guess: bool
    ) -> Outcome:
        """Leave out one field after the other; what was left out when it helped stays out from now on.

        Where that was guessed, the whole request is made once more: if it is taken now, the refusal had passed by
        itself and teaches nothing.
        """
        without, outcome, guessed = set(spoken), refusal, False
        while (name := next_to_give_up(outcome, request, without, guess)) is not None:
            guessed |= (
                outcome.kind is not Kind.REFUSED or next_to_give_up(outcome, request, without, guess=False) is None
            )
            without.add(name)
            outcome = await self._send(request, without, send)
            if outcome.answered:
                if guessed:
                    whole = await self._send(request, spoken, send)
                    if whole.answered:
                        return whole
                self._learn(without, refusal)
                return outcome
            if (
                outcome.reason == FILTERED
                or outcome.kind in (Kind.HOPELESS, Kind.BUSY)
                or (outcome.kind is Kind.LOST and not outcome.status)
            ):
                return outcome
        if guess:
            self._guessed.add(refusal.fingerprint)
        return refusal

    def _learn(self, without: Collection[str], refusal: Outcome) -> None:
        for name in sorted(set(without) - self.given_up):
            said = refusal.words[:200]
            log.warning("%s refused a part of the request; %s. It said: %s", self._who, EFFECT[name], said)
        self.given_up |= frozenset(without)


def _may_concern_a_field(outcome: Outcome) -> bool:
    if outcome.kind is Kind.REFUSED:
        return outcome.status != 413
    return outcome.status in _FAULTS or (outcome.kind is Kind.BROKEN and outcome.reason == NO_STATUS)
