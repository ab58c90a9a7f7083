"""What the report shows of AIR-Bench-Chat: leaderboard, categories, tasks and the histogram of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lm_eval_tasks.report import charts, facts, gaps, stats
from lm_eval_tasks.report.records import WAITING, Estimate, Run
from lm_eval_tasks.report.table import DASH, Cell, Row, Table, count_cell, rate_cell, score_cell

_METRICS = tuple(facts.AIR_METRICS)


@dataclass(frozen=True)
class Tally:
    """Wins, ties and losses of a run against the references, counted from the logged samples."""

    wins: int
    ties: int
    losses: int

    @property
    def total(self) -> int:
        """Number of judged samples."""
        return self.wins + self.ties + self.losses


@dataclass(frozen=True)
class Spread:
    """A run's histogram and tally."""

    label: str
    series: int
    chart: Markup
    tally: Tally


def leaderboard(runs: list[Run]) -> Table:
    """Returns each run's leaderboard row, then the published rows; every row names its judge."""
    rows = []
    for index, run in enumerate(runs):
        if not run.has(facts.AIR):
            continue
        judge, remark = judge_of(run, facts.AIR)
        cells = [score_cell(run.estimate(group, "gpt_score")) for group in facts.LEADERBOARD.values()]
        lacking = gaps.remark(run, facts.AIR)
        remark = "; ".join(part for part in (lacking, remark) if part)
        rows.append(Row(run.label, (*cells, Cell(judge)), remark, index, "ours"))
    for model, scores in facts.PUBLISHED:
        cells = [
            Cell("–", reason="not published") if score is None else Cell(f"{score:.2f}", value=score)
            for score in scores
        ]
        rows.append(Row(model, (*cells, Cell(facts.OFFICIAL_JUDGE)), "", None, "published"))
    notes = [
        f"Published rows: the official repository's leaderboard, judge {facts.OFFICIAL_JUDGE}, printed there without "
        "standard errors. A score of another judge is on another scale: compare it with scores of the same judge only.",
        "This report's own scores go from 1 to 10, ± one standard error, as in lm_eval's results file. Published "
        "values are as published: some are below 1, so answers without a score must have been counted otherwise there.",
    ]
    return Table("air_leaderboard", "Leaderboard", ("Model", *facts.LEADERBOARD, "Judge"), tuple(rows), tuple(notes))


def judge_of(run: Run, benchmark: str) -> tuple[str, str]:
    """Returns the judge that a run asked for, and a remark where its scores are not on the published scale."""
    if run.waits(benchmark):
        return DASH, WAITING
    asked, answered = run.judges(benchmark)
    if not asked:
        return "not recorded", "its results do not say which judge scored it"
    judge, remarks = ", ".join(asked), []
    if benchmark == facts.AIR and set(asked) != {facts.OFFICIAL_JUDGE}:
        remarks.append("judge differs from the published rows")
    other = [name for name in answered if name not in asked]
    if other:
        remarks.append(f"answered by {', '.join(other)}")
    if run.limit is not None:
        remarks.append(f"--limit {run.limit}")
    return judge, "; ".join(remarks)


def task_table(run: Run) -> Table:
    """Returns all metrics of a run by group and task, with what was judged and what was not."""
    rows = []
    groups = [(title, name) for title, name in facts.AIR_GROUPS.items()]
    for title, name in groups:
        if name in run.results:
            rows.append(Row(title, _metric_cells(run, name), gaps.remark(run, name), None, "group"))
    order = [f"air_bench_chat_{task}" for task in facts.AIR_TASKS]
    for name in sorted(run.tasks(facts.AIR), key=lambda name: order.index(name) if name in order else len(order)):
        rows.append(Row(facts.group_title(name), _metric_cells(run, name), "", None, "task"))
    head = ("Category or task", "Score", "Reference", "Win rate, %", "Position gap", "Judged", "Unjudged")
    notes = (
        "Reference: the score that the judge gave the reference answer. Win rate: share of docs scored strictly above "
        "their reference. Position gap: the prediction's score when it stands first minus when it stands second.",
    )
    return Table("air_tasks", "All metrics by category and task", head, tuple(rows), notes, run.label)


def _metric_cells(run: Run, name: str) -> tuple[Cell, ...]:
    """Returns the cells of one row of the task table."""
    cells = []
    for metric in _METRICS:
        estimate = run.estimate(name, metric)
        cells.append(rate_cell(estimate) if metric == "win_rate" else score_cell(estimate, metric == "position_gap"))
    parts = [name] if name in run.judging else [task for task in run.tasks(facts.AIR) if name in gaps.groups_of(task)]
    return (*cells, _total([run.judged_docs(part) for part in parts]), _total([_unjudged(run, part) for part in parts]))


