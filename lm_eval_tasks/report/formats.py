"""Tables as Markdown for a post, LaTeX for a paper, and CSV for a program."""

from __future__ import annotations

import csv
import io
import itertools
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lm_eval_tasks.report import agreement, airbench, caveats, charts, compare, facts, intima, provenance
from lm_eval_tasks.report.records import Run
from lm_eval_tasks.report.table import Cell, Table
from lm_eval_tasks.report.texts import t

_CSV_HEAD = ("table", "run", "row", "column", "value", "stderr", "docs", "text", "note")
# What `--table` may name -> the keys of the tables it stands for.
PARTS = {
    "leaderboard": ("air_leaderboard",),
    "categories": ("air_tasks",),
    "foundation": ("foundation",),
    "differences": ("air_difference", "intima_difference"),
    "intima": ("intima_summary", "intima_rates", "intima_levels"),
    "judging": ("judging", "settings"),
}
_MARKDOWN = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]|#~$!"} | {"<": "&lt;", ">": "&gt;"})
_TEXT = {"\\": "textbackslash", "~": "textasciitilde", "^": "textasciicircum", "`": "textasciigrave", "|": "textbar"}
_TEXT |= {"<": "textless", ">": "textgreater", "…": "ldots", "\u200b": "allowbreak"}
_MATHS = {"±": "\\pm", "−": "-", "→": "\\to", "×": "\\times", "·": "\\cdot", "†": "\\dagger", "√": "\\surd"}
_LATEX = str.maketrans(
    {mark: f"\\{mark}" for mark in "&%$#_{}"}
    | {mark: f"\\{name}{{}}" for mark, name in _TEXT.items()}
    | {mark: f"${name}$" for mark, name in _MATHS.items()}
    | {"–": "--", "\u202f": "\\,", "[": "{[}", "*": "{*}"}  # the last two belong to a line break before them
)
_WRAPPED, _WRAP = 32, ">{\\raggedright\\arraybackslash}p{15em}"
"""Columns of text longer than so many characters are set in lines of this width."""
_HEAD = 16
"""Characters in a line of a column's head, so that a long label of a run does not make the whole table small."""
_FLOATS = 16
"""Tables that may wait for a page; LaTeX gives up when it holds more than 18."""


def all_tables(runs: list[Run], part: str | None = None) -> list[Table]:
    """Every table of the report in its order, or those of a part of it (see PARTS)."""
    tables = [airbench.leaderboard(runs)] if any(run.has(facts.AIR) for run in runs) else []
    tables += [airbench.task_table(run) for run in runs if run.judged_at_all(facts.AIR)]
    tables += [intima.summary(runs)] if any(run.has(facts.INTIMA) for run in runs) else []
    for run in runs:
        if run.judged_at_all(facts.INTIMA):
            tables += filter(None, (intima.heat_table(run), intima.level_table(run)))
    tables += [airbench.foundation_table(run) for run in runs if run.has(facts.FOUNDATION)]
    tables += [table for comparison in compare.comparisons(runs) for table in comparison.tables]
    tables += agreement.tables(runs)
    tables += [provenance.judging_table(runs), provenance.settings_table(runs)]
    return [table for table in tables if part is None or table.key in PARTS[part]]


def to_text(kind: str, runs: list[Run], part: str | None = None) -> str:
    """Tables as "markdown", "latex" or "csv".

    Raises:
        ValueError: the runs have no such table.
    """
    tables = all_tables(runs, part)
    if not tables:
        raise ValueError(
            f"these runs have no table for --table {part}: differences need two runs with logged samples, the other "
            "tables a run of their benchmark"
        )
    if kind == "csv":
        return to_csv(tables)
    said = caveats.warnings(runs)
    if kind == "latex":
        needs = t("% Needs \\usepackage{booktabs,adjustbox,array}; names in other scripts need XeLaTeX or LuaLaTeX.")
        comments = [f"% {_line(f'{label}: {sentence}')}" for label, sentence in said]
        keys = [table.key for table in tables]
        labels = [f"{key}-{keys[:n].count(key) + 1}" if keys.count(key) > 1 else key for n, key in enumerate(keys)]
        count = itertools.count(1)
        flushed = re.sub(
            r"(?<=\\end\{table\}\n)",
            lambda _: "" if next(count) % _FLOATS else "\\clearpage\n",
            "\n".join(map(to_latex, tables, labels)),
        )
        return "\n".join([needs, *comments, "", flushed])
    lines = []
    if part is None:
        lines = ["# " + _plain(", ".join(run.label for run in runs)), ""]
        lines += ["- " + (f"**{_plain(label)}**: " if label else "") + _plain(sentence) for label, sentence in said]
        lines += [""]
    return "\n".join([*lines, *map(to_markdown, tables)]).strip() + "\n"


def to_markdown(table: Table) -> str:
    """A table as Markdown under its title, and its notes."""
    lines = [f"## {_plain(table.name)}", ""]
    lines.append("| " + " | ".join(map(_plain, table.head)) + " |")
    lines.append("|---" + "".join("|---" if words else "|---:" for words, _ in table.columns()) + "|")
    for name, cells in _rows(table):
        lines.append(f"| {_plain(name)} | " + " | ".join(_plain(_shown(cell)) for cell in cells) + " |")
    return "\n".join([*lines, "", *(f"{_plain(note)}\n" for note in table.remarks())])


