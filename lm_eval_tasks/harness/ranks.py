"""What a judged task needs where lm-eval runs in several processes, each with its own docs."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from lm_eval_tasks.harness.compat import mean


def over_ranks(summary: dict[str, Any], ranks: int) -> dict[str, Any]:
    """The counts of all ranks' docs, where lm-eval runs in several processes of torch.distributed."""
    of_each = of_all_ranks(summary, ranks)
    return {key: _sum([one[key] for one in of_each]) for key in summary} if len(of_each) > 1 else summary


def of_all_ranks(value: Any, ranks: int) -> list[Any]:
    """The value that each rank has here; every rank must call this, and gets them all."""
    if ranks == 1:
        return [value]
    try:
        from torch import distributed
    except ModuleNotFoundError:
        return [value]
    if not (distributed.is_available() and distributed.is_initialized()):
        return [value]
    of_each: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(of_each, value)
    return of_each


def _sum(values: list[Any]) -> Any:
    return dict(sum(map(Counter, values), Counter())) if isinstance(values[0], dict) else sum(values)


class JudgedMean:
    """``mean`` over the values that are no NaN, which are taken out of the list as well.

    It compares equal to lm-eval's ``mean`` because that is how lm-eval finds the standard error that belongs to it; and
    it empties the list in place because lm-eval counts the list's values after it.
    """

    def __call__(self, values: list[float]) -> float:
        values[:] = [value for value in values if not math.isnan(value)]
        return mean(values) if values else math.nan

    def __eq__(self, other: object) -> bool:
        return other is mean or isinstance(other, JudgedMean)

    def __hash__(self) -> int:
        return hash(mean)
