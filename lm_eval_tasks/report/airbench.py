"""What the report shows of AIR-Bench-Chat: leaderboard, categories, tasks, sources and the distribution of scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from lm_eval_tasks.report import caveats, charts, facts, stats
from lm_eval_tasks.report.records import WAITING, Answer, Estimate, Run, mapping, number, text
from lm_eval_tasks.report.table import DASH, Cell, Row, Table, count_cell, rate_cell, score_cell, text_cell
from lm_eval_tasks.report.texts import t


class Spread(NamedTuple):
    """A run's distribution of scores, and its wins, ties and losses against the references."""

    run: Run
    chart: Markup
    wins: int
    ties: int
    losses: int


def leaderboard(runs: list[Run]) -> Table:
    """Returns each run's leaderboard row, then the published rows; every row names its judge."""
    rows = []
    for index, run in enumerate(runs):
        if not run.has(facts.AIR):
            continue
        judge, remark = judge_of(run, facts.AIR)
        cells = [score_cell(run.estimate(group, "gpt_score")) for group in facts.LEADERBOARD.values()]
        remark = "; ".join(part for part in (caveats.remark(run, facts.AIR), remark) if part)
        rows.append(Row(run.label, (*cells, text_cell(judge)), remark, index, "ours"))
    for model, scores in facts.PUBLISHED:
        known = [Cell(DASH, reason=t("not published")) if s is None else Cell(f"{s:.2f}", value=s) for s in scores]
        rows.append(Row(model, (*known, text_cell(f"{facts.OFFICIAL_JUDGE} †")), "", None, "published"))
    notes = (
        t(
            "† Published rows: the official repository's leaderboard. Its judge, {judge}, is no longer served (OpenAI "
            "shut it down on {date}), so no published number can be repeated. A score of another judge is on another "
            "scale: compare it with scores of the same judge only.",
            judge=facts.OFFICIAL_JUDGE,
            date=facts.JUDGE_SHUT_DOWN,
        ),
        t(
            "Scores of this report: ± one standard error, as in lm_eval's results file. Published values have no "
            "standard error; some are below 1, because the official script counts scores of 0 that its judge gave."
        ),
    )
    head = (t("Model"), *map(t, facts.LEADERBOARD), t("Judge"))
    return Table("air_leaderboard", t("Leaderboard"), head, tuple(rows), notes)


def judge_of(run: Run, benchmark: str) -> tuple[str, str]:
    """Returns the judge that a run asked for, and a remark where its scores are not on the published scale."""
    if run.waits(benchmark):
        return DASH, t(WAITING)
    asked, answered = run.judges(benchmark)
    if not asked:
        return t("not recorded"), t("its results do not say which judge scored it")
    remarks = []
    if benchmark == facts.AIR and set(asked) != {facts.OFFICIAL_JUDGE}:
        remarks.append(t("not the judge of the published rows"))
    other = [name for name in answered if name not in asked]
    if other:
        remarks.append(t("answered by {names}", names=", ".join(other)))
    if run.limit is not None:
        remarks.append(f"--limit {run.limit}")
    return ", ".join(asked), "; ".join(remarks)


def task_table(run: Run) -> Table:
    """Returns all metrics of a run by group, task and source, with what was judged and what was not."""
    rows = []
    for title, name in facts.AIR_GROUPS.items():
        if name in run.results:
            rows.append(Row(t(title), _metric_cells(run, name), caveats.remark(run, name), None, "group"))
    order = list(facts.RECORDS[facts.AIR])
    for name in sorted(run.tasks(facts.AIR), key=lambda name: order.index(name) if name in order else len(order)):
        rows.append(Row(t(facts.group_title(name)), _metric_cells(run, name), "", None, "task"))
        rows += _source_rows(run, name)
    columns = ("Score", "Reference", "Win rate, %", "Position gap", "Judged", "Unjudged")
    notes = (
        t(
            "Reference: the score that the judge gave the reference answer. Win rate: share of docs scored strictly "
            "above their reference. Position gap: the prediction's score when it stands first minus when it stands "
            "second. Rows of a source (·) are computed here from the logged samples."
        ),
    )
    title = t("All metrics by category, task and source")
    return Table("air_tasks", title, (t("Category or task"), *map(t, columns)), tuple(rows), notes, run.label)


def _metric_cells(run: Run, name: str) -> tuple[Cell, ...]:
    """Returns the cells of a group or task, as lm_eval's results have them."""
    values = [run.estimate(name, metric) for metric in facts.AIR_METRICS]
    parts = (
        [name] if name in run.judging else [task for task in run.tasks(facts.AIR) if name in facts.GROUPS.get(task, ())]
    )
    return _cells(values, _total([run.judged_docs(part) for part in parts]), _total([_unjudged(run, p) for p in parts]))


