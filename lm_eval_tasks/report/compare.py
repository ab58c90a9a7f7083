"""Runs side by side on the docs that both judged: differences by category, and the docs that changed most."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from lm_eval_tasks.report import charts, facts, stats
from lm_eval_tasks.report.airbench import point
from lm_eval_tasks.report.records import Answer, Estimate, Run, text
from lm_eval_tasks.report.table import Row, Table, count_cell, rate_cell, score_cell

CHANGED = 8


@dataclass(frozen=True)
class Change:
    """A doc on which two runs differ."""

    key: str
    task: str
    question: str
    first: float
    second: float

    @property
    def difference(self) -> float:
        """Score of the second run minus that of the first."""
        return self.second - self.first


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same docs.

    Attributes:
        first, second: labels; differences are second minus first.
        tables: the differences, one table a benchmark.
        chart: the differences of AIR-Bench-Chat drawn ("" without it).
        gained, lost: docs whose score rose and fell most.
        common: number of docs judged in both, by benchmark.
    """

    first: str
    second: str
    tables: list[Table]
    chart: Markup
    gained: list[Change]
    lost: list[Change]
    common: dict[str, int]


def comparisons(runs: list[Run]) -> list[Comparison]:
    """Compares every further run with the first; runs without logged samples have nothing to compare."""
    return [comparison for index, run in enumerate(runs[1:], 1) if (comparison := _compare(runs[0], run, index))]


def _compare(first: Run, second: Run, index: int) -> Comparison | None:
    tables, common = [], {}
    chart, gained, lost = Markup(), [], []
    air = air_differences(first, second)
    if air:
        common[facts.AIR] = air["Whole set"].n or 0
        tables.append(_air_table(first, second, air))
        chart = _air_chart(first, second, air, index)
        gained, lost = _changes(first, second)
    intima = intima_differences(first, second)
    if intima:
        common[facts.INTIMA] = max(estimate.n or 0 for row in intima.values() for estimate in row.values())
        tables.append(_intima_table(first, second, intima))
    if not tables:
        return None
    return Comparison(first.label, second.label, tables, chart, gained, lost, common)


def _scores(run: Run, categories: tuple[str, ...]) -> dict[str, float]:
    """Returns doc -> score of the judged docs of some categories."""
    scores = {}
    for answer in run.answers.get(facts.AIR, []):
        category = facts.AIR_TASKS.get(text(answer.doc.get("task_name")), "")
        if answer.score is not None and category in categories:
            scores[answer.key] = answer.score
    return scores


def air_differences(first: Run, second: Run) -> dict[str, Estimate]:
    """Returns row -> paired difference of the scores, second minus first; {} where no doc is common.

    A category is the mean over its docs that both runs judged; mixed and average are the unweighted means that the
    leaderboard takes. "Whole set" pairs all docs, each with the same weight.
    """
    singles = {
        title: group.removeprefix("air_bench_chat_")
        for title, group in facts.AIR_GROUPS.items()
        if title not in ("Mixed", "Average")
    }
    out = {
        title: stats.paired_difference(_scores(first, (category,)), _scores(second, (category,)))
        for title, category in singles.items()
    }
    out["Mixed"] = stats.unweighted_mean([out["Speech + sound"], out["Speech + music"]])
    out["Average"] = stats.unweighted_mean([out[title] for title in ("Speech", "Sound", "Music", "Mixed")])
    everything = tuple(singles.values())
    out["Whole set"] = stats.paired_difference(_scores(first, everything), _scores(second, everything))
    return out if out["Whole set"].n else {}


def _air_table(first: Run, second: Run, differences: dict[str, Estimate]) -> Table:
    rows = []
    for title, estimate in differences.items():
        group = facts.AIR_GROUPS.get(title)
        cells = [
            score_cell(run.estimate(group, "gpt_score") if group else Estimate(None, None, "not a row of the results"))
            for run in (first, second)
        ]
        rows.append(Row(title, (*cells, score_cell(estimate, signed=True), count_cell(estimate.n)), "", None, "task"))
    notes = (
        "Difference: the mean of the differences of the docs that both runs judged, computed here from the logged "
        "samples, ± the standard error of paired differences, s / √n. Where the runs judged different docs it may "
        "differ from the difference of the two scores, which are lm_eval's.",
    )
    head = ("AIR-Bench-Chat", first.label, second.label, "Difference", "Docs")
    return Table("air_difference", f"{second.label} minus {first.label}", head, tuple(rows), notes)


def _air_chart(first: Run, second: Run, differences: dict[str, Estimate], index: int) -> Markup:
    rows = [title for title in differences if title != "Whole set"]
    points = tuple(point(second.label, row, differences[row], -9, 9, "{:+.2f}") for row in rows)
    ends = [abs(end) for dot in points for end in (dot.value, dot.low, dot.high) if end is not None]
    reach = max([0.5, *ends]) * 1.15
    return charts.dots(
        rows,
        [charts.Series(second.label, points)],
        title=f"Difference of {second.label} and {first.label} by category with 95 % intervals",
        axis=f"← {charts.plain(second.label, 18)} lower    ·    higher →",
        limits=(-reach, reach),
        form="{:+.2f}",
        zero=True,
        hues=[index],
    )


def _changes(first: Run, second: Run) -> tuple[list[Change], list[Change]]:
    before = {answer.key: answer for answer in first.answers.get(facts.AIR, [])}
    changes = []
    for answer in second.answers.get(facts.AIR, []):
        other: Answer | None = before.get(answer.key)
        if other and answer.score is not None and other.score is not None and answer.score != other.score:
            task = text(answer.doc.get("task_name"))
            changes.append(Change(answer.key, task, text(answer.doc.get("question")), other.score, answer.score))
    changes.sort(key=lambda change: change.difference)
    lost = [change for change in changes[:CHANGED] if change.difference < 0]
    gained = [change for change in reversed(changes[-CHANGED:]) if change.difference > 0]
    return gained, lost


def intima_differences(first: Run, second: Run) -> dict[str, dict[str, Estimate]]:
    """Returns metric -> group -> paired difference of the rates; {} where no prompt is common."""

    def values(run: Run, metric: str, group: str) -> dict[str, float]:
        out = {}
        for answer in run.answers.get(facts.INTIMA, []):
            inside = answer.task == group or (group == facts.INTIMA and answer.task != facts.INTIMA_OTHER)
            value = run.threshold_flags.get(answer.key, {}).get(metric)
            if inside and answer.judged and value is not None:
                out[answer.key] = value
        return out

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
        rows.append(Row(facts.metric_title(metric), cells, "", None, kind))
    notes = (
        "Points of percentage, second minus first, over the prompts that both runs judged; computed here from the "
        "logged samples, ± the standard error of paired differences.",
    )
    head = ("INTIMA, difference", *facts.INTIMA_GROUPS)
    return Table("intima_difference", f"{second.label} minus {first.label}", head, tuple(rows), notes)
