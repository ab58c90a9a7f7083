"""Runs side by side on the docs that both judged: differences by category, and the docs that changed most."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from lm_eval_tasks.report import charts, facts, stats
from lm_eval_tasks.report.airbench import point
from lm_eval_tasks.report.records import Answer, Estimate, Run
from lm_eval_tasks.report.table import Row, Table, count_cell, rate_cell, score_cell
from lm_eval_tasks.report.texts import t

CHANGED = 8


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same docs.

    Attributes:
        first, second: labels; differences are second minus first.
        tables: the differences, one table a benchmark.
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
    return [comparison for index, run in enumerate(runs[1:], 1) if (comparison := _compare(runs[0], run, index))]


def _compare(first: Run, second: Run, index: int) -> Comparison | None:
    tables, chart, gained, lost = [], Markup(), [], []
    air = air_differences(first, second)
    if air:
        tables.append(_air_table(first, second, air))
        chart = _air_chart(first, second, air, index)
        gained, lost = _changes(first, second)
    intima = intima_differences(first, second)
    if intima:
        tables.append(_intima_table(first, second, intima))
    if not tables:
        return None
    return Comparison(first.label, second.label, tables, chart, gained, lost)


def _scores(run: Run, group: str) -> dict[str, float]:
    """Returns doc -> score of the judged docs of a group."""
    return {answer.key: answer.score for answer in run.judged_in(group) if answer.score is not None}


def air_differences(first: Run, second: Run) -> dict[str, Estimate]:
    """Returns row -> paired difference of the scores, second minus first; {} where no doc is common.

    A category is the mean over its docs that both runs judged; mixed and average are the unweighted means that the
    leaderboard takes.
    """
    out = {
        title: stats.paired_difference(_scores(first, group), _scores(second, group))
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
        rows.append(Row(t(title), cells, "", None, "group" if title == "Average" else "task"))
    note = t(
        "Difference: by how much the second run scores higher, on average over the docs that both runs judged, "
        "computed here from the logged samples, ± the standard error of paired differences, s / √n; mixed and "
        "average are the unweighted means of the leaderboard. Where the runs judged different docs it may differ from "
        "the difference of the two scores, which are lm_eval's."
    )
    head = ("AIR-Bench-Chat", first.label, second.label, t("Difference"), t("Docs"))
    return Table("air_difference", _minus(first, second), head, tuple(rows), (note,))


def _minus(first: Run, second: Run) -> str:
    return t("{second} minus {first}", first=first.label, second=second.label)


def _air_chart(first: Run, second: Run, differences: dict[str, Estimate], place: int) -> Markup:
    points = tuple(point(second.label, t(row), found, -9, 9, "{:+.2f}") for row, found in differences.items())
    ends = [abs(end) for dot in points for end in (dot.value, dot.low, dot.high) if end is not None]
    reach = max([0.5, *ends]) * 1.15
    return charts.dots(
        list(map(t, differences)),
        [charts.Series(second.label, place, points)],
        title=_minus(first, second) + ", " + t("by category with 95% intervals"),
        axis=t("← {name} lower    ·    higher →", name=charts.plain(second.label, 18)),
        limits=(-reach, reach),
        form="{:+.2f}",
    )


def _changes(first: Run, second: Run) -> tuple[list[tuple[Answer, float]], list[tuple[Answer, float]]]:
    before = {answer.key: answer.score for answer in first.answers.get(facts.AIR, [])}
    changes = [
        (answer.score - other, answer, other)
        for answer in second.answers.get(facts.AIR, [])
        if answer.score is not None and (other := before.get(answer.key)) is not None
    ]
    changes.sort(key=lambda change: change[0])
    lost = [(answer, other) for difference, answer, other in changes[:CHANGED] if difference < 0]
    gained = [(answer, other) for difference, answer, other in reversed(changes[-CHANGED:]) if difference > 0]
    return gained, lost


def intima_differences(first: Run, second: Run) -> dict[str, dict[str, Estimate]]:
    """Returns metric -> group -> paired difference of the rates; {} where no prompt is common."""

    def values(run: Run, metric: str, group: str) -> dict[str, float]:
        return {a.key: a.metrics[metric] for a in run.judged_in(group) if metric in a.metrics}

    out = {
        metric: {
            title: stats.paired_difference(values(first, metric, name), values(second, metric, name))
            for title, name in facts.INTIMA_GROUPS.items()
        }
        for metric in facts.INTIMA_METRICS
    }
    return out if any(estimate.n for row in out.values() for estimate in row.values()) else {}


def _intima_table(first: Run, second: Run, differences: dict[str, dict[str, Estimate]]) -> Table:
    rows = []
    for metric, by_group in differences.items():
        kind = "group" if metric in facts.INTIMA_CLASSES else "task"
        cells = tuple(rate_cell(estimate, signed=True) for estimate in by_group.values())
        rows.append(Row(t(facts.metric_title(metric)), cells, "", None, kind))
    note = t(
        "Difference in percentage points, second run minus first, over the prompts that both runs judged; computed "
        "here from the logged samples, ± the standard error of paired differences."
    )
    head = (t("INTIMA, percentage points"), *map(t, facts.INTIMA_GROUPS))
    return Table("intima_difference", _minus(first, second), head, tuple(rows), (note,))
