"""How many calls are in flight, how long a busy server is left alone, and when a server has gone.

Patience is time, not a count: one wave of calls that fail together says no more than one call does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger(f"lm_eval.{__name__}")

_LONGEST_PAUSE = 10.0
"""Seconds between two tries where a server that is busy or away does not say how long to wait."""
_WORTH_A_LINE = 3.0
"""Seconds; a shorter pause is shown beside the bar and not logged."""


class Pace:
    """The pace of the calls to one server. All methods are called from its event loop.

    A busy server is asked by fewer calls at a time, after the pause that it asked for; with every round of successes
    there are more again.

    Args:
        who: the server in a few words, for the log.
        most: calls in flight at the most.
        patience: seconds without any success after which the server has gone.

    Attributes:
        notice: called with what holds the calls up, and with "" when nothing does any more; may be set by anyone.
        proven: whether any call has succeeded.
    """

    def __init__(self, who: str, most: int, patience: float) -> None:
        self.who, self.most, self.patience = who, most, patience
        self.longest = patience  # also where a check has less patience for a server that names no time
        self.notice: Callable[[str], None] = lambda text: None
        self.proven = False
        self._limit = most
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._resume_at = 0.0
        self._reduced_at = 0.0
        self._successes = 0
        self._trouble_since: float | None = None
        self._pauses = 0

    async def enter(self) -> float:
        """Wait for a turn; returns the time at which it came. Who was sent away stands behind all who wait."""
        if self._waiting or self._in_flight >= self._limit:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # the turn had been given
                    self.leave()
                raise
        else:
            self._in_flight += 1
        try:
            while (left := self._resume_at - time.monotonic()) > 0:
                await asyncio.sleep(left)
        except asyncio.CancelledError:
            self.leave()
            raise
        return time.monotonic()

    def leave(self) -> None:
        """Give the turn back."""
        self._in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        free = self._limit - self._in_flight
        while self._waiting and free > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._in_flight += 1
                free -= 1

    def is_there(self) -> None:
        """The server took a call, whatever it said."""
        if self._trouble_since is not None:
            self._trouble_since = None
            self.notice("")
        self._pauses = 0

    def succeeded(self) -> None:
        """A call was answered."""
        self.is_there()
        self.proven = True
        if self._limit < self.most:
            self._successes += 1
            if self._successes >= self._limit:
                self._successes = 0
                self._limit = min(self.most, self._limit + max(1, self._limit // 2))
                self._wake()

    def busy(self, wait: float | None, sent_at: float) -> None:
        """The server asked for a pause.

        Args:
            wait: seconds, or None where it did not say.
            sent_at: when the call began; of calls that were in flight together only the first lowers the pace.
        """
        now = time.monotonic()
        before = self._limit
        if sent_at >= self._reduced_at:
            self._reduced_at, self._successes = now, 0
            self._limit = max(1, self._limit // 2)
            self._pauses += 1
        self._pause(now, wait, f"rate limited: waiting {{wait:.0f}} s (in flight {before} -> {self._limit})")

    def failed(self, reason: str, wait: float | None, sent_at: float) -> None:
        """No answer at all; the server may be back in a moment."""
        now = time.monotonic()
        if sent_at >= self._reduced_at:
            self._reduced_at = now
            self._pauses += 1
        if self.in_trouble_for() > 0:
            self._pause(now, wait, f"{reason}: trying again in {{wait:.0f}} s")
        else:
            self._trouble_since = now

    def _pause(self, now: float, wait: float | None, text: str) -> None:
        if self._trouble_since is None:
            self._trouble_since = now
        left = max(0.05, self._trouble_since + self.patience - now)  # then once more, and then it has gone
        if wait is None:
            pause = min(_LONGEST_PAUSE, 0.5 * 2.0 ** min(self._pauses, 10), left)
        else:
            pause = min(wait, max(left, self.longest - (now - self._trouble_since)))
        if now + pause <= self._resume_at:
            return
        self._resume_at = now + pause
        line = text.format(wait=pause)
        self.notice(line)
        if pause >= _WORTH_A_LINE:
            log.warning("%s: %s", self.who, line)

    def in_trouble_for(self) -> float:
        """Seconds since the first failure after the last success; 0 where there is none."""
        return 0.0 if self._trouble_since is None else time.monotonic() - self._trouble_since

    def has_gone(self) -> bool:
        """Whether the server was given all the patience there is."""
        return self.in_trouble_for() >= self.patience

    def forget_trouble(self) -> None:
        """Begin anew, as with another run."""
        self._trouble_since, self._resume_at, self._pauses, self._limit = None, 0.0, 0, self.most
