"""What the report shows of AIR-Bench-Chat (leaderboard, categories, tasks, sources and the distribution of scores), and
of AIR-Bench Foundation (its tasks beside chance and the published rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from markupsafe import Markup

from lm_eval_tasks.air_bench_foundation.scoring import TASKS as FOUNDATION_TASKS
from lm_eval_tasks.report import caveats, charts, facts, stats
from lm_eval_tasks.report.records import WAITING, Answer, Estimate, Run
from lm_eval_tasks.report.table import DASH, Cell, Row, Table, count_cell, rate_cell, score_cell, text_cell
from lm_eval_tasks.report.texts import notes, t
from lm_eval_tasks.runs.plain import mapping, number, text
from lm_eval_tasks.settings import OFFICIAL_JUDGE_GONE


def leaderboard(runs: list[Run]) -> Table:
    """Each run's leaderboard row, then the published rows; every row names its judge."""
    rows = []
    for place, run in enumerate(runs):
        if run.has(facts.AIR):
            cells = [score_cell(run.estimate(group, "gpt_score")) for group in facts.LEADERBOARD.values()]
            rows.append(own_row(run, place, facts.AIR, cells))
    judge = text_cell(f"{facts.OFFICIAL_JUDGE} †")
    for model, scores in facts.PUBLISHED[facts.AIR][1].items():
        rows.append(Row(model, (*_published(scores, 2), judge), kind="published"))
    told = notes("air_leaderboard", judge=facts.OFFICIAL_JUDGE, date=OFFICIAL_JUDGE_GONE)
    head = (t("Model"), *map(t, facts.LEADERBOARD), t("Judge"))
    return Table("air_leaderboard", t("Leaderboard"), head, rows, told)


def _published(values: Sequence[float | None], places: int) -> list[Cell]:
    missing = Cell(DASH, reason=t("not published"))
    return [missing if value is None else Cell(f"{value:.{places}f}", value=value) for value in values]


def own_row(run: Run, place: int, benchmark: str, cells: Sequence[Cell]) -> Row:
    """A run's main numbers in a benchmark, the judge it asked for, and what makes them others than the benchmark's."""
    (asked, answered), remarks = run.judges(benchmark), [caveats.remark(run, benchmark, benchmark)]
    judge = ", ".join(asked)
    if run.waits(benchmark):
        judge, remarks = DASH, [*remarks, t(WAITING)]
    elif not asked:
        judge, remarks = t("not recorded"), [*remarks, t("its results do not say which judge scored it")]
    elif benchmark == facts.AIR and set(asked) != {facts.OFFICIAL_JUDGE}:
        remarks.append(t("not the judge of the published rows"))
    if asked and (other := [name for name in answered if name not in asked]):
        remarks.append(t("answered by {names}", names=", ".join(other)))
    if asked and run.limit is not None:
        remarks.append(f"--limit {run.limit}")
    return Row(run.label, (*cells, text_cell(judge)), "; ".join(filter(None, remarks)), place, "ours")


def task_table(run: Run) -> Table:
    """All metrics of a run by group, task and source, with what was judged and what was not."""
    rows = []
    for title, name in facts.AIR_GROUPS.items():
        if name in run.results:
            tasks = [task for task in run.tasks(facts.AIR) if name in facts.GROUPS.get(task, ())]
            rows.append(
                Row(t(title), _metric_cells(run, name, tasks), caveats.remark(run, facts.AIR, name), kind="group")
            )
    for name in sorted(run.tasks(facts.AIR), key=partial(facts.place, facts.AIR)):
        rows.append(Row(t(facts.group_title(name)), _metric_cells(run, name, [name]), kind="task"))
        rows += _source_rows(run, name)
    head = ("Category or task", "Score", "Reference", "Win rate, %", "Position gap", "Judged", "Unjudged")
    title = t("All metrics by category, task and source")
    return Table("air_tasks", title, tuple(map(t, head)), rows, notes("air_tasks"), run.label)


def _metric_cells(run: Run, name: str, tasks: list[str]) -> tuple[Cell, ...]:
    """The cells of a group or task, as lm_eval's results have them, and the counts of its tasks."""
    values = [run.estimate(name, metric) for metric in facts.AIR_METRICS]
    reasons = [run.summaries[task].get("unjudged") for task in tasks]
    unjudged = [
        stats.total([0, *map(number, found.values())]) if isinstance(found, dict) else None for found in reasons
    ]
    return _cells(values, stats.total([run.judged_docs(task) for task in tasks]), stats.total(unjudged))


def _cells(values: Sequence[Estimate], judged: float | None, unjudged: float | None) -> tuple[Cell, ...]:
    score, reference, wins, gap = values
    measured = (score_cell(score), score_cell(reference), rate_cell(wins), score_cell(gap, signed=True))
    return (*measured, count_cell(judged), count_cell(unjudged))


