"""A finished run, or answers that were kept aside, read back to be judged without the model or the audio."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lm_eval_tasks.data.records import Loaded
from lm_eval_tasks.errors import NoDocs
from lm_eval_tasks.harness.compat import handle_non_serializable, hash_string
from lm_eval_tasks.runs.plain import mapping, number
from lm_eval_tasks.runs.reader import Damage, Files, Sample, read

_ADDRESS = re.compile(" at 0x[0-9a-f]+")  # of a function, in its repr


_ADDED = (
    *("judging", "benchmark", "config_source", "version", "data", "data_revision", "left_out", "replay", "replay_all"),
    *("prompt_version", "dialect", "made_with"),
)
"""Metadata that nobody set: of lm-eval and of this package."""

DATA_SETTINGS = (
    *("audio_part", "audio_sample_rate", "include_extra_codes", "local_path", "on_bad_audio"),
    *("on_bad_record", "max_audio_seconds", "revision", "source", "tasks"),
)
"""Settings of what was asked, which later judging cannot change."""


WITHOUT_JUDGE = "air_bench_foundation"
"""The benchmark whose answers no judge scores; its samples are never judged again."""


@dataclass(frozen=True)
class StoredRun:
    """What a run left on disk.

    Attributes:
        files: as they were read.
        samples: task name -> its samples, in the order of their ``doc_id``.
        missing: tasks of a run that did not end whose answers are not there.
    """

    files: Files
    samples: dict[str, list[Sample]]
    missing: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.files.results_file.parent

    @property
    def results(self) -> dict[str, Any]:
        """The results file; of a run that did not end, what was noted beside its answers."""
        return self.files.results

    @property
    def finished(self) -> bool:
        """Whether lm-eval wrote this, and not ``waiting``."""
        return "results" in self.results

    @property
    def model(self) -> str:
        """The name of the model that answered."""
        asked = self.settings()
        return str(self.results.get("model_name") or asked.get("model") or asked.get("pretrained") or self.folder.name)

    @property
    def part(self) -> tuple[int, int] | None:
        """Rank and number of ranks, where only the docs of one of several ranks are here; None where all are."""
        rank, ranks = self.results.get("rank"), self.results.get("ranks")
        return (rank, ranks) if isinstance(rank, int) and isinstance(ranks, int) and ranks > 1 else None

    def settings(self) -> dict[str, Any]:
        """What was set for the whole run, in metadata or environment, without what lm-eval and this package added.

        A setting in which tasks of a benchmark differ was not made for the run but in their own YAML files, which still
        hold it. What is true of one of several benchmarks stands under its name.
        """
        each = {task: {**self._effective(task), **self.files.metadata(task)} for task in self.samples}
        common = _agreed(list(each.values()))
        benchmarks: dict[str, list[str]] = {}
        for task in each:
            benchmarks.setdefault(self.files.benchmarks[task], []).append(task)
        for benchmark, tasks in benchmarks.items() if len(benchmarks) > 1 else ():
            own = common[benchmark] if isinstance(common.get(benchmark), dict) else {}
            effective = _agreed([self._effective(task) for task in tasks])
            common[benchmark] = own | {key: value for key, value in effective.items() if common.get(key) != value}
        return common

    def _effective(self, task: str) -> dict[str, Any]:
        """What a task went by, wherever it was set; {} where that was not noted."""
        return mapping(self.files.judging(task).get("settings") or self.files.config(task).get("settings"))

    def has_noted(self, key: str) -> bool:
        """Whether the run tells what a setting was."""
        return any(key in self._effective(task) for task in self.samples)

    def docs_of(self, config: Any) -> Loaded:
        """The docs of a task, with what it noted of its data.

        Args:
            config: lm-eval's ``TaskConfig`` of the task that is to judge them.

        Raises:
            NoDocs: the run has no samples of this task.
            ValueError: the task takes other answers of a doc, or other parts of them, than the run's task of that name.
        """
        task = config.task
        if task not in self.samples:
            raise NoDocs(f"{self.folder} holds no samples of {task}, only of {', '.join(self.samples)}.")
        before, noted = self.files.config(task), self.files.metadata(task)
        for key in ("repeats", "filter_list"):
            now = json.dumps(getattr(config, key), default=handle_non_serializable)
            if key in before and _ADDRESS.sub("", now) != _ADDRESS.sub("", json.dumps(before[key])):
                raise ValueError(
                    f"{task} had another {key} in {self.folder}: name the folder of the run's own YAML file with "
                    "--include_path."
                )
        left_out = noted.get("left_out") or self.files.judging(task).get("left_out") or {}
        docs = [sample.doc for sample in self.samples[task]]
        return Loaded(docs, left_out, mapping(noted.get("data")), noted.get("data_revision"))

    def top_level(self) -> list[str]:
        """The names to ask lm-eval for: the largest groups without tasks of other benchmarks, then single tasks."""
        listed = mapping(self.results.get("group_subtasks")).items()
        groups = {name: [str(child) for child in children] for name, children in listed if isinstance(children, list)}
        others = mapping(self.results.get("configs")).keys() - self.samples.keys()
        inside = {child for children in groups.values() for child in children}

        def is_ours(name: str, *above: str) -> bool:
            below = groups.get(name, ())
            return name not in (*others, *above) and all(is_ours(child, name, *above) for child in below)

        def asked(name: str, *above: str) -> list[str]:
            if is_ours(name):
                return [name] if name in groups or name in self.samples else []
            below = groups.get(name, ()) if name not in above else ()
            return [part for child in below for part in asked(child, name, *above)]

        return [part for name in [*groups, *self.samples] if name not in inside for part in asked(name)]


def load_run(where: str | Path) -> StoredRun:
    """Read a run: a folder (the newest results in it or in a folder below), a results file, or kept answers.

    Raises:
        ValueError: there are no samples, they are damaged, or they do not belong together; says which and what to do.
    """
    path = Path(where).expanduser().absolute()
    return _load_run(path, path.stat().st_mtime_ns if path.exists() else 0)


def _agreed(each: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings that are the same in each."""
    return {
        key: value
        for key, value in each[0].items()
        if key not in _ADDED and all(key in other and other[key] == value for other in each)
    }


