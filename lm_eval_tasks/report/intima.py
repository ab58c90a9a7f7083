"""What the report shows of INTIMA: classes, traits and their levels by category of prompt, and the exclusive labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from markupsafe import Markup

from lm_eval_tasks.intima.scoring import LEVELS, TRAITS
from lm_eval_tasks.report import charts, facts, stats
from lm_eval_tasks.report.airbench import own_row
from lm_eval_tasks.report.records import Estimate, Run
from lm_eval_tasks.report.table import Cell, Row, Table, count_cell, rate_cell
from lm_eval_tasks.report.texts import notes, t
from lm_eval_tasks.runs.plain import mapping, number


@lru_cache(maxsize=256)
def bootstrap(run: Run, group: str) -> dict[str, tuple[float, float]]:
    """The 95% bootstrap interval over prompts of each metric, from the logged samples of a group.

    The values drawn from are those that the run logged (0 or 1 at its own threshold). Prompts are drawn within their
    category, as lm_eval's standard error of the whole is pooled over the categories. Empty where none were logged.
    """
    whole = [a for a in run.judged_in(group) if all(metric in a.metrics for metric in facts.INTIMA_METRICS)]
    rows = [[answer.metrics[metric] for metric in facts.INTIMA_METRICS] for answer in whole]
    intervals = stats.bootstrap_intervals(rows, [answer.task for answer in whole])
    return dict(zip(facts.INTIMA_METRICS, intervals, strict=False))


def shown_groups(run: Run) -> dict[str, str]:
    """Title -> name of the groups and tasks that a run holds, the whole first."""
    groups = {title: name for title, name in facts.INTIMA_GROUPS.items() if name in run.results}
    others = [name for name in run.tasks(facts.INTIMA) if name not in groups.values()]
    return groups | {facts.group_title(name): name for name in others}


def heat_table(run: Run) -> Table:
    """The rates of classes, traits and labels by category of prompt, as a shaded table."""
    groups, rows, any_clustered = shown_groups(run), [], False
    for metric in (*facts.INTIMA_METRICS, *facts.INTIMA_LABELS):
        cells = []
        for name in groups.values():
            ends = [f"{100 * end:.1f}" for end in bootstrap(run, name).get(metric, ())]
            tip = t("95% interval {low} to {high}%", low=ends[0], high=ends[1]) if ends else ""
            clustered = number(mapping(run.summaries.get(name, {}).get("stderr_by_code")).get(metric))
            any_clustered |= clustered is not None
            heat = metric in facts.INTIMA_METRICS
            cells.append(rate_cell(run.estimate(name, metric), heat=heat, tip=tip, clustered=clustered))
        rows.append(row(metric, cells))
    title, head = t("Classes, traits and labels by category of prompt"), (t("% of answers"), *map(t, groups))
    return Table("intima_rates", title, head, rows, notes("intima_rates")[: 1 + any_clustered], run.label)


def _title(metric: str) -> str:
    title = t(facts.METRIC_TITLES[metric])
    return f"{t('Label')}: {title}" if metric in facts.INTIMA_LABELS else title


def row(metric: str, cells: Sequence[Cell]) -> Row:
    """The row of a class, trait or label."""
    kind = "share" if metric in facts.INTIMA_LABELS else "group" if metric in facts.INTIMA_CLASSES else "task"
    return Row(_title(metric), cells, kind=kind)


def level_table(run: Run) -> Table | None:
    """How often each level was given, of all judged answers; None where neither results nor samples say."""
    stored = [mapping(run.summaries[task].get("levels")) for task in run.tasks(facts.INTIMA)]
    logged = run.answers[facts.INTIMA] if not any(stored) else []
    rows = []
    for metric in facts.INTIMA_METRICS:
        found = Counter(level for answer in logged if (level := answer.levels.get(metric)))
        for levels in stored:
            found.update({level: number(count) or 0 for level, count in mapping(levels.get(metric)).items()})
        if n := sum(found[level] for level in LEVELS):
            cells = [replace(rate_cell(Estimate(found[level] / n), heat=True), error="") for level in LEVELS]
            rows.append(row(metric, [*cells, count_cell(n)]))
    if not rows:
        return None
    head = (t("% of answers"), *(t(level.capitalize()) for level in LEVELS), t("Docs"))
    return Table("intima_levels", t("Levels of each class and trait"), head, rows, notes("intima_levels"), run.label)


def class_charts(runs: list[Run]) -> list[tuple[str, Markup]]:
    """Draws each class by category of prompt; returns the titles and the charts, none where no run was judged."""
    judged = [run for run in runs if run.judged_at_all(facts.INTIMA)]
    names = {title: name for run in judged for title, name in shown_groups(run).items()}
    out = []
    for metric, title in facts.INTIMA_CLASSES.items() if judged else ():
        places = [(t(row), name, metric) for row, name in names.items()]
        out.append((t(title), _bars(runs, t(title), places, (1,), (charts.THIRD,))))
    return out


def trait_chart(runs: list[Run]) -> Markup:
    """Draws the ten traits over all prompts; "" where no run was judged."""
    judged = [run for run in runs if run.judged_at_all(facts.INTIMA)]
    places = [(_title(trait), _whole(judged[0]), trait) for trait in TRAITS] if judged else []
    return _bars(runs, t("Traits over all prompts"), places, (4, 8), (charts.WIDE, charts.NARROW))


def _bars(
    runs: list[Run], title: str, places: list[tuple[str, str, str]], gaps: tuple[int, ...], widths: tuple[float, ...]
) -> Markup:
    """Draws the rates of (row, group, metric) with 95% bootstrap intervals over prompts where samples were logged."""
    series = {}
    for index, run in enumerate(runs):
        if run.judged_at_all(facts.INTIMA):
            series[index] = run.label, (points := [])
            for _, group, metric in places:
                value, ends = run.estimate(group, metric).value, bootstrap(run, group).get(metric)
                interval = (100 * ends[0], 100 * ends[1]) if ends else None
                points.append((None if value is None else 100 * value, interval))
    return charts.dots(
        [row for row, _, _ in places],
        series,
        title=f"{title}, {t('95% intervals by bootstrap')}: " + ", ".join(runs[index].label for index in series),
        axis=t("% of answers"),
        limits=(0, 100),
        form="{:.0f}",
        tip_form="{:.1f}%",
        gaps=gaps,
        widths=widths,
    )


def _whole(run: Run) -> str:
    """The group over all prompts, or the run's only task where it has no group row."""
    return next(iter(shown_groups(run).values()), facts.INTIMA)


def label_bars(runs: list[Run]) -> list[tuple[Run, Markup]]:
    """Draws the shares of the exclusive labels by category of prompt, one chart a run."""
    out = []
    parts = {name: t(title) for name, title in facts.INTIMA_LABELS.items()}
    for run in runs:
        groups = shown_groups(run)
        shares = [[run.estimate(name, label).value for label in facts.INTIMA_LABELS] for name in groups.values()]
        if any(value is not None for row in shares for value in row):
            title = f"{run.label}: {t('exclusive labels by category')}"
            out.append((run, charts.stacked(list(map(t, groups)), parts, shares, title)))
    return out


def summary(runs: list[Run]) -> Table:
    """The three classes and the labels over all prompts, a row a run."""
    rows, metrics = [], (*facts.INTIMA_CLASSES, *facts.INTIMA_LABELS)
    for place, run in enumerate(runs):
        if run.has(facts.INTIMA):
            cells = [rate_cell(run.estimate(_whole(run), metric)) for metric in metrics]
            rows.append(own_row(run, place, facts.INTIMA, cells))
    head = (t("Model"), *map(_title, metrics), t("Judge"))
    return Table("intima_summary", t("The three classes over all prompts"), head, rows, notes("intima_summary"))
