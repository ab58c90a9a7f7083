"""What the report shows of INTIMA: classes and traits by category of prompt, and the exclusive labels."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from lm_eval_tasks.report import charts, facts, stats
from lm_eval_tasks.report.airbench import point
from lm_eval_tasks.report.records import WAITING, Estimate, Run
from lm_eval_tasks.report.table import DASH, Cell, Row, Table, rate_cell

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
    """Returns the rates of classes and traits by category of prompt, as a shaded table."""
    groups = shown_groups(run)
    rows = []
    for metric in facts.INTIMA_METRICS:
        cells = []
        for name in groups.values():
            estimate = run.estimate(name, metric)
            ends = intervals.get(name, {}).get(metric)
            tip = f"95 % interval {100 * ends[0]:.1f} to {100 * ends[1]:.1f} %" if ends else ""
            cells.append(rate_cell(estimate, heat=True, tip=tip))
        rows.append(Row(facts.metric_title(metric), tuple(cells), "", None, "group" if _is_class(metric) else "task"))
    for label, title in facts.INTIMA_LABELS.items():
        cells = [rate_cell(run.estimate(name, label)) for name in groups.values()]
        rows.append(Row(f"Label: {title.lower()}", tuple(cells), "", None, "share"))
    return Table(
        "intima_rates",
        "Classes, traits and labels by category of prompt",
        ("% of answers", *groups),
        tuple(rows),
        (
            "Share of judged answers in which the judge saw the class or trait at the run's threshold or above, "
            "± one standard error, as in lm_eval's results file. No direction is better in the paper.",
        ),
        run.label,
    )


def _is_class(metric: str) -> bool:
    return metric in facts.INTIMA_CLASSES


def _points(run: Run, places: list[tuple[str, str, str]], intervals: dict[str, Intervals]) -> tuple[charts.Point, ...]:
    """Returns the dots of (row, group, metric) with bootstrap intervals where samples were logged."""
    points = []
    for row, group, metric in places:
        estimate = run.estimate(group, metric)
        ends = intervals.get(group, {}).get(metric)
        if estimate.value is None or ends is None:
            percent = Estimate(_percent(estimate.value), None, estimate.reason)
            points.append(point(run.label, row, percent, 0, 100, "{:.0f} %"))
            continue
        low, high = 100 * ends[0], 100 * ends[1]
        value = 100 * estimate.value
        tip = f"{run.label}, {row}: {value:.1f} %, 95 % from {low:.1f} to {high:.1f} %"
        points.append(charts.Point(value, low, high, tip))
    return tuple(points)


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def bars(runs: list[Run], intervals: list[dict[str, Intervals]], metrics: list[str], by_category: bool) -> Markup:
    """Draws rates with 95 % bootstrap intervals over prompts: one metric by category, or metrics over all prompts.

    Args:
        runs: all runs of the report.
        intervals: of each run, what `all_intervals` returns.
        metrics: the rows; with `by_category` only the first is drawn.
        by_category: whether the rows are categories of prompts.
    """
    shown = [(index, run) for index, run in enumerate(runs) if run.judged_at_all(facts.INTIMA)]
    if by_category:
        names = {title: name for _, run in shown for title, name in shown_groups(run).items()}
        places = [(title, name, metrics[0]) for title, name in names.items()]
        title, gaps = facts.metric_title(metrics[0]), (1,)
    else:
        whole = [(run, _whole(run)) for _, run in shown]
        places = [(facts.metric_title(metric), whole[0][1], metric) for metric in metrics]
        title, gaps = "Traits over all prompts", (4, 8)
    return charts.dots(
        [row for row, _, _ in places],
        [charts.Series(run.label, _points(run, places, intervals[index])) for index, run in shown],
        title=f"{title}, 95 % intervals by bootstrap: " + ", ".join(run.label for _, run in shown),
        axis="% of answers",
        limits=(0, 100),
        ticks=range(0, 101, 25),
        form="{:.0f}",
        gaps=gaps,
        hues=[index for index, _ in shown],
        widths=(charts.THIRD,) if by_category else (charts.WIDE, charts.NARROW),
    )


def _whole(run: Run) -> str:
    """Returns the group over all prompts, or the run's only task where it has no group row."""
    return next(iter(shown_groups(run).values()), facts.INTIMA)


def label_bars(runs: list[Run]) -> list[LabelBars]:
    """Draws the shares of the exclusive labels by category of prompt, one chart a run."""
    out = []
    for index, run in enumerate(runs):
        groups = shown_groups(run)
        shares = [[run.estimate(name, label).value for label in facts.INTIMA_LABELS] for name in groups.values()]
        if any(value is not None for row in shares for value in row):
            chart = charts.stacked(
                list(groups), list(facts.INTIMA_LABELS.values()), shares, f"{run.label}: exclusive labels by category"
            )
            out.append(LabelBars(run.label, index, chart))
    return out


def summary(runs: list[Run]) -> Table:
    """Returns the three classes over all prompts, a row a run."""
    rows = []
    for index, run in enumerate(runs):
        if run.has(facts.INTIMA):
            asked, _ = run.judges(facts.INTIMA)
            cells = [rate_cell(run.estimate(_whole(run), metric)) for metric in facts.INTIMA_CLASSES]
            cells += [rate_cell(run.estimate(_whole(run), label)) for label in facts.INTIMA_LABELS]
            remark = f"--limit {run.limit}" if run.limit is not None else ""
            if run.waits(facts.INTIMA):
                remark = WAITING
            judge = Cell(DASH if remark == WAITING else ", ".join(asked) or "not recorded")
            rows.append(Row(run.label, (*cells, judge), remark, index, "ours"))
    labels = (f"Label {title.lower()}" for title in facts.INTIMA_LABELS.values())
    head = ("Model", *facts.INTIMA_CLASSES.values(), *labels, "Judge")
    notes = ("% of judged answers, ± one standard error, as in lm_eval's results file; the four labels sum to 100.",)
    return Table("intima_summary", "The three classes over all prompts", head, tuple(rows), notes)
