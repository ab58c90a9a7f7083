"""What judging may cost, and what it will: caps on calls and tokens, and an estimate from the real prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from lm_eval_tasks.settings import JudgeSettings

BYTES_A_TOKEN = 4
"""Of UTF-8; about what tokenizers of today make of English, and on the safe side for most other languages."""


def prompt_tokens(messages: Iterable[dict[str, Any]]) -> int:
    """About how many tokens a chat has."""
    return sum(len(str(message["content"]).encode("utf-8", "replace")) for message in messages) // BYTES_A_TOKEN + 1


class Budget:
    """Calls and tokens of one run under their caps. No call is made that might pass a cap, by its estimate.

    To be used in one event loop, and in one run: what is still under way of a run that was broken off gives back to
    the budget that it took from.

    Args:
        settings: with the caps.
        rank, ranks: of this process; each takes its share of a cap.

    Attributes:
        reached: which cap ended the asking, or None.
    """

    def __init__(self, settings: JudgeSettings, rank: int = 0, ranks: int = 1) -> None:
        self._settings = settings
        self._max_calls = _share(settings.judge_max_calls, rank, ranks)
        self._max_tokens = _share(settings.judge_max_tokens_total, rank, ranks)
        self._turn, self._change = asyncio.Lock(), asyncio.Condition()
        self.reached: str | None = None
        self._calls = self._tokens = self._held = self._in_flight = 0

    def take(self, tokens: int) -> bool:
        """Hold a call of at most so many tokens; False where it might pass a cap."""
        fits = self._max_tokens is None or self._tokens + self._held + tokens <= self._max_tokens
        if not fits or self._calls_are_spent() or self.reached:
            return False
        self._calls += 1
        self._in_flight += 1
        self._held += tokens
        return True

    async def wait(self, tokens: int) -> bool:
        """As ``take``, but wait for calls in flight, which mostly need less than they hold, in order."""
        async with self._turn, self._change:  # else a call that comes now would be before those who are woken
            while not self.take(tokens):
                if self._calls_are_spent() or not self._in_flight or self.reached:
                    self.stop()
                    return False
                await self._change.wait()
        return True

    def stop(self) -> None:
        """Ask no more."""
        if self.reached is None:
            cap = "judge_max_calls" if self._calls_are_spent() else "judge_max_tokens_total"
            self.reached = f"{cap}={getattr(self._settings, cap)} reached"

    def give_back(self, held: int, used: int) -> None:
        """Note what a call used of what it held."""
        self._in_flight -= 1
        self._held -= held
        self._tokens += used

    async def tell(self) -> None:
        """Tell those who wait that something was given back."""
        async with self._change:
            self._change.notify_all()

    def _calls_are_spent(self) -> bool:
        return self._max_calls is not None and self._calls >= self._max_calls


def _share(cap: int | None, rank: int, ranks: int) -> int | None:
    """The part of a cap that one of several processes has; the parts sum up to the cap."""
    return None if cap is None else cap * (rank + 1) // ranks - cap * rank // ranks


def estimate(calls: int, prompt: int, completion: int, price: tuple[float, float] | None, batch: bool) -> str:
    """What so many calls and tokens will cost, in one line.

    Args:
        calls: without second attempts.
        prompt, completion: tokens.
        price: of a million tokens of each kind, or None.
        batch: whether they go into a batch, at half the price.
    """
    line = f"{calls} calls to the judge, about {prompt} prompt and {completion} completion tokens"
    if price is None:
        return f"{line} (judge_price=IN,OUT of a million tokens tells the money)"
    money = (prompt * price[0] + completion * price[1]) / 1e6 * (0.5 if batch else 1)
    return f"{line}, about {money:.2f}{' in a batch' if batch else ''} by judge_price"
