"""The report's charts, drawn with matplotlib as inline SVG; each comes in a wide and a narrow form for the page to pick."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from lm_eval_tasks.report import svg
from lm_eval_tasks.report.svg import CARD, INK, MUTED, PALE, RULE, SERIES, plain

WIDE, NARROW = 960.0, 360.0


@dataclass(frozen=True)
class Point:
    """A dot with its interval; value None draws nothing."""

    value: float | None
    low: float | None = None
    high: float | None = None
    tip: str = ""


@dataclass(frozen=True)
class Series:
    """A run's dots, one for each row of a chart."""

    name: str
    points: tuple[Point, ...]


def color(index: int) -> str:
    """Returns the colour of a run; runs past the sixth share colours (the tables tell them apart)."""
    return SERIES[index % len(SERIES)]


def both_widths(draw: Callable[[float], tuple[Figure, dict[str, str]]], title: str) -> Markup:
    """Draws a chart for a desk and for a phone; the style sheet shows the one that fits."""
    parts = []
    for width, css_class in ((WIDE, "wide"), (NARROW, "narrow")):
        with svg.settings():
            figure, tips = draw(width)
            parts.append(svg.to_svg(figure, title, tips, css_class))
    return Markup("").join(parts)


def dots(
    rows: Sequence[str],
    series: Sequence[Series],
    *,
    title: str,
    axis: str,
    limits: tuple[float, float],
    ticks: Sequence[float] | None = None,
    form: str = "{:.2f}",
    zero: bool = False,
    background: Sequence[Sequence[tuple[float, str]]] = (),
    gaps: Sequence[int] = (),
    hues: Sequence[int] = (),
) -> Markup:
    """Draws rows of dots with their intervals.

    Args:
        rows: labels from top to bottom.
        series: the runs.
        title: what the chart shows, for readers who can't see it.
        axis: label of the value axis.
        limits: range of the value axis.
        ticks: places of the grid lines.
        form: how a value is written.
        zero: draws a line at zero.
        background: for each row, other values to mark with a pale tick, with their names.
        gaps: rows before which some room is left.
        hues: place of each run in the report, which gives its colour; by default 0, 1, ...
    """

    def draw(width: float) -> tuple[Figure, dict[str, str]]:
        narrow = width < 500
        lane = 15.0 if len(series) > 1 else 0.0
        pitch = max(34.0, 18 + lane * len(series))
        places, at = [], 0.0
        for index in range(len(rows)):
            at += 0.4 * pitch if index in gaps else 0
            places.append(at)
            at += pitch
        top, bottom = 8.0, 50.0
        height = at + top + bottom
        figure = svg.new_figure(width, height)
        left = 12.0 if narrow else 210.0
        if narrow:  # on a phone the label stands above its dots
            places = [place + 14 * (index + 1) for index, place in enumerate(places)]
            height += 14 * len(rows)
            figure.set_size_inches(width / 72, height / 72)
        right = 44.0
        axes = figure.add_axes((left / width, bottom / height, (width - left - right) / width, 1 - (top + bottom) / height))
        axes.set_xlim(*limits)
        axes.set_ylim(height - top - bottom, 0)
        if ticks is not None:
            axes.set_xticks(ticks)
        axes.xaxis.grid(True)
        axes.spines["left"].set_visible(False)
        axes.spines["bottom"].set_visible(False)
        axes.set_xlabel(axis, labelpad=8)
        centers = [place + pitch / 2 for place in places]
        _row_labels(axes, rows, centers, pitch, narrow)
        if zero:
            axes.axvline(0, color=MUTED, linewidth=1.2)
        tips: dict[str, str] = {}
        for center, marks in zip(centers, background, strict=False):
            for value, name in marks:
                gid = f"tip{len(tips)}"
                tips[gid] = f"{name}: {form.format(value)}"
                axes.plot([value, value], [center - 9, center + 9], color=PALE, linewidth=3, gid=gid, solid_capstyle="round")
        for index, run in enumerate(series):
            offset = (index - (len(series) - 1) / 2) * lane
            for center, point in zip(centers, run.points, strict=True):
                _dot(axes, point, center + offset, color(hues[index] if hues else index), tips, form, labelled=len(series) <= 2)
        return figure, tips

    return both_widths(draw, title)


