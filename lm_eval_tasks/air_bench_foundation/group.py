"""AIR-Bench Foundation's groups: the three categories and the mean of their means."""

from __future__ import annotations

import logging
from typing import Any

from lm_eval_tasks.air_bench_foundation.data import FOUNDATION
from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.groups import ScoreGroup

log = logging.getLogger(f"lm_eval.{__name__}")

SIZE = (
    "AIR-Bench Foundation: what is not here yet is fetched now. All 19 tasks are most of the hub's 49 GB; tasks=... "
    "asks for some of them, and `lm-eval-tasks fetch air_bench_foundation --tasks ...` says how much they are."
)


class FoundationGroup(ScoreGroup):
    """A category or the whole track."""

    BENCHMARK, TRACK = "air_bench_foundation", FOUNDATION
    FILTER = "none"

    def _build(self, config: dict[str, Any]) -> None:
        if self.settings.local_path is None:
            compat.warning_once(log, SIZE)
        super()._build(config)
