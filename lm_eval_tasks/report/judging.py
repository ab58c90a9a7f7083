"""How the runs were judged: what counts and what does not, tokens and settings."""

from __future__ import annotations

import json
from typing import Any

from lm_eval_tasks.report import facts
from lm_eval_tasks.report.records import WAITING, Run, mapping, number, text
from lm_eval_tasks.report.table import Cell, Row, Table, count_cell

TITLES = {facts.AIR: "AIR-Bench-Chat", facts.INTIMA: "INTIMA"}


def totals(run: Run, benchmark: str) -> dict[str, Any]:
    """Sums the judging summaries of a run's tasks; a count that no task has is None."""
    out: dict[str, Any] = dict.fromkeys(("docs", "judged", "calls", "from_cache", "prompt_tokens", "completion_tokens"))
    out |= {"unjudged": {}, "flags": {}, "judge_answered": {}}
    for task in run.tasks(benchmark):
        summary = run.judging.get(task, {})
        for name, value in out.items():
            if isinstance(value, dict):
                for key, count in mapping(summary.get(name)).items():
                    value[text(key)] = value.get(text(key), 0) + (number(count) or 0)
            elif (count := number(summary.get(name))) is not None:
                out[name] = (value or 0) + count
    return out


def judging_table(runs: list[Run]) -> Table:
    """Returns a row for each run and benchmark: docs, judged, unjudged with reasons, flags, calls and tokens."""
    rows = []
    for index, run in enumerate(runs):
        for benchmark, title in TITLES.items():
            if not run.tasks(benchmark):
                continue
            sums = totals(run, benchmark)
            if run.waits(benchmark):
                count = len(run.answers.get(benchmark, []))
                sums |= {name: 0 for name, value in sums.items() if value is None}
                sums |= {"docs": count, "unjudged": {WAITING: count}}
            unjudged = sum(sums["unjudged"].values()) if sums["judged"] is not None else None
            cells = (
                Cell(title),
                count_cell(sums["docs"]),
                count_cell(sums["judged"]),
                count_cell(unjudged),
                Cell(counted(sums["unjudged"]) or "none"),
                Cell(counted(sums["flags"]) or "none"),
                count_cell(sums["calls"]),
                count_cell(sums["from_cache"]),
                count_cell(sums["prompt_tokens"]),
                count_cell(sums["completion_tokens"]),
            )
            rows.append(Row(run.label, cells, "", index))
    head = ("Run", "Benchmark", "Docs", "Judged", "Unjudged", "Reasons", "Flags", "Calls", "From cache")
    notes = ("An unjudged doc is in no mean and no rate. Calls: those made to the judge, beside those from the cache.",)
    return Table("judging", "Judged and unjudged", (*head, "Prompt tokens", "Reply tokens"), tuple(rows), notes)


def counted(counts: dict[str, float]) -> str:
    """Returns counts in words, the highest first."""
    return ", ".join(f"{int(count)} × {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def settings_table(runs: list[Run]) -> Table:
    """Returns the settings that shape the numbers, a column for each run and benchmark."""
    columns = [(run, benchmark) for run in runs for benchmark in TITLES if run.tasks(benchmark)]
    stored = [stored_settings(run, benchmark) for run, benchmark in columns]
    names = {name for values in stored for name in values}
    order = [name for name in facts.SETTINGS_FIRST if name in names]
    order += sorted(names - set(order))
    rows = []
    for name in order:
        cells = tuple(Cell(values.get(name, "–"), reason="" if name in values else "not stored") for values in stored)
        rows.append(Row(name, cells, "", None, "differs" if len({cell.text for cell in cells}) > 1 else ""))
    rows.append(Row("judge that answered", tuple(_answered(run, name) for run, name in columns)))
    rows.append(
        Row("lm_eval --limit", tuple(Cell("none" if run.limit is None else text(run.limit)) for run, _ in columns))
    )
    rows.append(Row("results written", tuple(Cell(run.written) for run, _ in columns)))
    head = ("Setting", *(f"{run.label} · {TITLES[benchmark]}" for run, benchmark in columns))
    notes = []
    if "dialect" in names:
        shown = " ".join(values.get("dialect", "") for values in stored)
        met = [f"{name}: {meaning}" for name, meaning in facts.DIALECT.items() if name in shown]
        notes.append(
            "dialect: what the judge's server refused, so that it was asked in another way. "
            + ("; ".join(met) if met else "none: it took every request as it was")
            + "."
        )
    return Table("settings", "Settings that shape the numbers", head, tuple(rows), tuple(notes))


def _answered(run: Run, benchmark: str) -> Cell:
    return Cell(", ".join(run.judges(benchmark)[1]) or "–")


def stored_settings(run: Run, benchmark: str) -> dict[str, str]:
    """Returns the stored settings as text; one that differs between tasks lists all its values."""
    values: dict[str, dict[str, None]] = {}
    for task in run.tasks(benchmark):
        for name, value in mapping(run.judging.get(task, {}).get("settings")).items():
            shown = text(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            shown = "none" if value in (None, [], {}, "") else shown
            values.setdefault(text(name), {})[shown if len(shown) <= 200 else shown[:200] + "…"] = None
    return {name: " / ".join(found) for name, found in values.items()}