def _row_labels(axes: Axes, rows: Sequence[str], centers: Sequence[float], pitch: float, narrow: bool) -> None:
    """Writes the rows' names left of the axes, or above the dots where there is no room."""
    if not narrow:
        axes.set_yticks(centers, [plain(row, 28) for row in rows])
        axes.tick_params(axis="y", pad=12)
        return
    axes.set_yticks([])
    for row, center in zip(rows, centers, strict=True):
        axes.text(0, center - pitch / 2 - 2, plain(row, 40), transform=axes.get_yaxis_transform(), va="center", color=INK)


def _dot(axes: Axes, point: Point, y: float, hue: str, tips: dict[str, str], form: str, labelled: bool) -> None:
    """Draws one value: its interval as a line, the value as a dot with a rim, and its number at the right end."""
    if point.value is None:
        return
    low, high = axes.get_xlim()
    gid = f"tip{len(tips)}"
    tips[gid] = point.tip
    end = point.value
    if point.low is not None and point.high is not None:
        axes.plot([max(point.low, low), min(point.high, high)], [y, y], color=hue, linewidth=2.2, solid_capstyle="round")
        end = max(end, min(point.high, high))
    axes.plot([point.value], [y], "o", color=hue, markersize=10.5, markeredgecolor=CARD, markeredgewidth=2, gid=gid, clip_on=False)
    if labelled:
        axes.annotate(
            form.format(point.value), (end, y), (9, 0), textcoords="offset points", va="center", fontsize=11.5, color=MUTED
        )


def score_histogram(name: str, prediction: Sequence[int], reference: Sequence[int], index: int) -> Markup:
    """Draws how often each score was given: bars for the predictions, a line of steps for the references."""
    title = f"{plain(name)}: histogram of the scores of predictions and references"

    def draw(width: float) -> tuple[Figure, dict[str, str]]:
        height = 230.0
        figure = svg.new_figure(width, height)
        left, right, top, bottom = 46.0, 12.0, 12.0, 48.0
        axes = figure.add_axes((left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height))
        tips: dict[str, str] = {}
        scores = [1 + step / 2 for step in range(len(prediction))]
        for score, count, other in zip(scores, prediction, reference, strict=True):
            gid = f"tip{len(tips)}"
            tips[gid] = f"score {score:g}: {count} predictions, {other} references"
            if count:
                bar = FancyBboxPatch((score - 0.2, 0), 0.4, count, boxstyle="square,pad=0", color=color(index), linewidth=0)
                bar.set_gid(gid)
                axes.add_patch(bar)
        axes.stairs(reference, [score - 0.25 for score in scores] + [scores[-1] + 0.25], color=INK, linewidth=1.6)
        axes.set_xlim(0.7, 10.3)
        axes.set_ylim(0, max(*prediction, *reference, 1) * 1.08)
        axes.set_xticks(range(1, 11))
        axes.yaxis.grid(True)
        axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)
        axes.tick_params(axis="y", labelcolor=MUTED, labelsize=12)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("score", labelpad=6)
        return figure, tips

    return both_widths(draw, title)


def stacked(rows: Sequence[str], parts: Sequence[str], shares: Sequence[Sequence[float | None]], title: str) -> Markup:
    """Draws shares that sum to one as a bar of parts for each row; None leaves the row empty."""
    shades = (SERIES[1], SERIES[2], SERIES[0], RULE)

    def draw(width: float) -> tuple[Figure, dict[str, str]]:
        narrow = width < 500
        pitch = 48.0 if narrow else 34.0
        height = pitch * len(rows) + 42
        figure = svg.new_figure(width, height)
        left = 12.0 if narrow else 210.0
        axes = figure.add_axes((left / width, 38 / height, (width - left - 44) / width, 1 - 42 / height))
        tips: dict[str, str] = {}
        centers = [pitch * (index + 0.5) for index in range(len(rows))]
        for center, row, values in zip(centers, rows, shares, strict=True):
            at = 0.0
            for part, hue, value in zip(parts, shades, values, strict=True):
                if not value:
                    continue
                gid = f"tip{len(tips)}"
                tips[gid] = f"{row}, {part}: {value:.1%}"
                axes.barh(center + (9 if narrow else 0), value, 20, left=at, color=hue, edgecolor=CARD, linewidth=1.5, gid=gid)
                axes.containers[-1][0].set_gid(gid)
                at += value
        axes.set_xlim(0, 1)
        axes.set_ylim(pitch * len(rows), 0)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        axes.spines["left"].set_visible(False)
        axes.spines["bottom"].set_visible(False)
        _row_labels(axes, rows, centers, 34 if not narrow else 22, narrow)
        return figure, tips

    return both_widths(draw, title)
