"""A finished run, or answers that were kept aside, read back to be judged without the model or the audio."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lm_eval.utils import handle_non_serializable, hash_string

# lm_eval names its files results_<date>.json and samples_<task>_<date>.jsonl, the date in ISO form with "-" for ":"
_RESULTS = re.compile(r"(?:.*_)?results_(\d{4}-\d{2}-\d{2}T[\d.-]+)\.json")

_ADDRESS = re.compile(" at 0x[0-9a-f]+")  # of a function, in its repr


_ADDED = (
    *("judging", "benchmark", "config_source", "version", "data", "data_revision", "left_out", "replay", "replay_all"),
    *("prompt_version", "dialect"),
)
"""Metadata that nobody set: of lm-eval and of this package."""

DATA_SETTINGS = (
    *("audio_part", "audio_sample_rate", "include_extra_codes", "local_path", "on_bad_audio"),
    *("on_bad_record", "max_audio_seconds", "revision", "source", "tasks"),
)
"""Settings of what was asked, which later judging cannot change."""


@dataclass(frozen=True)
class StoredRun:
    """What a run left on disk.

    Attributes:
        samples: task name -> its samples, in the order of their ``doc_id``.
        results: the results file; of a run that did not end, what was noted beside its answers.
        missing: tasks of a run that did not end whose answers are not there.
    """

    folder: Path
    samples: dict[str, list[dict[str, Any]]]
    results: dict[str, Any]
    missing: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The name of the model that answered."""
        asked = self.settings()
        return str(self.results.get("model_name") or asked.get("model") or asked.get("pretrained") or self.folder.name)

    @property
    def limit(self) -> int | None:
        """To how many docs a task was limited, if it was; a share is given as the most that it came to."""
        limit = self.results.get("config", {}).get("limit")
        return None if limit is None else int(limit) if limit >= 1 else max(map(len, self.samples.values()))

    def settings(self) -> dict[str, Any]:
        """What was set for the whole run, in metadata or environment, without what lm-eval and this package added.

        A setting in which tasks of a benchmark differ was not made for the run but in their own YAML files, which still
        hold it. What is true of one of several benchmarks stands under its name.
        """
        each = {task: {**self._effective(task), **self._metadata(task)} for task in self.samples}
        common = _agreed(list(each.values()))
        benchmarks: dict[str, list[str]] = {}
        for task, found in each.items():
            benchmarks.setdefault(found["benchmark"], []).append(task)
        for benchmark, tasks in benchmarks.items() if len(benchmarks) > 1 else ():
            own = common[benchmark] if isinstance(common.get(benchmark), dict) else {}
            effective = _agreed([self._effective(task) for task in tasks])
            common[benchmark] = own | {key: value for key, value in effective.items() if common.get(key) != value}
        return common

    def _effective(self, task: str) -> dict[str, Any]:
        """What a task went by, wherever it was set; {} where that was not noted."""
        return self.judging(task).get("settings") or self.results["configs"][task].get("settings") or {}

    def has_noted(self, key: str) -> bool:
        """Whether the run tells what a setting was."""
        return any(key in self._effective(task) for task in self.samples)

    def judging(self, task: str) -> dict[str, Any]:
        """How judging went, or {} where there was none."""
        return self._metadata(task).get("judging") or {}

    def data_revision(self, task: str) -> str | None:
        """The commit of the data that a task read, where it was known."""
        return self._metadata(task).get("data_revision")

    def left_out(self, task: str) -> dict[str, list[str]]:
        """What a task had to leave out of its data, by cause."""
        return self._metadata(task).get("left_out") or self.judging(task).get("left_out") or {}

    def check_task(self, task: str, config: Any) -> None:
        """Refuse a task that takes other answers of a doc, or other parts of them, than the run's task of that name."""
        before = self.results.get("configs", {}).get(task, {})
        for key in ("repeats", "filter_list"):
            now = json.dumps(getattr(config, key), default=handle_non_serializable)
            if key in before and _ADDRESS.sub("", now) != _ADDRESS.sub("", json.dumps(before[key])):
                raise ValueError(
                    f"{task} had another {key} in {self.folder}: name the folder of the run's own YAML file with "
                    "--include_path."
                )

    def _metadata(self, task: str) -> dict[str, Any]:
        return self.results.get("configs", {}).get(task, {}).get("metadata") or {}

    def top_level(self) -> list[str]:
        """The names to ask lm-eval for: the largest groups without tasks of other benchmarks, then single tasks."""
        groups = self.results.get("group_subtasks", {})
        others = self.results.get("configs", {}).keys() - self.samples.keys()
        inside = {child for children in groups.values() for child in children}

        def is_ours(name: str) -> bool:
            return name not in others and all(map(is_ours, groups.get(name, ())))

        def asked(name: str) -> list[str]:
            if is_ours(name):
                return [name] if name in groups or name in self.samples else []
            return [part for child in groups.get(name, ()) for part in asked(child)]

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
    if not path.exists():
        raise ValueError(f"{path} does not exist: name the folder that was given to lm_eval as --output_path.")
    files = [path] if path.is_file() else sorted([*path.glob("*.json"), *path.glob("*/*.json")])
    found = {match[1]: file for file in files if (match := _RESULTS.fullmatch(file.name))}
    results_file = found[max(found)] if found else None
    if results_file is None:
        raise ValueError(f"{path} holds no results of lm_eval: name the folder given to it as --output_path.")
    results, date, folder = _read_json(results_file), max(found), results_file.parent
    judged = [task for task, config in results["configs"].items() if (config.get("metadata") or {}).get("benchmark")]
    files = {task: folder / f"samples_{task}_{date}.jsonl" for task in judged}
    there = {task: file for task, file in files.items() if file.is_file()}
    if not there:
        raise ValueError(
            f"{folder} holds no samples of a judged task from {date}: only a run with --log_samples or "
            "--predict_only can be judged again."
        )
    missing = () if "n-samples" in results else tuple(task for task in files if task not in there)
    run = StoredRun(folder, {task: _read_samples(file) for task, file in there.items()}, results, missing)
    _check_complete(run, files)
    return run