@lru_cache(maxsize=2)  # every task of a run reads it
def _load_run(path: Path, _mtime_ns: int) -> StoredRun:
    files = read(path)
    judged = [task for task, benchmark in files.benchmarks.items() if benchmark != WITHOUT_JUDGE]
    there = [task for task in judged if task in files.samples_files]
    if not there:
        raise ValueError(
            f"{files.results_file.parent} holds no samples of a judged task from {files.date}: only a run with "
            "--log_samples or --predict_only can be judged again."
        )
    run = StoredRun(files, {task: _samples_of(files, task) for task in there})
    if not run.finished:
        return StoredRun(files, run.samples, tuple(task for task in judged if task not in there))
    _check_complete(run)
    return run


def _samples_of(files: Files, task: str) -> list[Sample]:
    file, samples = files.samples_files[task], []
    for found in files.samples(task):
        if isinstance(found, Damage):
            raise ValueError(
                f"{file}, line {found.line} is not a complete sample ({found.reason}), so the run cannot be judged "
                "again."
            )
        if not found.answers or type(found.logged.get("doc_id")) is not int:
            raise ValueError(f"{file}, line {found.line} has no doc or no answer.")
        doc = json.dumps(found.doc, indent=2, default=handle_non_serializable, ensure_ascii=False)  # as lm-eval does
        if found.logged.get("doc_hash", hash := hash_string(doc)) != hash:
            raise ValueError(
                f"{file}, line {found.line}: the doc does not match its doc_hash; it was changed after the run."
            )
        samples.append(found)
    samples.sort(key=lambda sample: sample.logged["doc_id"])
    twice = [doc_id for doc_id, count in Counter(one.logged["doc_id"] for one in samples).items() if count > 1]
    if twice:
        raise ValueError(
            f"{file} holds doc_id {twice[0]} more than once (with several filters, name one run with one filter)."
        )
    return samples


def _check_complete(run: StoredRun) -> None:
    """Refuse a run whose samples are not all there, or not its own."""
    for task, counts in mapping(run.results.get("n-samples")).items():
        if run.files.benchmarks.get(task, WITHOUT_JUDGE) == WITHOUT_JUDGE:
            continue
        if task not in run.samples:
            file = run.folder / f"samples_{task}_{run.files.date}.jsonl"
            raise ValueError(f"{file} is missing, though the results name {task}: docs do not match.")
        logged, file = len(run.samples[task]), run.files.samples_files[task]
        effective, original = (number(mapping(counts).get(key)) for key in ("effective", "original"))
        if logged < (effective or 0) or (original is not None and logged > original):
            raise ValueError(f"{file} has {logged} samples, but the results name {counts}: docs do not match.")
        before = run.files.judging(task).get("docs")
        if before is not None and before != sum(len(sample.records) for sample in run.samples[task]):
            raise ValueError(f"{file} does not hold the {before} answers that were judged: docs do not match.")


def why_unanswered(sample: Sample) -> str | None:
    """Why a sample has no answer: noted with kept answers, and by the model among the logged arguments."""
    request = mapping(mapping(sample.logged.get("arguments")).get("gen_args_0"))
    return sample.logged.get("unanswered") or mapping(request.get("arg_1")).get("unanswered")


def finish_of(sample: Sample, repeat: int) -> str:
    """Why the model stopped at one of a sample's answers, where that was noted; else ""."""
    kept = sample.logged.get("finish_reasons")
    noted = kept if isinstance(kept, list) else [record.get("finish_reason") for record in sample.records]
    return str(noted[repeat] or "") if repeat < len(noted) else ""