def to_latex(table: Table, label: str = "") -> str:
    """A table with booktabs' rules, never wider than the line, its title as the caption and its notes below.

    Sections of a table are tables of their own.
    """
    label, starts = label or table.key, [n for n, row in enumerate(table.rows) if row.kind == "section"]
    if starts:
        parts = []
        for start, stop in zip(starts, [*starts[1:], len(table.rows)], strict=True):
            title = f"{table.title}: {table.rows[start].name}"
            parts.append(to_latex(replace(table, title=title, rows=table.rows[start + 1 : stop]), f"{label}-{start}"))
        return "\n".join(parts)
    rows = [[name, *map(_shown, cells)] for name, cells in _rows(table)]
    sides = ["l", *("l" if words else "r" for words, _ in table.columns())]
    long = [max([0, *(len(row[place]) for row in rows)]) > _WRAPPED for place in range(len(sides))]
    form = "".join(_WRAP if side == "l" and wraps else side for side, wraps in zip(sides, long, strict=True))
    heads = (f"\\multicolumn{{1}}{{{how}}}{{{_head(name, how)}}}" for name, how in zip(table.head, sides, strict=True))
    lines = ["\\begin{table}", "\\centering", "\\small"]
    lines += ["\\begin{adjustbox}{max width=\\linewidth, max totalheight=0.8\\textheight}"]
    lines += [f"\\begin{{tabular}}{{{form}}}", "\\toprule", " & ".join(heads) + " \\\\", "\\midrule"]
    before = ""
    for row, kind in zip(rows, (row.kind for row in table.rows), strict=True):
        if before and kind != before and {kind, before} & {"published", "share"}:
            lines.append("\\midrule")
        lines.append(" & ".join(map(_tex, row)) + " \\\\")
        before = kind
    lines += ["\\bottomrule", "\\end{tabular}", "\\end{adjustbox}"]
    lines += [f"\\caption{{{_tex(table.name)}}}", f"\\label{{tab:{label}}}"]
    notes = [f"\\par\\raggedright\\footnotesize {_tex(note)}" for note in table.remarks()]
    return "\n".join([*lines, *notes, "\\end{table}", ""])


def _head(name: str, how: str) -> str:
    """The head of a column, a long one in several lines."""
    lines = "\\\\".join(map(_tex, textwrap.wrap(name, _HEAD)))
    return f"\\shortstack[{how}]{{{lines}}}" if len(name) > _HEAD else lines


def to_sheet(table: Table) -> str:
    """One table as CSV in its own shape, standard errors in columns of their own, numbers unrounded."""
    has_error = [length > 0 for _, length in table.columns()]
    lines = [[table.head[0]]]
    for name, has in zip(table.head[1:], has_error, strict=True):
        lines[0] += [name, f"{name}, SE"] if has else [name]
    for name, cells in _rows(table):
        lines.append([name])
        for cell, has in zip(cells, has_error, strict=True):
            lines[-1] += [cell.text if cell.value is None else cell.value, cell.stderr][: 1 + has]
    return _csv(lines)


def to_csv(tables: Sequence[Table]) -> str:
    """Tables as CSV, one line a cell: numbers unrounded, in the unit of the other formats."""
    lines: list[Iterable[object]] = [_CSV_HEAD]
    for table in tables:
        for row in table.rows:
            for column, cell in zip(table.head[1:], row.cells, strict=False):
                note = "; ".join(filter(None, (row.note, cell.reason)))
                numbers = (cell.value, cell.stderr, cell.n, cell.text if cell.value is None else None)
                lines.append((table.key, table.run, row.name, column, *numbers, note))
    return _csv(lines)


def _csv(lines: Iterable[Iterable[object]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([_safe(value) for value in line] for line in lines)
    return buffer.getvalue()


def _rows(table: Table) -> Iterable[tuple[str, tuple[Cell, ...]]]:
    """Yields the printed name and the cells of each row, as many as there are heads."""
    for row in table.rows:
        name = f"{row.name} ({row.note})" if row.note else row.name
        name += f" ({t('published')})" if row.kind == "published" else ""
        name += " *" if row.kind == "differs" else ""
        yield name, row.cells or (Cell(""),) * (len(table.head) - 1)


def _shown(cell: Cell) -> str:
    return f"{cell.text} ± {cell.error}" if cell.error else cell.text


def _line(value: str) -> str:
    return " ".join(value.split())


def _plain(value: str) -> str:
    """Text that is only text in Markdown: one line, no cell borders, no markup, no HTML."""
    return _line(value).translate(_MARKDOWN)


def _tex(value: str) -> str:
    """Text that is only text in LaTeX; two hyphens stay two."""
    breakable = re.sub(r"(\S{24})(?=\S)", "\\1\u200b", charts.visible(_line(value)))
    return "-{}-".join(part.translate(_LATEX) for part in breakable.split("--"))


def _safe(value: object) -> object:
    """Keeps a spreadsheet from reading text of a run as a formula; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    value = _line(value)
    try:
        float(value)
    except ValueError:
        return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value
    return value