def _cells(values: Sequence[Estimate], judged: float | None, unjudged: float | None) -> tuple[Cell, ...]:
    score, reference, wins, gap = values
    measured = (score_cell(score), score_cell(reference), rate_cell(wins), score_cell(gap, True))
    return (*measured, count_cell(judged), count_cell(unjudged))


def _source_rows(run: Run, task: str) -> list[Row]:
    """Returns a row for each source of a task that has several, from the logged samples."""
    sources: dict[str, list[Answer]] = {}
    for answer in run.answers.get(facts.AIR, []):
        if answer.task == task:
            sources.setdefault(text(answer.doc.get("dataset_name")), []).append(answer)
    rows = []
    for source, answers in sorted(sources.items()) if len(sources) > 1 else ():
        judged = [answer for answer in answers if answer.score is not None]
        wins = [float(answer.score > (answer.reference_score or 0)) for answer in judged if answer.score is not None]
        gaps = [number(answer.record.get("position_gap")) for answer in judged]
        columns = ([answer.score for answer in judged], [answer.reference_score for answer in judged], wins, gaps)
        values = [stats.mean([value for value in column if value is not None]) for column in columns]
        rows.append(Row(f"· {source}", _cells(values, len(judged), len(answers) - len(judged)), "", None, "source"))
    return rows


def _total(counts: Sequence[float | None]) -> float | None:
    """Returns the sum of the counts of a row's tasks, where all of them are known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _unjudged(run: Run, task: str) -> float | None:
    """Returns how many docs of a task were not judged, where its summary says so."""
    unjudged = run.judging.get(task, {}).get("unjudged")
    counts = [number(count) for count in mapping(unjudged).values()]
    return _total(counts) if counts else 0 if isinstance(unjudged, dict) else None


def category_chart(runs: list[Run]) -> Markup:
    """Draws each category's score with its 95% interval beside the published scores; "" where no run has scores."""
    shown = [(index, run) for index, run in enumerate(runs) if run.judged_at_all(facts.AIR)]
    if not shown:
        return Markup()
    published = {title: [] for title in facts.AIR_GROUPS}
    for model, scores in facts.PUBLISHED:
        for title, value in zip(facts.LEADERBOARD, scores, strict=True):
            published[title] += [] if value is None else [(value, f"{model} ({t('published')})")]
    groups = facts.AIR_GROUPS.items()
    series = [
        charts.Series(
            run.label,
            place,
            tuple(point(run.label, t(row), run.estimate(group, "gpt_score"), 0.0, 10.0) for row, group in groups),
        )
        for place, run in shown
    ]
    return charts.dots(
        list(map(t, facts.AIR_GROUPS)),
        series,
        title=t("Scores by category with 95% intervals") + ": " + ", ".join(run.label for _, run in shown),
        axis=t("score given by the judge"),
        limits=(0, 10),
        background=list(published.values()),
        gaps=(3, 5, 6) if len(series) > 1 else (),
    )


def point(label: str, row: str, estimate: Estimate, low: float, high: float, form: str = "{:.2f}") -> charts.Point:
    """Returns the dot of an estimate with its normal 95% interval, cut at the ends of the scale."""
    ends = stats.normal_interval(estimate)
    return charts.point(label, row, estimate.value, ends and (max(ends[0], low), min(ends[1], high)), form)


def spreads(runs: list[Run]) -> list[Spread]:
    """Returns the distribution of scores of each run whose samples were logged."""
    found = [
        (place, run, [(a.score, a.reference_score) for a in run.answers.get(facts.AIR, []) if a.score is not None])
        for place, run in enumerate(runs)
    ]
    found = [(place, run, whole) for place, run, pairs in found if (whole := [p for p in pairs if p[1] is not None])]
    widths = (charts.HALF,) if len(found) > 1 else (charts.WIDE, charts.NARROW)
    tip = t("score {score}: {predictions} predictions, {references} references")
    out = []
    for place, run, pairs in found:
        title = f"{charts.plain(run.label)}: " + t("distribution of the scores of predictions and references")
        predictions, references = (stats.histogram(scores) for scores in zip(*pairs, strict=True))
        chart = charts.score_histogram(title, tip, t("score"), (predictions, references), place, widths)
        wins, ties = sum(p > r for p, r in pairs), sum(p == r for p, r in pairs)
        out.append(Spread(run, chart, wins, ties, len(pairs) - wins - ties))
    return out
