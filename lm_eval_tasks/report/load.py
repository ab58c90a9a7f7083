"""The runs of a report: what the one reader of runs found, as the plain data that the report is made of.

A line that can't be used is named and counted, never skipped in silence. Everything read is untrusted: text is escaped
where it is printed.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lm_eval_tasks.report import stats
from lm_eval_tasks.report.facts import FOUNDATION, INTIMA
from lm_eval_tasks.report.provenance import label_runs
from lm_eval_tasks.report.records import Answer, Run
from lm_eval_tasks.report.texts import listed
from lm_eval_tasks.runs.plain import mapping, number, text
from lm_eval_tasks.runs.reader import Damage, Files, Sample, lines, read


def load_runs(folders: Iterable[Path | str]) -> list[Run]:
    """Reads run folders, in the order given, and gives each run a label of its own.

    Raises:
        ValueError: a folder is not a finished run; the message says what to do.
    """
    runs = [load_run(Path(folder)) for folder in folders]
    files = [run.files.results_file.resolve() for run in runs]
    for file in files:
        if files.count(file) > 1:
            raise ValueError(f"{file.name} in {file.parent} was given twice: name each run once")
    label_runs(runs)
    return runs


def load_run(folder: Path) -> Run:
    """Reads one run: the newest results of a folder (or of the folders in it) and the samples of the same date."""
    files = read(folder)
    data = files.results
    if "results" not in data:
        raise ValueError(
            f"{files.results_file} is of answers that wait to be judged: "
            f"run `lm-eval-tasks rejudge {shlex.quote(str(folder))}`"
        )
    model = text(data.get("model_name")) or files.results_file.parent.name
    run = Run(
        label=model,
        model=model,
        place=str(folder),
        files=files,
        results={text(name): mapping(row) for name, row in data["results"].items()},
        limit=mapping(data.get("config")).get("limit"),
        summaries={task: files.judging(task) or files.scoring(task) for task in files.benchmarks},
    )
    if not files.benchmarks:
        tasks = ", ".join(list(run.results)[:5]) or "none"
        raise ValueError(
            f"{files.results_file} holds no task of AIR-Bench or INTIMA (its tasks: {tasks}): "
            "name a run made with --tasks air_bench_chat or --tasks intima"
        )
    for task in files.samples_files:
        _read_samples(run, task)
    run.notes += _notes(folder, files)
    return run


def _notes(folder: Path, files: Files) -> Iterator[str]:
    for task, file in files.foreign.items():
        count = sum(1 for _ in lines(file))
        yield f"{count} samples of {task} belong to none of the benchmarks and are left out"
    if mapping(files.results.get("config")).get("model") == "replay-answers" and "judged_again" not in files.results:
        yield (
            "an older version of this package judged these answers again: the generation settings, the limit and the "
            "date in its results are those of the judging, not of the run that made the answers"
        )
    if files.older:
        names = [str(other.relative_to(folder)) for other in files.older]
        yield (
            f"{len(names)} older results in the same place are not shown ({listed(names)}); "
            "to compare them, name results files instead of the folder: "
            f"`lm-eval-tasks report {shlex.quote(str(files.older[0]))} {shlex.quote(str(files.results_file))}`"
        )


def _read_samples(run: Run, task: str) -> None:
    """Adds the logged samples of a task, and the lines that cannot be used."""
    seen: set[str] = set()
    for sample in run.files.samples(task):
        if isinstance(sample, Damage):
            run.damaged.append(sample)
        elif (answer := _answer(sample)).key in seen:
            name = run.files.samples_files[task].name
            run.damaged.append(Damage(name, sample.line, "the same doc was logged before"))
        else:
            seen.add(answer.key)
            run.answers[answer.benchmark].append(answer)


def _answer(sample: Sample) -> Answer:
    asked = sample.doc.get("prompt" if sample.benchmark == INTIMA else "question")
    # the text as well, because another release of the data may give an id to another doc; and the clip where a task
    # asks the same of each
    clip = [text(sample.doc.get("path"))] if sample.benchmark == FOUNDATION else []
    name = json.dumps((sample.task, sample.uniq_id, text(asked), *clip))
    key, answers = hashlib.sha256(name.encode()).hexdigest()[:12], sample.answers
    metrics = {name: found for name, value in sample.logged.items() if (found := number(value)) is not None}
    record = _merged(sample.records)
    return Answer(sample.benchmark, sample.task, key, sample.doc, "".join(answers[:1]), record, metrics, answers)


def _merged(records: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """The judgements of a doc that was answered several times as one: means of scores, and levels that are common."""
    if len(records) < 2:
        return records[0] if records else {}
    judged = [record for record in records if record.get("judged") is True]
    merged = dict((judged or records)[0])
    for name in ("prediction_score", "reference_score", "position_gap"):
        values = [number(record.get(name)) for record in judged]
        total = stats.total(values)
        merged[name] = None if total is None else total / len(values)
    first, *others = [mapping(record.get("levels")) for record in judged or records]
    merged["levels"] = {k: v for k, v in first.items() if all(one.get(k) == v for one in others)}
    for name in ("label", "win", "finish_reason"):
        merged[name] = merged.get(name) if len({text(record.get(name)) for record in judged or records}) == 1 else None
    for name in ("verdicts", "flags"):
        merged[name] = [one for r in records if isinstance(found := r.get(name), list) for one in found]
    return merged
