"""The one client for every OpenAI-compatible chat server, the model's or the judge's: how long it is asked.

Of each response it decides by ``outcome.py``'s table what follows: another try, or the end of asking.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lm_eval_tasks.server.connection import Connection, Pieces, Server
from lm_eval_tasks.server.dialect import OTHER_NAME
from lm_eval_tasks.server.keys import without_keys
from lm_eval_tasks.server.negotiation import Negotiation
from lm_eval_tasks.server.outcome import FILTERED, TOO_LONG, Kind, Outcome, lost
from lm_eval_tasks.server.pace import Pace

ALIKE = 8
"""So many equal refusals with no success between mean a fault of the set-up, not of the docs."""
SAID = 3
"""So often must words alone say, with no success between, that no request will be taken: a refusal may quote a doc."""
OUTRUN = 60
"""So many rate limits of one request, with calls answered between them that were sent later, concern that request."""
BROKEN_TRIES = 3
"""How often a request is made whose reply is broken."""
BROKEN_PAUSE = 0.5
"""Seconds after the first broken reply; after the second twice as many."""
NOT_ASKED = "not asked"
"""The reason of calls that were not made because asking had ended."""


class Client(Connection):
    """Calls to one server, each made until it has an answer or nothing helps. To be used in one event loop.

    Attributes:
        negotiation: what the server refused.
        stopped: why no further call is made, or None.
        refuses: whether that is because it refused many requests alike.
        last: how the last call ended.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.pace = Pace(server.who, server.concurrency, server.patience)
        self.negotiation = Negotiation(server.who)
        self.stopped: str | None = None
        self.refuses = False
        self.last: Outcome | None = None
        self._alike: tuple[tuple[Any, ...], int] = ((), 0)
        self._struggling = 0
        self._answers, self._refused = 0, 0
        self._answered = 0.0  # when the last call was sent that has been answered

    @property
    def given_up(self) -> frozenset[str]:
        """Optional fields that the server refused; see ``dialect.EFFECT``."""
        return self.negotiation.given_up

    async def ask(
        self,
        request: dict[str, Any],
        encode: Callable[[dict[str, Any]], Pieces] | None = None,
        tries: int | None = None,
        again: Callable[[Outcome], bool] | None = None,
    ) -> Outcome:
        """Make a request until it is answered, refused, or nothing helps.

        Args:
            request: the body, with its limit of tokens as ``max_tokens``.
            encode: makes bytes of a body; JSON by default.
            tries: how often it is made at the most where no answer comes; None for as long as patience lasts.
            again: whether it may be made again after this broken reply; by default it may.

        Returns:
            The outcome; NOT_ASKED is its reason where asking had ended.
        """
        encode = encode or (lambda body: [json.dumps(body).encode()])

        async def send(body: dict[str, Any]) -> Outcome:
            return await self._send(body, encode)

        tried, broken, outrun, struggling, failed_at, overtaken = 0, 0, 0, False, 0.0, 0.0
        try:
            while True:
                if self.stopped is not None:
                    return lost(NOT_ASKED)
                outcome = await self.negotiation.ask(request, send, again=tried + broken > 0)
                if outcome.kind is Kind.BROKEN:
                    broken += 1
                    if broken < min(BROKEN_TRIES, tries or BROKEN_TRIES) and (again is None or again(outcome)):
                        await asyncio.sleep(BROKEN_PAUSE * broken)
                        continue
                elif outcome.kind in (Kind.BUSY, Kind.LOST):
                    tried += outcome.kind is Kind.LOST
                    if not struggling:
                        struggling, self._struggling = True, self._struggling + 1
                        failed_at = overtaken = time.monotonic()
                    if outcome.kind is Kind.BUSY and self._answered > overtaken:
                        outrun, overtaken = outrun + 1, self._answered
                    if outrun < OUTRUN and self._is_worth_another(outcome, tried, tries, failed_at):
                        continue
                return self._concluded(outcome)
        finally:
            self._struggling -= struggling

    def _is_worth_another(self, outcome: Outcome, tried: int, tries: int | None, failed_at: float) -> bool:
        """Whether a call without an answer, which failed first at ``failed_at``, is made again."""
        if self.stopped is not None or self.pace.has_gone():
            return False
        if outcome.kind is Kind.BUSY:
            return True
        if tries is not None:
            return tried < tries
        if tried <= self.server.max_retries:
            return True
        alone = outcome.status >= 500 and self._struggling == 1  # it answers, and only this request fails
        others_do = self._answered > failed_at  # and not just those that were under way when an outage began
        return self.pace.proven and not alone and not others_do

    def _concluded(self, outcome: Outcome) -> Outcome:
        """Note what an outcome says of the calls to come."""
        who = self.server.who
        remedy = outcome.remedy.format(**self.server.options)
        outcome = self.last = replace(outcome, remedy=remedy) if remedy != outcome.remedy else outcome
        if outcome.answered and outcome.status == 200:
            self._answers += 1
            self._alike = ((), 0)
        elif outcome.kind is Kind.HOPELESS and not outcome.by_words:
            self._stop(f"{who}: {outcome.explained()}")
        elif outcome.kind is Kind.HOPELESS:
            if self._in_a_row(outcome.fingerprint[:3]) >= SAID:
                self._stop(f"{who}: {outcome.explained()}")
            else:
                outcome = self.last = replace(outcome, kind=Kind.REFUSED)
        elif outcome.kind in (Kind.REFUSED, Kind.BROKEN, Kind.CUT):
            count = self._in_a_row(outcome.fingerprint)
            concerns_a_doc = outcome.reason in (FILTERED, TOO_LONG) or outcome.kind is Kind.CUT
            self._refused += 1
            if count >= (4 * ALIKE if concerns_a_doc else ALIKE) and not (concerns_a_doc and self._answers):
                self._stop(f"{who}: {count} requests in a row, each time: {outcome.explained()}", refuses=True)
            elif self._refused >= max(4 * ALIKE, 2 * self.server.concurrency) and not self._answers:
                # no two alike and none ever taken, though those in flight have had the time to be answered
                why = f"none of the first {self._refused} requests was answered; the last"
                self._stop(f"{who}: {why}: {outcome.explained()}", refuses=True)
        elif outcome.kind in (Kind.BUSY, Kind.LOST):
            seconds = self.pace.in_trouble_for()
            if self.pace.has_gone():
                self._stop(f"{who} stopped answering: no success for {seconds:.0f} s: {outcome.explained()}")
            elif not self.pace.proven and outcome.kind is Kind.LOST:
                start = "" if outcome.status else f" Start it, or set {self.server.options['address'].rstrip(',')}."
                self._stop(f"{who} does not answer: {outcome.explained()}{start}")
        return outcome

    def _in_a_row(self, mark: tuple[Any, ...]) -> int:
        """Count a failure; how many have had the same mark, with no success and no other failure between."""
        self._alike = (mark, self._alike[1] + 1 if mark == self._alike[0] else 1)
        return self._alike[1]

    def _stop(self, why: str, refuses: bool = False) -> None:
        if self.stopped is None:
            self.stopped, self.refuses = without_keys(why), refuses

    def begin(self) -> None:
        """Ask again after an end, as with another run."""
        self.stopped, self.refuses, self._alike, self._refused = None, False, ((), 0), 0
        self.pace.forget_trouble()

    async def _send(self, body: dict[str, Any], encode: Callable[[dict[str, Any]], Pieces]) -> Outcome:
        """One HTTP request, at the server's pace, and what came of it."""
        began = await self.pace.enter()
        if self.stopped is not None:
            self.pace.leave()
            return lost(NOT_ASKED)
        try:
            outcome = await self.post(encode(body), body.get("max_tokens", body.get(OTHER_NAME)))
        finally:
            self.pace.leave()
        if outcome.kind is Kind.BUSY:
            self.pace.busy(outcome.wait, began)
        elif outcome.kind is Kind.LOST:
            self.pace.failed(outcome.reason, outcome.wait, began)
        elif outcome.answered:
            self.pace.succeeded()
            self._answered = max(self._answered, began)
        elif outcome.kind is not Kind.HOPELESS:
            self.pace.is_there()
        return outcome
