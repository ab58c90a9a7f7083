"""The report's charts as inline SVG from a few marks; the style sheet gives colours, so both themes share a drawing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from markupsafe import Markup

WIDE, NARROW, HALF, THIRD = 1026, 336, 480, 300
_UNFIT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)


Point = tuple[float | None, tuple[float, float] | None]
"""The value of a dot, which is not drawn without one, and its 95% interval."""


def visible(words: str) -> str:
    """Text without control and direction marks, which neither XML nor LaTeX takes."""
    return _UNFIT.sub("", words)


def plain(name: str, length: int = 40) -> str:
    """A name fit for a chart: one line, no control or direction marks, cut in the middle when long."""
    name, half = " ".join(visible(name).split()), (length - 1) // 2
    return name if len(name) <= length else f"{name[:half]}…{name[-half:]}"


def hue(place: int) -> str:
    """The class that colours a run; runs past the eighth share colours."""
    return f"s{place % 8 + 1}"


class _Drawing:
    """Marks on a sheet; x and y in CSS pixels from the upper left corner, all text escaped."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height, self.marks = width, height, []

    def mark(self, tag: str, css: str, tip: str = "", words: str = "", **places: float | str) -> None:
        where = Markup(" ").join(
            Markup('{}="{}"').format(name.replace("_", "-"), value if isinstance(value, str) else f"{value:.1f}")
            for name, value in places.items()
        )
        note = Markup("<title>{}</title>").format(visible(tip)) if tip else ""
        self.marks.append(Markup('<{0} class="{1}" {2}>{3}{4}</{0}>').format(tag, css, where, note, words))

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str, tip: str = "") -> None:
        self.mark("line", css, tip, x1=x1, y1=y1, x2=x2, y2=y2)

    def bar(self, x: float, y: float, width: float, height: float, css: str, tip: str) -> None:
        self.mark("rect", f"block {css}", tip, x=x, y=y, width=width, height=height)

    def text(self, x: float, y: float, words: str, css: str, anchor: str = "start") -> None:
        self.mark("text", css, "", words, x=x, y=y + 4.5, text_anchor=anchor)

    def svg(self, title: str, css: str) -> Markup:
        return Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" class="chart {}" role="img" viewBox="0 0 {:.0f} {:.0f}">'
            "<title>{}</title>{}</svg>"
        ).format(css, self.width, self.height, visible(title), Markup("").join(self.marks))


def _at_widths(draw: Callable[[float], _Drawing], title: str, widths: Sequence[float]) -> Markup:
    """Draws a chart for a desk and for a phone, of which the style sheet shows the one that fits; or at one width."""
    names = {WIDE: "wide", NARROW: "narrow"}
    return Markup("").join(draw(width).svg(title, names.get(width, "")) for width in widths)


def _steps(low: float, high: float, most: int = 8) -> list[float]:
    """Round places between two ends, at most so many."""
    size = 10 ** math.floor(math.log10(max(high - low, 1e-9)) - 1)
    step = next(size * n for n in (1, 2, 5, 10, 20, 50, 100) if (high - low) / (size * n) <= most)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def dots(
    rows: Sequence[str],
    series: Mapping[int, tuple[str, Sequence[Point]]],
    *,
    title: str,
    axis: str,
    limits: tuple[float, float],
    form: str = "{:.2f}",
    tip_form: str = "",
    background: Sequence[Sequence[tuple[float, str]]] = (),
    gaps: Sequence[int] = (),
    widths: Sequence[float] = (WIDE, NARROW),
) -> Markup:
    """Draws rows of dots with their intervals; "" without a series.

    Args:
        series: a run's place in the report, which gives its colour -> its label and its dots, one for each row.
        title: what the chart shows, for readers who can't see it.
        limits: range of the value axis; one that reaches below zero gets a line at zero.
        form, tip_form: of a value as drawn, and as told while the pointer rests on its dot (default: as drawn).
        background: for each row, other values to mark with a pale tick, with their names.
        gaps: rows before which some room is left.
    """
    if not series:
        return Markup()
    lane = 15.0 if len(series) > 1 else 0.0
    reach = max(9.0, lane * len(series) / 2 + 2)

    def draw(width: float) -> _Drawing:
        narrow = width < 500
        pitch, above = max(34.0, 18 + lane * len(series)), 14.0 if narrow else 0.0
        left, right, top = 4.0 if narrow else 196.0, 52.0 if narrow else 60.0, 6.0
        centers, at = [], top
        for index in range(len(rows)):
            at += (14 if index in gaps else 0) + above
            centers.append(at + pitch / 2)
            at += pitch
        sheet, x = _Drawing(width, at + 46), partial(np.interp, xp=limits, fp=(left, width - right))
        for value in _steps(*limits, 4 if narrow else 8):
            sheet.line(x(value), top, x(value), at, "zero" if limits[0] < 0 and value == 0 else "rule")
            sheet.text(x(value), at + 14, f"{value:g}".replace("-", "−"), "tick", "middle")
        sheet.text((left + width - right) / 2, at + 35, axis, "tick", "middle")
        for row, center in zip(rows, centers, strict=True):
            sheet.text(0, center - (pitch / 2 + 2 if narrow else 0), plain(row, 40 if narrow else 26), "name")
        for center, marks in zip(centers, background, strict=False):
            for value, name in marks:
                sheet.line(x(value), center - reach, x(value), center + reach, "pale", f"{name}: {form.format(value)}")
        for index, (run, (label, points)) in enumerate(series.items()):
            css, offset = hue(run), (index - (len(series) - 1) / 2) * lane
            for row, center, (value, ends) in zip(rows, centers, points, strict=True):
                if value is not None:
                    y, told = center + offset, (tip_form or form).format
                    tip = f"{label}, {row}: {told(value)}"
                    if ends:
                        sheet.line(x(ends[0]), y, x(ends[1]), y, f"interval {css}")
                        tip += f", 95%: {told(ends[0])} … {told(ends[1])}"
                    sheet.mark("circle", f"dot {css}", tip, cx=x(value), cy=y, r=5.5)
                    words = form.format(value).replace("-", "−")
                    sheet.text(width - right + 14, y, words, f"value {css}" if len(series) > 1 else "value")
        return sheet

    return _at_widths(draw, title, widths)


