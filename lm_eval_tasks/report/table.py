"""One form of table for the page, Markdown, LaTeX and CSV, so that a number is the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

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
    """A row: its head, the cells, and a small remark under the head.

    Attributes:
        series: the run's place, which gives its colour; None for rows that are no run's.
        kind: "ours", "published", "group", "task", "source", "share", "section" or "differs"; for the style sheet.
    """

    name: str
    cells: Sequence[Cell]
    note: str = ""
    series: int | None = None
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A table with its heads and the remarks that belong under it."""

    key: str
    title: str
    head: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    run: str = ""

    @property
    def name(self) -> str:
        """The title, with the run where the table is one run's."""
        return f"{self.title} ({self.run})" if self.run else self.title

    def columns(self) -> list[tuple[bool, int]]:
        """For each column but the first, whether it holds text, and the length of its longest error."""
        columns = [[row.cells[place] for row in self.rows if row.cells] for place in range(len(self.head) - 1)]
        return [
            (any(cell.words for cell in cells), max([0, *(len(cell.error) for cell in cells)])) for cells in columns
        ]

    def remarks(self) -> list[str]:
        """The notes, and once each reason for a missing number, in the order of the cells."""
        cells = [cell for row in self.rows for cell in row.cells if cell.reason]
        missing = dict.fromkeys((f"± {DASH}" if cell.error == DASH else DASH, cell.reason) for cell in cells)
        return [*self.notes, *(t("{mark}: {reason}.", mark=mark, reason=reason) for mark, reason in missing)]


text_cell = partial(Cell, words=True)


def score_cell(
    estimate: Estimate,
    signed: bool = False,
    *,
    places: int = 2,
    unit: int = 1,
    heat: bool = False,
    tip: str = "",
    clustered: float | None = None,
) -> Cell:
    """A score (1 to 10, or a difference of two); `clustered` is a second standard error, printed in brackets."""
    reason = t(estimate.reason)
    if estimate.value is None:
        return Cell(DASH, reason=reason, n=estimate.n)
    value, stderr = unit * estimate.value, None if estimate.stderr is None else unit * estimate.stderr
    shown = f"{value:{'+' if signed else ''}.{places}f}"
    shown = shown if shown.strip("+-0.") else shown.lstrip("+-")  # what is printed as zero has no sign
    error = DASH if stderr is None else f"{stderr:.{places}f}"
    if clustered is not None:
        error += f" ({unit * clustered:.{places}f})"
    shade = min(max(estimate.value, 0.0), 1.0) if heat else None
    return Cell(shown.replace("-", "−"), error, reason, value, stderr, estimate.n, shade, tip)


rate_cell = partial(score_cell, places=1, unit=100)
"""A share, as a percentage."""


def count_cell(value: float | None) -> Cell:
    """A whole number."""
    return Cell(DASH, reason=t("the run's results do not say")) if value is None else Cell(grouped(value), value=value)


def grouped(value: float) -> str:
    """A whole number with thin spaces between thousands."""
    return f"{int(value):,}".replace(",", "\u202f")
