"""One form of table for the page, Markdown, LaTeX and CSV, so that a number is the same in all of them."""

from __future__ import annotations

from dataclasses import dataclass

from lm_eval_tasks.report.records import Estimate
from lm_eval_tasks.report.texts import t

DASH = "–"


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table.

    Attributes:
        text: as printed; DASH where there is no value.
        error: the standard error as printed; DASH where it is missing, "" where none belongs to the number.
        reason: why the value or its error is missing.
        value, stderr: the numbers themselves, unrounded and in the unit that is printed.
        n: number of docs behind the value, where known.
        heat: share from 0 to 1 that shades the cell, or None.
        tip: shown while the pointer rests on the cell.
        words: whether the column holds text, which is set to the left.
    """

    text: str
    error: str = ""
    reason: str = ""
    value: float | None = None
    stderr: float | None = None
    n: int | None = None
    heat: float | None = None
    tip: str = ""
    words: bool = False


@dataclass(frozen=True)
class Row:
    """A row: its head, a small remark under the head, and the cells.

    Attributes:
        series: the run's place, which gives its colour; None for rows that are no run's.
        kind: "ours", "published", "group", "task", "source", "share", "section" or "differs"; for the style sheet.
    """

    name: str
    cells: tuple[Cell, ...]
    note: str = ""
    series: int | None = None
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A table with its heads and the remarks that belong under it."""

    key: str
    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    run: str = ""

    @property
    def name(self) -> str:
        """The title, with the run where the table is one run's."""
        return f"{self.title} ({self.run})" if self.run else self.title

    def columns(self) -> list[tuple[bool, int]]:
        """Returns for each column but the first whether it holds text, and the length of its longest error."""
        cells = [[row.cells[place] for row in self.rows if row.cells] for place in range(len(self.head) - 1)]
        longest = [max((len(cell.error) for cell in column), default=0) for column in cells]
        return [(any(cell.words for cell in column), length) for column, length in zip(cells, longest, strict=True)]

    def reasons(self) -> list[tuple[str, str]]:
        """Returns (what is printed, why) once for each reason for a missing number, in the order of the cells."""
        cells = [cell for row in self.rows for cell in row.cells if cell.reason]
        return list(dict.fromkeys((f"± {DASH}" if cell.error == DASH else DASH, cell.reason) for cell in cells))


def text_cell(words: str, reason: str = "") -> Cell:
    """Returns a cell of text."""
    return Cell(words, reason=reason, words=True)


def score_cell(estimate: Estimate, signed: bool = False) -> Cell:
    """Returns a score (1 to 10, or a difference of two) to two places."""
    return _number(estimate, 2, 1, signed)


def rate_cell(
    estimate: Estimate, signed: bool = False, heat: bool = False, tip: str = "", clustered: float | None = None
) -> Cell:
    """Returns a share as a percentage to one place; `clustered` is a second standard error, printed in brackets."""
    shade = min(max(estimate.value or 0.0, 0.0), 1.0) if heat else None
    return _number(estimate, 1, 100, signed, shade, tip, clustered)


def _number(
    estimate: Estimate,
    places: int,
    unit: int,
    signed: bool,
    heat: float | None = None,
    tip: str = "",
    clustered: float | None = None,
) -> Cell:
    if estimate.value is None:
        return Cell(DASH, reason=t(estimate.reason), n=estimate.n)
    value, stderr = unit * estimate.value, None if estimate.stderr is None else unit * estimate.stderr
    shown = f"{value:{'+' if signed else ''}.{places}f}"
    shown = shown if shown.strip("+-0.") else shown.lstrip("+-")  # what is printed as zero has no sign
    error = DASH if stderr is None else f"{stderr:.{places}f}"
    if clustered is not None:
        error += f" ({unit * clustered:.{places}f})"
    reason = t(estimate.reason)
    return Cell(shown.replace("-", "−"), error, reason, value, stderr, estimate.n, heat, tip)


def count_cell(value: float | None, reason: str = "the run's results do not say") -> Cell:
    """Returns a whole number with thin spaces between thousands."""
    if value is None:
        return Cell(DASH, reason=t(reason))
    return Cell(grouped(value), value=value)


def grouped(value: float) -> str:
    """Returns a whole number with thin spaces between thousands."""
    return f"{int(value):,}".replace(",", "\u202f")