def score_histogram(
    title: str, tip: str, axis: str, counts: Sequence[Sequence[int]], place: int, widths: Sequence[float]
) -> Markup:
    """Draws how often each score from 1 to 10 was given: bars for the predictions, steps for the references.

    Args:
        tip: of a bar, with the fields {score}, {predictions} and {references}.
        counts: of predictions and references, by half points from 1.
        place: of the run in the report.
    """
    most = max(1, *counts[0], *counts[1])
    left, right, top, bottom, height = 46.0, 12.0, 12.0, 182.0, 230.0

    def draw(width: float) -> _Drawing:
        sheet, outline = _Drawing(width, height), []
        x = partial(np.interp, xp=(0.7, 10.3), fp=(left, width - right))
        y = partial(np.interp, xp=(0, most * 1.08), fp=(bottom, top))
        for count in _steps(0, most, 4):
            if count == int(count):
                sheet.line(left, y(count), width - right, y(count), "rule")
                sheet.text(left - 8, y(count), f"{count:.0f}", "tick", "end")
        for index, (count, other) in enumerate(zip(*counts, strict=True)):
            score = 1 + index / 2
            if count:
                words = tip.format(score=f"{score:g}", predictions=count, references=other)
                sheet.bar(
                    x(score - 0.2), y(count), x(score + 0.2) - x(score - 0.2), bottom - y(count), hue(place), words
                )
            outline += [(x(score - 0.25), y(other)), (x(score + 0.25), y(other))]
            if score == int(score):
                sheet.text(x(score), bottom + 14, f"{score:g}", "tick", "middle")
        sheet.mark("polyline", "steps", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in outline))
        sheet.text((left + width - right) / 2, bottom + 36, axis, "tick", "middle")
        return sheet

    return _at_widths(draw, title, widths)


def stacked(
    rows: Sequence[str], parts: Mapping[str, str], shares: Sequence[Sequence[float | None]], title: str
) -> Markup:
    """Draws shares that sum to one as a bar of parts (CSS class -> name) for each row; None leaves the row empty."""

    def draw(width: float) -> _Drawing:
        narrow = width < 500
        pitch, left, right = 48.0 if narrow else 34.0, 10.0 if narrow else 196.0, 26.0
        sheet, room = _Drawing(width, pitch * len(rows) + 34), width - left - right
        for tick in (0, 25, 50, 75, 100):
            sheet.text(left + room * tick / 100, pitch * len(rows) + 18, f"{tick}%", "tick", "middle")
        for index, (row, values) in enumerate(zip(rows, shares, strict=True)):
            center, at = pitch * (index + 0.5), left
            sheet.text(0, center - (14 if narrow else 0), plain(row, 40 if narrow else 26), "name")
            for (css, part), value in zip(parts.items(), values, strict=True):
                if value:
                    top = center - (1 if narrow else 10)
                    sheet.bar(at, top, room * value, 20, css, f"{row}, {part}: {100 * value:.1f}%")
                    at += room * value
        return sheet

    return _at_widths(draw, title, (WIDE, NARROW))