def _read_json(file: Path) -> dict[str, Any]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}).") from None


def _read_samples(file: Path) -> list[dict[str, Any]]:
    samples = []
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                sample = json.loads(line)
                answers, doc = sample["resps"][0], sample["doc"]
            except (ValueError, KeyError, TypeError, IndexError):
                raise ValueError(
                    f"{file}, line {number} is no whole sample; the run cannot be judged again from it."
                ) from None
            if not isinstance(doc, dict) or not isinstance(answers, list) or not answers:
                raise ValueError(f"{file}, line {number} has no doc or no answer.")
            if sample.get("doc_hash", hash := _doc_hash(doc)) != hash:
                raise ValueError(
                    f"{file}, line {number}: the doc does not match its doc_hash; it was changed after the run."
                )
            samples.append(sample)
    samples.sort(key=lambda sample: sample["doc_id"])
    twice = [doc_id for doc_id, count in Counter(sample["doc_id"] for sample in samples).items() if count > 1]
    if twice:
        raise ValueError(
            f"{file} holds doc_id {twice[0]} more than once (with several filters, name one run with one filter)."
        )
    return samples


def _doc_hash(doc: dict[str, Any]) -> str:
    """The hash that lm-eval logs with a sample (lm_eval/evaluator.py)."""
    return hash_string(json.dumps(doc, indent=2, default=handle_non_serializable, ensure_ascii=False))


def _check_complete(run: StoredRun, files: dict[str, Path]) -> None:
    """Refuse a run whose samples are not all there, or not its own."""
    for task, counts in run.results.get("n-samples", {}).items():
        if task not in files:
            continue
        if task not in run.samples:
            raise ValueError(f"{files[task]} is missing, though the results name {task}: docs do not match.")
        logged = len(run.samples[task])
        if logged < counts["effective"] or (logged > counts["original"] and not run.limit):
            raise ValueError(
                f"{files[task]} has {logged} samples, but the results speak of {counts}: docs do not match."
            )
        before = run.judging(task).get("docs")
        if before is not None and before != sum(map(_answers, run.samples[task])):
            raise ValueError(f"{files[task]} has not the {before} answers that were judged: docs do not match.")


def _answers(sample: dict[str, Any]) -> int:
    """How many answers of a sample were judged; several where a task repeats."""
    judged = json.loads(sample["filtered_resps"][0])
    return len(judged) if isinstance(judged, list) else 1


def why_unanswered(sample: dict[str, Any]) -> str | None:
    """Why a sample has no answer: noted with kept answers, and by the model among the logged arguments."""
    options = sample.get("arguments", {}).get("gen_args_0", {}).get("arg_1", {})
    return sample.get("unanswered") or options.get("unanswered")
