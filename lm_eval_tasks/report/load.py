"""Reads what lm_eval wrote in a run folder: the newest results file and the samples of the same date.

Every file is read as UTF-8, samples line by line. A line that can't be used is named and counted, never skipped in
silence. Everything read is untrusted: types are checked here, text is escaped where it is printed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lm_eval_tasks.report.facts import AIR, INTIMA
from lm_eval_tasks.report.records import Answer, Damage, Run, mapping, number, text

# lm_eval names its files results_<date>.json and samples_<task>_<date>.jsonl, the date in ISO form with "-" for ":".
_DATE = r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(?:\.\d+)?"
_RESULTS = re.compile(rf".*_({_DATE})\.json")


def load_runs(folders: Iterable[Path | str]) -> list[Run]:
    """Reads run folders, in the order given, and gives each run a label of its own.

    Raises:
        ValueError: a folder is not a finished run; the message says what to do.
    """
    runs = [load_run(Path(folder)) for folder in folders]
    if not runs:
        raise ValueError("no run folder was given: name at least one folder that lm_eval wrote with --output_path")
    files = [run.results_file.resolve() for run in runs]
    for file in files:
        if files.count(file) > 1:
            raise ValueError(f"{file.name} in {file.parent} was given twice: name each run once")
    _label(runs)
    return runs


def load_run(folder: Path) -> Run:
    """Reads one run: the newest results of a folder (or of the folders in it) and the samples of the same date."""
    results_file, date, others = _newest_results(folder)
    data = _read_json(results_file)
    configs = mapping(data.get("configs"))
    judging = {
        name: mapping(mapping(mapping(config).get("metadata")).get("judging")) for name, config in configs.items()
    }
    run = Run(
        label="",
        model=text(data.get("model_name")) or results_file.parent.name,
        date=date,
        place=str(folder),
        results_file=results_file,
        results={text(name): mapping(row) for name, row in mapping(data.get("results")).items()},
        judging={text(name): summary for name, summary in judging.items() if summary},
        limit=mapping(data.get("config")).get("limit"),
    )
    _read_samples(run)
    if not run.has(AIR) and not run.has(INTIMA):
        tasks = ", ".join(list(run.results)[:5]) or "none"
        raise ValueError(
            f"{results_file} holds no task of AIR-Bench-Chat or INTIMA (its tasks: {tasks}): "
            "name a run made with --tasks air_bench_chat or --tasks intima"
        )
    if others:
        run.notes.append(
            f"{len(others)} older results in the same place are not shown ({_some(others)}); "
            "to compare them, name results files instead of the folder: "
            f"`lm-eval-tasks report {_quoted(folder / others[0])} {_quoted(results_file)}`"
        )
    return run


def _newest_results(folder: Path) -> tuple[Path, str, list[str]]:
    """Finds the newest results file of a folder; a results file itself may be named, too."""
    if folder.is_file():
        match = _RESULTS.fullmatch(folder.name)
        if not match:
            raise ValueError(f"{folder} is not a results file of lm_eval: name the folder given as --output_path")
        return folder, match[1], []
    if not folder.exists():
        raise ValueError(f"run folder {folder} does not exist: name the folder given to lm_eval as --output_path")
    found = []
    for file in (*folder.glob("*.json"), *folder.glob("*/*.json")):
        match = _RESULTS.fullmatch(file.name)
        if match:
            found.append((match[1], file))
    if not found:
        raise ValueError(
            f"{folder} holds no results_*.json: name the folder given to lm_eval as --output_path, after the run ended"
        )
    found.sort(key=lambda pair: (pair[0], str(pair[1])))
    date, file = found[-1]
    return file, date, [str(other.relative_to(folder)) for _, other in reversed(found[:-1])]


def _read_json(file: Path) -> dict[str, Any]:
    """Reads a results file."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        cause = " ".join(str(error).split())[:200]
        raise ValueError(f"{file} can't be read as lm_eval's results ({cause}): run lm_eval again") from error
    if not isinstance(data, dict) or not isinstance(data.get("results"), dict):
        raise ValueError(f'{file} is not a results file of lm_eval (it has no "results"): name another folder')
    return data


