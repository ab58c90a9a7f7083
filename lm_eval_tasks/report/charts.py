"""The report's charts, drawn with matplotlib as inline SVG, in a wide and a narrow form for the page to pick."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from lm_eval_tasks.report import svg
from lm_eval_tasks.report.svg import CARD, INK, LABELS, MUTED, PALE, SERIES, plain

WIDE, NARROW, HALF, THIRD = 1026.0, 336.0, 480.0, 300.0


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


def at_widths(
    draw: Callable[[float], tuple[Figure, dict[str, str]]], title: str, widths: Sequence[float] = (WIDE, NARROW)
) -> Markup:
    """Draws a chart for a desk and for a phone, of which the style sheet shows the one that fits; or at one width."""
    parts = []
    for width in widths:
        with svg.settings():
            figure, tips = draw(width)
            parts.append(svg.to_svg(figure, title, tips, {WIDE: "wide", NARROW: "narrow"}.get(width, "")))
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
    widths: Sequence[float] = (WIDE, NARROW),
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
        widths: at which the chart is drawn.
    """

    def draw(width: float) -> tuple[Figure, dict[str, str]]:
        narrow = width < 500
        lane = 15.0 if len(series) > 1 else 0.0
        pitch = max(34.0, 18 + lane * len(series))
        places, at = [], 0.0
        for index in range(len(rows)):
            at += 14 if index in gaps else 0
            places.append(at)
            at += pitch
        top, bottom = 6.0, 46.0
        height = at + top + bottom
        figure = svg.new_figure(width, height)
        left = 4.0 if narrow else 196.0
        if narrow:  # on a phone the label stands above its dots
            places = [place + 14 * (index + 1) for index, place in enumerate(places)]
            height += 14 * len(rows)
            figure.set_size_inches(width / 72, height / 72)
        right = 46.0 if narrow else 60.0
        axes = figure.add_axes(
            (left / width, bottom / height, (width - left - right) / width, 1 - (top + bottom) / height)
        )
        axes.set_xlim(*limits)
        axes.set_ylim(height - top - bottom, 0)
        if ticks is not None:
            axes.set_xticks(ticks)
        axes.xaxis.grid(True)
        axes.spines["left"].set_visible(False)
        axes.spines["bottom"].set_visible(False)
        axes.set_xlabel(axis, labelpad=8)
        centers = [place + pitch / 2 for place in places]
        _row_labels(axes, rows, centers, 0 if not narrow else pitch, left)
        if zero:
            axes.axvline(0, color=MUTED, linewidth=1.2)
        tips: dict[str, str] = {}
        reach = max(9.0, lane * len(series) / 2 + 2)
        for center, marks in zip(centers, background, strict=False):
            for value, name in marks:
                gid = f"tip{len(tips)}"
                tips[gid] = f"{name}: {form.format(value)}"
                axes.plot(
                    [value, value],
                    [center - reach, center + reach],
                    color=PALE,
                    linewidth=3,
                    gid=gid,
                    solid_capstyle="round",
                )
        for index, run in enumerate(series):
            offset = (index - (len(series) - 1) / 2) * lane
            for center, point in zip(centers, run.points, strict=True):
                hue = color(hues[index] if hues else index)
                _dot(axes, point, center + offset, hue, tips)
                if point.value is not None:  # the numbers stand in a column of their own, clear of the dots
                    place = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "va": "center"}
                    words, paint = form.format(point.value).replace("-", "−"), hue if len(series) > 1 else INK
                    axes.annotate(words, (1, center + offset), (12, 0), color=paint, fontsize=12, **place)
        return figure, tips

    return at_widths(draw, title, widths)


def _row_labels(axes: Axes, rows: Sequence[str], centers: Sequence[float], above: float, left: float) -> None:
    """Writes the rows' names at the left edge, or above the dots (by half of `above`) where there is no room."""
    axes.set_yticks([])
    place = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "va": "center", "ha": "left"}
    for row, center in zip(rows, centers, strict=True):
        name = plain(row, 40 if above else 26)
        axes.annotate(name, (0, center - (above / 2 + 2 if above else 0)), (-left, 0), color=INK, fontsize=13, **place)


def _dot(axes: Axes, point: Point, y: float, hue: str, tips: dict[str, str]) -> None:
    """Draws one value: its interval as a line, the value as a dot with a rim."""
    if point.value is None:
        return
    low, high = axes.get_xlim()
    gid = f"tip{len(tips)}"
    tips[gid] = point.tip
    if point.low is not None and point.high is not None:
        ends = [max(point.low, low), min(point.high, high)]
        axes.plot(ends, [y, y], color=hue, linewidth=2.4, solid_capstyle="round", clip_on=False)
    rim = {"markeredgecolor": CARD, "markeredgewidth": 2}
    axes.plot([point.value], [y], "o", color=hue, markersize=11, gid=gid, clip_on=False, **rim)


def score_histogram(
    name: str, prediction: Sequence[int], reference: Sequence[int], index: int, widths: Sequence[float]
) -> Markup:
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
                bar = FancyBboxPatch(
                    (score - 0.2, 0), 0.4, count, boxstyle="square,pad=0", color=color(index), linewidth=0
                )
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

    return at_widths(draw, title, widths)


def stacked(rows: Sequence[str], parts: Sequence[str], shares: Sequence[Sequence[float | None]], title: str) -> Markup:
    """Draws shares that sum to one as a bar of parts for each row; None leaves the row empty."""
    shades = LABELS

    def draw(width: float) -> tuple[Figure, dict[str, str]]:
        narrow = width < 500
        pitch = 48.0 if narrow else 34.0
        height = pitch * len(rows) + 34
        figure = svg.new_figure(width, height)
        left = 4.0 if narrow else 196.0
        axes = figure.add_axes((left / width, 30 / height, (width - left - 26) / width, 1 - 34 / height))
        tips: dict[str, str] = {}
        centers = [pitch * (index + 0.5) for index in range(len(rows))]
        for center, row, values in zip(centers, rows, shares, strict=True):
            at = 0.0
            for part, hue, value in zip(parts, shades, values, strict=True):
                if not value:
                    continue
                gid = f"tip{len(tips)}"
                tips[gid] = f"{row}, {part}: {value:.1%}"
                axes.barh(
                    center + (9 if narrow else 0), value, 20, left=at, color=hue, edgecolor=CARD, linewidth=1.5, gid=gid
                )
                axes.containers[-1][0].set_gid(gid)
                at += value
        axes.set_xlim(0, 1)
        axes.set_ylim(pitch * len(rows), 0)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        axes.spines["left"].set_visible(False)
        axes.spines["bottom"].set_visible(False)
        _row_labels(axes, rows, centers, 24 if narrow else 0, left)
        return figure, tips

    return at_widths(draw, title)
