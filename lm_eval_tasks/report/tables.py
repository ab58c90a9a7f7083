"""The tables as Markdown, for a paper or a post, and as CSV, for a program."""

from __future__ import annotations

import csv
import io

from lm_eval_tasks.report import airbench, banner, compare, facts, foundation, intima, judging
from lm_eval_tasks.report.records import Run
from lm_eval_tasks.report.table import Cell, Table

_CSV_HEAD = ("table", "run", "row", "column", "value", "stderr", "docs", "text", "note")


def all_tables(runs: list[Run]) -> list[Table]:
    """Returns every table of the report, in its order."""
    tables = []
    if any(run.has(facts.AIR) for run in runs):
        tables.append(airbench.leaderboard(runs))
        tables += [airbench.task_table(run) for run in runs if run.judged_at_all(facts.AIR)]
    if any(run.has(facts.INTIMA) for run in runs):
        tables.append(intima.summary(runs))
        tables += [intima.heat_table(run, {}) for run in runs if run.judged_at_all(facts.INTIMA)]
    tables += foundation.tables(runs)
    for comparison in compare.comparisons(runs):
        tables += comparison.tables
    return [*tables, judging.judging_table(runs), judging.settings_table(runs)]


def to_markdown(runs: list[Run]) -> str:
    """Returns all tables as Markdown, with what changes how they are read in front."""
    lines = ["# " + _plain(", ".join(run.label for run in runs)), ""]
    warnings = banner.warnings(runs)
    lines += [
        f"- **{_plain(label)}**: {_plain(sentence)}" if label else f"- {_plain(sentence)}"
        for label, sentence in warnings
    ]
    lines += [""] if warnings else []
    for table in all_tables(runs):
        title = f"{table.title} ({table.run})" if table.run else table.title
        lines += [f"## {_plain(title)}", ""]
        lines.append("| " + " | ".join(map(_plain, table.head)) + " |")
        lines.append("|---" + "|---:" * (len(table.head) - 1) + "|")
        for row in table.rows:
            name = f"{row.name} ({row.note})" if row.note else row.name
            if row.kind == "published":
                name += " (published)"
            lines.append(f"| {_plain(name)} | " + " | ".join(_plain(_shown(cell)) for cell in row.cells) + " |")
        lines.append("")
        for note in (*table.notes, *(f"{mark}: {reason}." for mark, reason in table.reasons())):
            lines += [_plain(note), ""]
    return "\n".join(lines).rstrip() + "\n"


def _shown(cell: Cell) -> str:
    return f"{cell.text} ± {cell.error}" if cell.error else cell.text


def _plain(value: str) -> str:
    """Returns text that is only text in Markdown: one line, no cell borders, no markup, no HTML."""
    value = " ".join(value.split())
    for mark in "\\`*_[]<>|#~$!":
        value = value.replace(mark, f"\\{mark}" if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return value


def to_csv(runs: list[Run]) -> str:
    """Returns all tables as CSV, one line a cell: numbers unrounded, the reason for a missing one in `note`."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_CSV_HEAD)
    for table in all_tables(runs):
        for row in table.rows:
            for column, cell in zip(table.head[1:], row.cells, strict=True):
                writer.writerow(
                    (
                        table.key,
                        _safe(table.run),
                        _safe(row.name),
                        _safe(column),
                        "" if cell.value is None else repr(cell.value),
                        "" if cell.stderr is None else repr(cell.stderr),
                        "" if cell.n is None else cell.n,
                        _safe(cell.text) if cell.value is None else "",
                        _safe("; ".join(part for part in (row.note, cell.reason) if part)),
                    )
                )
    return buffer.getvalue()


def _safe(value: str) -> str:
    """Keeps a spreadsheet from reading text of a run as a formula."""
    value = " ".join(value.split())
    return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value