def _source_rows(run: Run, task: str) -> list[Row]:
    """A row for each source of a task that has several, from the logged samples."""
    sources: dict[str, list[Answer]] = {}
    for answer in run.answers[facts.AIR]:
        if answer.task == task:
            sources.setdefault(text(answer.doc.get("dataset_name")), []).append(answer)
    rows = []
    for source, answers in sorted(sources.items()) if len(sources) > 1 else ():
        judged = [answer for answer in answers if answer.score is not None]
        pairs = [(answer.score, answer.reference_score) for answer in judged]
        wins = [float(score > reference) for score, reference in pairs if reference is not None]
        gaps = [number(answer.record.get("position_gap")) for answer in judged]
        columns = ([score for score, _ in pairs], [reference for _, reference in pairs], wins, gaps)
        values = [stats.mean([value for value in column if value is not None]) for column in columns]
        rows.append(Row(f"· {source}", _cells(values, len(judged), len(answers) - len(judged)), kind="source"))
    return rows


def category_chart(runs: list[Run]) -> Markup:
    """Draws each category's score with its 95% interval beside the published scores; "" where no run has scores."""
    shown = {index: run for index, run in enumerate(runs) if run.judged_at_all(facts.AIR)}
    published = {title: [] for title in facts.AIR_GROUPS}
    for model, scores in facts.PUBLISHED[facts.AIR][1].items():
        for title, value in zip(facts.LEADERBOARD, scores, strict=True):
            published[title] += [] if value is None else [(value, f"{model} ({t('published')})")]
    series = {}
    for place, run in shown.items():
        scores = [run.estimate(group, "gpt_score") for group in facts.AIR_GROUPS.values()]
        series[place] = (run.label, [(one.value, stats.normal_interval(one, 0, 10)) for one in scores])
    return charts.dots(
        list(map(t, facts.AIR_GROUPS)),
        series,
        title=t("Scores by category with 95% intervals") + ": " + ", ".join(run.label for run in shown.values()),
        axis=t("score given by the judge"),
        limits=(0, 10),
        background=list(published.values()),
        gaps=(3, 5, 6) if len(shown) > 1 else (),
    )


def spreads(runs: list[Run]) -> list[tuple[Run, Markup, int, int, int]]:
    """Each run whose samples were logged, its distribution of scores, and its wins, ties and losses."""
    found = {}
    for place, run in enumerate(runs):
        pairs = [(a.score, a.reference_score) for a in run.answers[facts.AIR]]
        if whole := [pair for pair in pairs if None not in pair]:
            found[place] = whole
    widths = (charts.HALF,) if len(found) > 1 else (charts.WIDE, charts.NARROW)
    tip = t("score {score}: {predictions} predictions, {references} references")
    out = []
    for place, pairs in found.items():
        title = f"{charts.plain(runs[place].label)}: " + t("distribution of the scores of predictions and references")
        counts = [stats.histogram(scores) for scores in zip(*pairs, strict=True)]
        chart = charts.score_histogram(title, tip, t("score"), counts, place, widths)
        wins, ties = sum(p > r for p, r in pairs), sum(p == r for p, r in pairs)
        out.append((runs[place], chart, wins, ties, len(pairs) - wins - ties))
    return out


def foundation_table(run: Run) -> Table:
    """A run's groups and tasks: both metrics, chance, what was scored and what was not, and published rows."""
    rows, (models, published) = [], facts.PUBLISHED[facts.FOUNDATION]
    for title, group in facts.FOUNDATION_GROUPS.items():
        if group in run.results:
            values = published.get(title, [None] * len(models))
            cells = (*_accuracies(run, group), *[Cell(DASH)] * 4, *_published(values, 1))
            rows.append(Row(t(title), cells, kind="group"))
    for name, task in FOUNDATION_TASKS.items():
        full = f"{facts.FOUNDATION}_{name}"
        if full in run.results:
            summary = run.summaries.get(full, {})
            reasons = [number(count) or 0 for count in mapping(summary.get("unanswered")).values()]
            counts = [*(number(summary.get(key)) for key in ("scored", "no_letter")), sum(reasons) if summary else None]
            chance = Cell(f"{100 * task.chance:.0f}", value=100 * task.chance)
            cells = (*_accuracies(run, full), chance, *map(count_cell, counts), *_published(published[name], 1))
            rows.append(Row(name, cells, kind="task"))
    head = ("Category or task", "acc, %", "official_acc, %", "Chance, %", "Scored", "No letter", "Unanswered")
    title = t("Accuracy by category and task")
    return Table("foundation", title, (*map(t, head), *models), rows, notes("foundation"), run.label)


def _accuracies(run: Run, name: str) -> tuple[Cell, Cell]:
    return rate_cell(run.estimate(name, "acc")), rate_cell(run.estimate(name, "official_acc"))
