"""What the report shows of AIR-Bench Foundation: its tasks beside chance and the published rows."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_tasks.air_bench_foundation.scoring import TASKS
from lm_eval_tasks.report import facts
from lm_eval_tasks.report.records import Run
from lm_eval_tasks.report.table import DASH, Cell, Row, Table, count_cell, rate_cell
from lm_eval_tasks.report.texts import notes, t
from lm_eval_tasks.runs.plain import mapping, number

MODELS, PUBLISHED = facts.PUBLISHED[facts.FOUNDATION]


def table(run: Run) -> Table:
    """A run's groups and tasks: both metrics, chance, what was scored and what was not, and published rows."""
    rows = []
    for title, group in facts.FOUNDATION_GROUPS.items():
        if group in run.results:
            published = PUBLISHED.get(title, [None] * len(MODELS))
            rows.append(Row(t(title), (*_metrics(run, group), *[Cell(DASH)] * 4, *_published(published)), kind="group"))
    for name, task in TASKS.items():
        full = f"{facts.FOUNDATION}_{name}"
        if full in run.results:
            summary = run.summaries.get(full, {})
            reasons = [number(count) or 0 for count in mapping(summary.get("unanswered")).values()]
            counts = [*(number(summary.get(key)) for key in ("scored", "no_letter")), sum(reasons) if summary else None]
            chance = Cell(f"{100 * task.chance:.0f}", value=100 * task.chance)
            cells = (*_metrics(run, full), chance, *map(count_cell, counts), *_published(PUBLISHED[name]))
            rows.append(Row(name, cells, kind="task"))
    head = ("Category or task", "acc, %", "official_acc, %", "Chance, %", "Scored", "No letter", "Unanswered")
    return Table(
        "foundation",
        t("Accuracy by category and task"),
        (*map(t, head), *MODELS),
        tuple(rows),
        notes("foundation"),
        run.label,
    )


def _metrics(run: Run, name: str) -> tuple[Cell, Cell]:
    return rate_cell(run.estimate(name, "acc")), rate_cell(run.estimate(name, "official_acc"))


def _published(values: Sequence[float | None]) -> list[Cell]:
    missing = Cell(DASH, reason=t("not published"))
    return [missing if value is None else Cell(f"{value:.1f}", value=value) for value in values]
