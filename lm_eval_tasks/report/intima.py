"""What the report shows of INTIMA: classes, traits and their levels by category of prompt, and the exclusive labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from markupsafe import Markup

from lm_eval_tasks.intima.scoring import LEVELS
from lm_eval_tasks.report import caveats, charts, facts, stats
from lm_eval_tasks.report.airbench import judge_of, point
from lm_eval_tasks.report.records import Estimate, Run, mapping, number
from lm_eval_tasks.report.table import Row, Table, count_cell, rate_cell, text_cell
from lm_eval_tasks.report.texts import t

Intervals = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class LabelBars:
    """A run's chart of the exclusive labels."""

    label: str
    series: int
    chart: Markup


def bootstrap(run: Run, group: str) -> Intervals:
    """Returns the 95 % bootstrap interval over prompts of each metric, from the logged samples of a group.

    The values drawn from are those that the run logged (0 or 1 at its own threshold). Prompts are drawn within their
    category, as lm_eval's standard error of the whole is pooled over the categories. Empty where none were logged.
    """
    rows, categories = [], []
    for answer in run.answers.get(facts.INTIMA, []):
        values = run.threshold_flags.get(answer.key, {})
        inside = answer.task == group or (group == facts.INTIMA and answer.task != facts.INTIMA_OTHER)
        if inside and answer.judged and all(metric in values for metric in facts.INTIMA_METRICS):
            rows.append([values[metric] for metric in facts.INTIMA_METRICS])
            categories.append(answer.task)
    return dict(zip(facts.INTIMA_METRICS, stats.bootstrap_intervals(rows, categories), strict=False))


def shown_groups(run: Run) -> dict[str, str]:
    """Returns title -> name of the groups and tasks that a run holds, the whole first."""
    groups = {title: name for title, name in facts.INTIMA_GROUPS.items() if name in run.results}
    known = set(facts.INTIMA_GROUPS.values())
    for name in run.tasks(facts.INTIMA):
        if name not in known:
            groups[facts.group_title(name)] = name
    return groups


def all_intervals(run: Run) -> dict[str, Intervals]:
    """Returns the bootstrap intervals of every group that is shown."""
    return {name: bootstrap(run, name) for name in shown_groups(run).values()}


def heat_table(run: Run, intervals: dict[str, Intervals]) -> Table:
    """Returns the rates of classes, traits and labels by category of prompt, as a shaded table."""
    groups, rows, any_clustered = shown_groups(run), [], False
    for metric in (*facts.INTIMA_METRICS, *facts.INTIMA_LABELS):
        cells = []
        for name in groups.values():
            ends = intervals.get(name, {}).get(metric)
            tip = (
                t("95 % interval {low} to {high} %", low=f"{100 * ends[0]:.1f}", high=f"{100 * ends[1]:.1f}")
                if ends
                else ""
            )
            clustered = number(mapping(run.judging.get(name, {}).get("stderr_by_code")).get(metric))
            any_clustered |= clustered is not None
            heat = metric in facts.INTIMA_METRICS
            cells.append(rate_cell(run.estimate(name, metric), heat=heat, tip=tip, clustered=clustered))
        label = metric in facts.INTIMA_LABELS
        kind = "share" if label else "group" if metric in facts.INTIMA_CLASSES else "task"
        title = t(facts.metric_title(metric))
        rows.append(Row(f"{t('Label')}: {title}" if label else title, tuple(cells), "", None, kind))
    note = t(
        "Share of judged answers in which the judge saw the class or trait at the run's threshold or above, ± one "
        "standard error, as in lm_eval's results file. No direction is better in the paper."
    )
    clustered_note = t(
        "In brackets: the standard error clustered by code, which allows for prompts of a code being alike."
    )
    return Table(
        "intima_rates",
        t("Classes, traits and labels by category of prompt"),
        (t("% of answers"), *map(t, groups)),
        tuple(rows),
        (note, clustered_note) if any_clustered else (note,),
        run.label,
    )


def level_table(run: Run) -> Table | None:
    """Returns how often each level was given, of all judged answers; None where neither results nor samples say."""
    counts: dict[str, Counter[str]] = {metric: Counter() for metric in facts.INTIMA_METRICS}
    stored = [mapping(run.judging.get(task, {}).get("levels")) for task in run.tasks(facts.INTIMA)]
    for levels in stored if any(stored) else ():
        for metric in counts:
            counts[metric].update({k: number(v) or 0 for k, v in mapping(levels.get(metric)).items()})
    for answer in run.answers.get(facts.INTIMA, []) if not any(stored) else ():
        for metric, level in answer.levels.items():
            if metric in counts:
                counts[metric][level] += 1
    rows = []
    for metric, found in counts.items():
        if n := sum(found[level] for level in LEVELS):
            cells = [rate_cell(Estimate(found[level] / n), heat=True) for level in LEVELS]
            kind = "group" if metric in facts.INTIMA_CLASSES else "task"
            cells = [replace(cell, error="") for cell in cells]
            rows.append(Row(t(facts.metric_title(metric)), (*cells, count_cell(n)), "", None, kind))
    if not rows:
        return None
    note = t(
        "The levels low, medium and high are the paper's; none is this pack's own. Counted over all judged answers."
    )
    head = (t("% of answers"), *(t(level.capitalize()) for level in LEVELS), t("Docs"))
    return Table("intima_levels", t("Levels of each class and trait"), head, tuple(rows), (note,), run.label)


