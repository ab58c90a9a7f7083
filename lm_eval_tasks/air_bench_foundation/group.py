"""AIR-Bench Foundation's groups: the three categories and the mean of their means."""

from __future__ import annotations

import logging
from typing import Any

from lm_eval_tasks.air_bench_foundation.scoring import check_tasks
from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.groups import ScoreGroup

log = logging.getLogger(f"lm_eval.{__name__}")

SIZE = (
    "AIR-Bench Foundation: what is not here yet is fetched now. All 19 tasks are most of the hub's 49 GB; tasks=... "
    "asks for some of them, and `lm-eval-tasks fetch air_bench_foundation --tasks ...` says how much they are."
)


class FoundationGroup(ScoreGroup):
    """A category or the whole track; ``tasks`` in the settings leaves tasks out."""

    BENCHMARK = "air_bench_foundation"
    FILTER = "none"

    def _build(self, config: dict[str, Any]) -> None:
        check_tasks(self.settings.tasks or ())
        if self.settings.local_path is None:
            compat.warning_once(log, SIZE)
        super()._build(config)

    def not_wanted(self, dataset_name: str) -> str | None:
        """A task that ``tasks`` does not name."""
        return "not in tasks" if self.settings.tasks and dataset_name not in self.settings.tasks else None
