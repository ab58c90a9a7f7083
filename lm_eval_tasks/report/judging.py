"""How the runs were judged: what counts and what does not, tokens, settings, and what a reader must be told first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lm_eval_tasks.report import facts
from lm_eval_tasks.report.airbench import mismatches
from lm_eval_tasks.report.records import Run, mapping, number, text
from lm_eval_tasks.report.table import Cell, Row, Table, count_cell

DEMO_JUDGE = "demo-judge"
_TITLES = {facts.AIR: "AIR-Bench-Chat", facts.INTIMA: "INTIMA"}


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


def left_out(run: Run, benchmark: str) -> list[tuple[str, str, list[str]]]:
    """Returns task, kind of fault and the names of what was left out before generation."""
    out = []
    for task in run.tasks(benchmark):
        for kind, names in mapping(run.judging.get(task, {}).get("left_out")).items():
            listed = [text(name) for name in names] if isinstance(names, (list, dict)) else [text(names)]
            if listed:
                out.append((facts.group_title(task), text(kind), listed))
    return out


def judging_table(runs: list[Run]) -> Table:
    """Returns a row for each run and benchmark: docs, judged, unjudged with reasons, flags, calls and tokens."""
    rows = []
    for index, run in enumerate(runs):
        for benchmark, title in _TITLES.items():
            if not run.tasks(benchmark):
                continue
            sums = totals(run, benchmark)
            unjudged = sum(sums["unjudged"].values()) if sums["judged"] is not None else None
            cells = (
                Cell(title),
                count_cell(sums["docs"]),
                count_cell(sums["judged"]),
                count_cell(unjudged),
                Cell(_counted(sums["unjudged"]) or "none"),
                Cell(_counted(sums["flags"]) or "none"),
                count_cell(sums["calls"]),
                count_cell(sums["from_cache"]),
                count_cell(sums["prompt_tokens"]),
                count_cell(sums["completion_tokens"]),
            )
            rows.append(Row(run.label, cells, "", index))
    head = ("Run", "Benchmark", "Docs", "Judged", "Unjudged", "Reasons", "Flags", "Calls", "From cache")
    notes = ("An unjudged doc is in no mean and no rate. Calls: those made to the judge, beside those from the cache.",)
    return Table("judging", "Judged and unjudged", (*head, "Prompt tokens", "Reply tokens"), tuple(rows), notes)


def _counted(counts: dict[str, float]) -> str:
    return ", ".join(f"{int(count)} × {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def settings_table(runs: list[Run]) -> Table:
    """Returns the settings that shape the numbers, a column for each run and benchmark."""
    columns = [(run, benchmark) for run in runs for benchmark in _TITLES if run.tasks(benchmark)]
    stored = [_settings(run, benchmark) for run, benchmark in columns]
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
    rows.append(Row("results written", tuple(Cell(run.date.replace("T", " ")[:19]) for run, _ in columns)))
    head = ("Setting", *(f"{run.label} · {_TITLES[benchmark]}" for run, benchmark in columns))
    return Table("settings", "Settings that shape the numbers", head, tuple(rows))


def _answered(run: Run, benchmark: str) -> Cell:
    return Cell(", ".join(run.judges(benchmark)[1]) or "–")


def _settings(run: Run, benchmark: str) -> dict[str, str]:
    """Returns the stored settings as text; one that differs between tasks lists all its values."""
    values: dict[str, dict[str, None]] = {}
    for task in run.tasks(benchmark):
        for name, value in mapping(run.judging.get(task, {}).get("settings")).items():
            shown = text(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            shown = "none" if value in (None, [], {}, "") else shown
            values.setdefault(text(name), {})[shown if len(shown) <= 200 else shown[:200] + "…"] = None
    return {name: " / ".join(found) for name, found in values.items()}


def warnings(runs: Iterable[Run]) -> list[tuple[str, str]]:
    """Returns (run, sentence) of everything that changes how the numbers must be read."""
    out = []
    for run in runs:
        say = [*_judge_warnings(run)]
        if run.limit is not None:
            say.insert(0, f"Made with --limit {run.limit}: a trial on part of the docs, not a result of the benchmark.")
        for benchmark, title in _TITLES.items():
            if not run.has(benchmark):
                continue
            sums = totals(run, benchmark)
            unjudged = int(sum(sums["unjudged"].values()))
            if unjudged:
                docs = int(sums["docs"] or unjudged)
                say.append(
                    f"{title}: {unjudged} of {docs} docs are unjudged and in no score ({_counted(sums['unjudged'])})."
                )
            for task, kind, names in left_out(run, benchmark):
                some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
                say.append(f"{title}, {task}: left out before generation, {kind}: {some}.")
            if not run.answers.get(benchmark):
                say.append(
                    f"{title}: no samples were logged, so there are no histograms, comparisons or samples here; "
                    "add --log_samples (with --output_path) to the next lm_eval command."
                )
        if run.damaged:
            some = "; ".join(map(str, run.damaged[:3])) + (
                f"; and {len(run.damaged) - 3} more" if len(run.damaged) > 3 else ""
            )
            say.append(f"{len(run.damaged)} lines of its sample files could not be used ({some}).")
        say += [f"{note}." for note in (*run.notes, *mismatches(run))]
        out += [(run.label, sentence) for sentence in say]
    return out


def _judge_warnings(run: Run) -> Iterable[str]:
    """Says whose judgement the numbers are, and on what data."""
    shown = [benchmark for benchmark in _TITLES if run.has(benchmark)]
    demo = [_TITLES[name] for name in shown if any(DEMO_JUDGE in judges for judges in run.judges(name))]
    if demo:
        names = " and ".join(demo)
        yield f"{names}: judged by {DEMO_JUDGE}, a rule of thumb for trying the pack; the numbers mean nothing."
    sample = [_TITLES[name] for name in shown if _settings(run, name).get("local_path") == "sample"]
    if sample:
        yield f"{' and '.join(sample)}: made on the few samples that come with the pack, not on the benchmark's data."
    for benchmark in shown:
        title, (asked, answered) = _TITLES[benchmark], run.judges(benchmark)
        if benchmark == facts.AIR and asked and asked != [facts.OFFICIAL_JUDGE] and title not in demo:
            yield (
                f"{title} was judged by {', '.join(asked)}, not by {facts.OFFICIAL_JUDGE}: "
                "its scores are not on the scale of the published rows."
            )
        if len(answered) > 1:
            names = ", ".join(answered)
            yield f"{title} was answered by {len(answered)} judges ({names}): its scores mix their scales."
