"""One form of table for HTML, Markdown and CSV, so that a number is written once and is the same in all three."""

from __future__ import annotations

from dataclasses import dataclass, field

from lm_eval_tasks.report.records import Estimate

DASH = "–"


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table.

    Attributes:
        text: as printed; DASH where there is no value.
        error: the standard error as printed; DASH where it is missing, "" where none belongs to the number.
        reason: why the value or its error is missing.
        value, stderr: the numbers themselves, for CSV.
        n: number of docs behind the value, where known.
        heat: share from 0 to 1 that shades the cell, or None.
        tip: shown while the pointer rests on the cell.
    """

    text: str
    error: str = ""
    reason: str = ""
    value: float | None = None
    stderr: float | None = None
    n: int | None = None
    heat: float | None = None
    tip: str = ""


@dataclass(frozen=True)
class Row:
    """A row: its head, a small remark under the head, and the cells.

    Attributes:
        series: the run's place, which gives its colour; None for rows that are no run's.
        kind: "ours", "published", "group", "task" or "share"; for the style sheet.
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
    extra: dict[str, str] = field(default_factory=dict)

    def reasons(self) -> list[tuple[str, str]]:
        """Returns (what is printed, why) once for each reason for a missing number, in the order of the cells."""
        cells = [cell for row in self.rows for cell in row.cells if cell.reason]
        return list(dict.fromkeys((f"± {DASH}" if cell.error == DASH else DASH, cell.reason) for cell in cells))


def score_cell(estimate: Estimate, signed: bool = False) -> Cell:
    """Returns a score (1 to 10, or a difference of two) to two places."""
    if estimate.value is None:
        return Cell(DASH, reason=estimate.reason, n=estimate.n)
    shown = _signed(f"{estimate.value:+.2f}") if signed else f"{estimate.value:.2f}"
    error = DASH if estimate.stderr is None else f"{estimate.stderr:.2f}"
    return Cell(shown.replace("-", "−"), error, estimate.reason, estimate.value, estimate.stderr, estimate.n)


def rate_cell(estimate: Estimate, signed: bool = False, heat: bool = False, tip: str = "") -> Cell:
    """Returns a share as a percentage to one place."""
    if estimate.value is None:
        return Cell(DASH, reason=estimate.reason, n=estimate.n)
    percent = 100 * estimate.value
    shown = (_signed(f"{percent:+.1f}") if signed else f"{percent:.1f}").replace("-", "−")
    error = DASH if estimate.stderr is None else f"{100 * estimate.stderr:.1f}"
    shade = min(max(estimate.value, 0.0), 1.0) if heat else None
    return Cell(shown, error, estimate.reason, estimate.value, estimate.stderr, estimate.n, shade, tip)


def _signed(shown: str) -> str:
    """Takes the sign from what is printed as zero."""
    return shown if shown.strip("+-0.") else shown[1:]


def count_cell(value: float | None, reason: str = "the run's results do not say") -> Cell:
    """Returns a whole number with thin spaces between thousands."""
    if value is None:
        return Cell(DASH, reason=reason)
    return Cell(f"{int(value):,}".replace(",", "\u202f"), value=value)