def _points(run: Run, places: list[tuple[str, str, str]], intervals: dict[str, Intervals]) -> tuple[charts.Point, ...]:
    """Returns the dots of (row, group, metric) with bootstrap intervals where samples were logged."""
    points = []
    for row, group, metric in places:
        estimate = run.estimate(group, metric)
        value = None if estimate.value is None else 100 * estimate.value
        found = point(run.label, row, Estimate(value, None), 0, 100, "{:.1f} %")
        ends = intervals.get(group, {}).get(metric)
        if value is not None and ends is not None:
            low, high = 100 * ends[0], 100 * ends[1]
            found = replace(found, low=low, high=high, tip=f"{found.tip}, 95 %: {low:.1f} … {high:.1f} %")
        points.append(found)
    return tuple(points)


def bars(runs: list[Run], intervals: list[dict[str, Intervals]], metrics: list[str], by_category: bool) -> Markup:
    """Draws rates with 95 % bootstrap intervals over prompts: one metric by category, or metrics over all prompts.

    Args:
        runs: all runs of the report.
        intervals: of each run, what `all_intervals` returns.
        metrics: the rows; with `by_category` only the first is drawn.
        by_category: whether the rows are categories of prompts.
    """
    shown = [(place, run) for place, run in enumerate(runs) if run.judged_at_all(facts.INTIMA)]
    if by_category:
        names = {title: name for _, run in shown for title, name in shown_groups(run).items()}
        places = [(t(title), name, metrics[0]) for title, name in names.items()]
        title = t(facts.metric_title(metrics[0]))
    else:
        whole = _whole(shown[0][1])
        places = [(t(facts.metric_title(metric)), whole, metric) for metric in metrics]
        title = t("Traits over all prompts")
    return charts.dots(
        [row for row, _, _ in places],
        [charts.Series(run.label, place, _points(run, places, intervals[place])) for place, run in shown],
        title=f"{title}, {t('95 % intervals by bootstrap')}: " + ", ".join(run.label for _, run in shown),
        axis=t("% of answers"),
        limits=(0, 100),
        form="{:.0f}",
        gaps=(1,) if by_category else (4, 8),
        widths=(charts.THIRD,) if by_category else (charts.WIDE, charts.NARROW),
    )


def _whole(run: Run) -> str:
    """Returns the group over all prompts, or the run's only task where it has no group row."""
    return next(iter(shown_groups(run).values()), facts.INTIMA)


def label_bars(runs: list[Run]) -> list[LabelBars]:
    """Draws the shares of the exclusive labels by category of prompt, one chart a run."""
    out = []
    parts = [(name.replace("_", "-"), t(title)) for name, title in facts.INTIMA_LABELS.items()]
    for place, run in enumerate(runs):
        groups = shown_groups(run)
        shares = [[run.estimate(name, label).value for label in facts.INTIMA_LABELS] for name in groups.values()]
        if any(value is not None for row in shares for value in row):
            title = f"{run.label}: {t('exclusive labels by category')}"
            chart = charts.stacked(list(map(t, groups)), parts, shares, title)
            out.append(LabelBars(run.label, place, chart))
    return out


def summary(runs: list[Run]) -> Table:
    """Returns the three classes and the labels over all prompts, a row a run."""
    rows = []
    for place, run in enumerate(runs):
        if run.has(facts.INTIMA):
            metrics = (*facts.INTIMA_CLASSES, *facts.INTIMA_LABELS)
            cells = [rate_cell(run.estimate(_whole(run), metric)) for metric in metrics]
            judge, remark = judge_of(run, facts.INTIMA)
            had, whole = caveats.records(run, facts.INTIMA)[0], sum(facts.RECORDS[facts.INTIMA].values())
            lacking = t("{n} of {whole} records", n=had, whole=whole) if had < whole else ""
            note = "; ".join(filter(None, (lacking, remark)))
            rows.append(Row(run.label, (*cells, text_cell(judge)), note, place, "ours"))
    labels = (f"{t('Label')}: {t(title)}" for title in facts.INTIMA_LABELS.values())
    head = (t("Model"), *map(t, facts.INTIMA_CLASSES.values()), *labels, t("Judge"))
    note = t("% of judged answers, ± one standard error, as in lm_eval's results file; the four labels sum to 100.")
    return Table("intima_summary", t("The three classes over all prompts"), head, tuple(rows), (note,))