def _read_samples(run: Run) -> None:
    """Adds the logged samples that belong to the results file, and the damaged lines."""
    pattern = re.compile(rf"samples_(.+)_{re.escape(run.date)}\.jsonl")
    seen: set[tuple[str, str]] = set()
    foreign: dict[str, int] = {}
    for file in sorted(run.results_file.parent.iterdir()):
        match = pattern.fullmatch(file.name)
        if not match:
            continue
        for line, sample in _lines(file, run.damaged):
            answer = _answer(match[1], sample)
            if isinstance(answer, str):
                run.damaged.append(Damage(file.name, line, answer))
            elif answer is None:
                foreign[match[1]] = foreign.get(match[1], 0) + 1
            elif (answer.task, answer.key) in seen:
                run.damaged.append(Damage(file.name, line, "the same doc was logged before"))
            else:
                seen.add((answer.task, answer.key))
                run.answers.setdefault(answer.benchmark, []).append(answer)
                if answer.benchmark == INTIMA:
                    values = {name: number(value) for name, value in sample.items()}
                    run.threshold_flags[answer.key] = {k: v for k, v in values.items() if v is not None}
    for task, count in foreign.items():
        run.notes.append(f"{count} samples of {task} belong to neither benchmark and are left out")


def _lines(file: Path, damaged: list[Damage]) -> Iterable[tuple[int, dict[str, Any]]]:
    """Yields line number and content of each usable line."""
    with file.open("rb") as stream:
        for line, raw in enumerate(stream, 1):
            if not raw.strip():
                continue
            try:
                sample = json.loads(raw.decode("utf-8"))
            except UnicodeDecodeError:
                damaged.append(Damage(file.name, line, "not UTF-8"))
            except (json.JSONDecodeError, RecursionError):
                damaged.append(Damage(file.name, line, "not a whole JSON object"))
            else:
                if isinstance(sample, dict):
                    yield line, sample
                else:
                    damaged.append(Damage(file.name, line, "not a JSON object"))


def _answer(task: str, sample: dict[str, Any]) -> Answer | str | None:
    """Turns a logged sample into an Answer; returns what is wrong with it, or None for another benchmark's sample."""
    doc = sample.get("doc")
    if not isinstance(doc, dict):
        return "it has no doc"
    if "task_name" in doc and "question" in doc:
        benchmark, name = AIR, (doc.get("task_name"), doc.get("uniq_id"), doc.get("question"))
    elif "code" in doc and "prompt" in doc:
        benchmark, name = INTIMA, (doc.get("code"), doc.get("model"), doc.get("prompt"))
    else:
        return None
    key = hashlib.sha256(json.dumps(name, default=str).encode()).hexdigest()[:12]
    return Answer(benchmark, task, key, doc, _prediction(sample), _record(sample, benchmark))


def _prediction(sample: dict[str, Any]) -> str:
    """Returns the model's answer: the first response of the first request."""
    answer: Any = sample.get("resps")
    while isinstance(answer, list):
        answer = answer[0] if answer else ""
    return text(answer)


def _record(sample: dict[str, Any], benchmark: str) -> dict[str, Any]:
    """Returns the judgement record, which lm_eval logs as a JSON string; {} where there is none."""
    value: Any = sample.get("filtered_resps")
    while isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (json.JSONDecodeError, RecursionError):
            return {}
    # A model's own answer may be JSON, too (with --predict_only nothing is judged): only a record names its benchmark.
    record = mapping(value)
    return record if record.get("benchmark") == benchmark and "judged" in record else {}


def _label(runs: list[Run]) -> None:
    """Names each run by its model, and by what differs where two share a model."""
    for run in runs:
        same = [other for other in runs if other.model == run.model]
        run.label = run.model
        if len(same) < 2:
            continue
        judges = [other.judges(AIR)[0] or other.judges(INTIMA)[0] for other in same]
        own = run.judges(AIR)[0] or run.judges(INTIMA)[0]
        if own and judges.count(own) == 1:
            run.label = f"{run.model} (judge {own[0]})"
        else:
            run.label = f"{run.model} ({run.written})"
    for index, run in enumerate(runs, 1):
        if [other.label for other in runs].count(run.label) > 1:
            run.label = f"{run.label} #{index}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _some(names: list[str], count: int = 3) -> str:
    """Returns the first few names, and how many more there are."""
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")
