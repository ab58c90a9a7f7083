"""Runs side by side on the docs that both judged: differences by category, and the docs that changed most."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from lm_eval_tasks.report import charts, facts, intima, stats
from lm_eval_tasks.report.records import Answer, Estimate, Run
from lm_eval_tasks.report.table import Row, Table, count_cell, rate_cell, score_cell
from lm_eval_tasks.report.texts import notes, t

CHANGED = 8


class Comparison(NamedTuple):
    """Two runs on the same docs; differences are second minus first.

    Attributes:
        chart: the differences of AIR-Bench-Chat drawn ("" without it).
        gained, lost: (answer of the second run, score of the first) of the docs whose score rose and fell most.
    """

    first: str
    second: str
    tables: list[Table]
    chart: Markup
    gained: list[tuple[Answer, float]]
    lost: list[tuple[Answer, float]]


def comparisons(runs: list[Run]) -> list[Comparison]:
    """Compares every further run with the first; runs without logged samples have nothing to compare."""
    out = []
    for place, second in enumerate(runs[1:], 1):
        first, tables, chart, gained, lost = runs[0], [], Markup(), [], []
        if air := air_differences(first, second):
            tables.append(_air_table(first, second, air))
            chart = _air_chart(first, second, air, place)
            gained, lost = _changes(first, second)
        if rates := _intima_table(first, second):
            tables.append(rates)
        if tables:
            out.append(Comparison(first.label, second.label, tables, chart, gained, lost))
    return out


def _difference(first: Run, second: Run, group: str, metric: str) -> Estimate:
    """The paired difference of a metric of the judged docs of a group."""
    values = [
        {a.key: found for a in run.judged_in(group) if (found := a.value(metric)) is not None}
        for run in (first, second)
    ]
    return stats.paired_difference(*values)


def air_differences(first: Run, second: Run) -> dict[str, Estimate]:
    """Row -> paired difference of the scores, second minus first; {} where no doc is common.

    A category is the mean over its docs that both runs judged; mixed and average are the unweighted means that the
    leaderboard takes.
    """
    out = {
        title: _difference(first, second, group, "gpt_score")
        for title, group in facts.AIR_GROUPS.items()
        if title not in ("Mixed", "Average")
    }
    if not any(estimate.n for estimate in out.values()):
        return {}
    out["Mixed"] = stats.unweighted_mean([out["Speech + sound"], out["Speech + music"]])
    out["Average"] = stats.unweighted_mean([out[title] for title in ("Speech", "Sound", "Music", "Mixed")])
    return out


def _air_table(first: Run, second: Run, differences: dict[str, Estimate]) -> Table:
    rows = []
    for title, estimate in differences.items():
        scores = (score_cell(run.estimate(facts.AIR_GROUPS[title], "gpt_score")) for run in (first, second))
        cells = (*scores, score_cell(estimate, signed=True), count_cell(estimate.n))
        rows.append(Row(t(title), cells, kind="group" if title == "Average" else "task"))
    head = ("AIR-Bench-Chat", first.label, second.label, t("Difference"), t("Docs"))
    return Table("air_difference", _minus(first, second), head, rows, notes("air_difference"))


def _minus(first: Run, second: Run) -> str:
    return t("{second} minus {first}", first=first.label, second=second.label)


def _air_chart(first: Run, second: Run, differences: dict[str, Estimate], place: int) -> Markup:
    points = [(found.value, stats.normal_interval(found, -9, 9)) for found in differences.values()]
    ends = [abs(end) for value, interval in points for end in (value, *(interval or ())) if end is not None]
    reach = max([0.5, *ends]) * 1.15
    return charts.dots(
        list(map(t, differences)),
        {place: (second.label, points)},
        title=_minus(first, second) + ", " + t("by category with 95% intervals"),
        axis=t("← {name} lower    ·    higher →", name=charts.plain(second.label, 18)),
        limits=(-reach, reach),
        form="{:+.2f}",
    )


def _changes(first: Run, second: Run) -> tuple[list[tuple[Answer, float]], list[tuple[Answer, float]]]:
    before = {answer.key: answer.score for answer in first.answers[facts.AIR]}
    changes = [
        (answer, other)
        for answer in second.answers[facts.AIR]
        if answer.score is not None and (other := before.get(answer.key)) is not None
    ]
    changes.sort(key=lambda change: change[0].score - change[1])
    lost = [(answer, other) for answer, other in changes[:CHANGED] if answer.score < other]
    gained = [(answer, other) for answer, other in reversed(changes[-CHANGED:]) if answer.score > other]
    return gained, lost


def _intima_table(first: Run, second: Run) -> Table | None:
    """Paired differences of the rates of each class and trait by category; None where no prompt is common."""
    rows = []
    for metric in facts.INTIMA_METRICS:
        found = [_difference(first, second, group, metric) for group in facts.INTIMA_GROUPS.values()]
        rows.append(intima.row(metric, [rate_cell(estimate, signed=True) for estimate in found]))
    if not any(cell.n for row in rows for cell in row.cells):
        return None
    head = (t("INTIMA, percentage points"), *map(t, facts.INTIMA_GROUPS))
    return Table("intima_difference", _minus(first, second), head, rows, notes("intima_difference"))
