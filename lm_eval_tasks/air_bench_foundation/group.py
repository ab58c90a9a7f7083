"""AIR-Bench Foundation's groups: the three categories and the mean of their means."""

from __future__ import annotations

from typing import Any

from lm_eval_tasks.air_bench_foundation.scoring import check_tasks
from lm_eval_tasks.harness.groups import ScoreGroup


class FoundationGroup(ScoreGroup):
    """A category or the whole track; ``tasks`` in the settings leaves tasks out."""

    BENCHMARK = "air_bench_foundation"
    FILTER = "none"

    def _build(self, config: dict[str, Any]) -> None:
        check_tasks(self.settings.tasks or ())
        super()._build(config)

    def not_wanted(self, dataset_name: str) -> str | None:
        """A task that ``tasks`` does not name."""
        return "not in tasks" if self.settings.tasks and dataset_name not in self.settings.tasks else None