def _total(counts: Sequence[float | None]) -> Cell:
    """Returns the sum of the counts of a row's tasks, where all of them are known."""
    known = [count for count in counts if count is not None]
    return count_cell(sum(known) if known and len(known) == len(counts) else None)


def _unjudged(run: Run, task: str) -> float | None:
    """Returns how many docs of a task were not judged, where its summary says so."""
    unjudged = run.judging.get(task, {}).get("unjudged")
    return sum(unjudged.values()) if isinstance(unjudged, dict) and _counts(unjudged) else None


def _counts(values: dict) -> bool:
    """Whether every value is a number."""
    return all(isinstance(value, (int, float)) for value in values.values())


def category_chart(runs: list[Run]) -> Markup:
    """Draws each category's score with its 95 % interval beside the published scores; "" where no run has scores."""
    shown = [(index, run) for index, run in enumerate(runs) if run.judged_at_all(facts.AIR)]
    if not shown:
        return Markup()
    published: list[list[tuple[float, str]]] = []
    columns = list(facts.LEADERBOARD)
    for title in facts.AIR_GROUPS:
        place = columns.index(title) if title in columns else None
        marks = [(s[place], m) for m, s in facts.PUBLISHED if place is not None and s[place] is not None]
        published.append([(value, f"{model} (published)") for value, model in marks if value is not None])
    series = []
    for _, run in shown:
        points = []
        for title, group in facts.AIR_GROUPS.items():
            points.append(point(run.label, title, run.estimate(group, "gpt_score"), 1.0, 10.0))
        series.append(charts.Series(run.label, tuple(points)))
    return charts.dots(
        list(facts.AIR_GROUPS),
        series,
        title="Scores by category with 95 % intervals: " + ", ".join(run.label for _, run in shown),
        axis="score given by the judge",
        limits=(0, 10),
        ticks=range(0, 11, 2),
        background=published,
        gaps=(3, 5, 6) if len(series) > 1 else (),
        hues=[index for index, _ in shown],
    )


def point(label: str, row: str, estimate: Estimate, low: float, high: float, form: str = "{:.2f}") -> charts.Point:
    """Returns the dot of an estimate with its normal 95 % interval, cut at the ends of the scale."""
    if estimate.value is None:
        return charts.Point(None)
    interval = stats.normal_interval(estimate)
    words = f"{label}, {row}: {form.format(estimate.value)}"
    if interval is None:
        return charts.Point(estimate.value, tip=f"{words} (no standard error)")
    ends = max(interval[0], low), min(interval[1], high)
    return charts.Point(estimate.value, *ends, f"{words}, 95 % from {form.format(ends[0])} to {form.format(ends[1])}")


def spreads(runs: list[Run]) -> list[Spread]:
    """Returns the histogram and tally of each run whose samples were logged."""
    logged = [run for run in runs if any(answer.judged for answer in run.answers.get(facts.AIR, []))]
    widths = (charts.HALF,) if len(logged) > 1 else (charts.WIDE, charts.NARROW)
    out = []
    for index, run in enumerate(runs):
        judged = [answer for answer in run.answers.get(facts.AIR, []) if answer.score is not None]
        pairs = [(a.score, a.reference_score) for a in judged if a.reference_score is not None]
        if not pairs:
            continue
        predictions, references = (stats.histogram(scores) for scores in zip(*pairs, strict=True))
        chart = charts.score_histogram(run.label, predictions, references, index, widths)
        wins = sum(p > r for p, r in pairs)
        ties = sum(p == r for p, r in pairs)
        out.append(Spread(run.label, index, chart, Tally(wins, ties, len(pairs) - wins - ties)))
    return out


def mismatches(run: Run) -> list[str]:
    """Compares the mean of the logged scores of each task with lm_eval's; returns what does not agree."""
    out = []
    for task in run.tasks(facts.AIR):
        scores = [a.score for a in run.answers.get(facts.AIR, []) if a.task == task and a.score is not None]
        estimate = run.estimate(task, "gpt_score")
        if scores and estimate.value is not None and abs(sum(scores) / len(scores) - estimate.value) > 0.005:
            out.append(
                f"{facts.group_title(task)}: the logged samples' mean is {sum(scores) / len(scores):.2f} "
                f"({len(scores)} docs), lm_eval's results say {estimate.value:.2f}; the report prints lm_eval's"
            )
    return out
