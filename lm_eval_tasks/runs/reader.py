"""The one reader of what lm-eval wrote: a results file and the samples that were logged with it.

Everything read is untrusted: types are checked here, and what cannot be used is named, never skipped in silence.
``rejudge`` refuses a run with such a line; the report counts it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval_tasks.files import open_regular
from lm_eval_tasks.runs.plain import from_json, mapping, text
from lm_eval_tasks.settings import BENCHMARKS

# lm-eval names its files results_<date>.json (NAME_<date>.json for --output_path NAME.json) and
# samples_<task>_<date>.jsonl, the date in ISO form with "-" for ":". Kept answers have a process number behind it.
_RESULTS = re.compile(r".+_(\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(?:\.\d+)*)\.json")


@dataclass(frozen=True)
class Damage:
    """A line of a samples file that could not be used, or (line 0) the whole file."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


@dataclass(frozen=True)
class Sample:
    """One logged line: a doc, the answers to it, and what was judged of them.

    Attributes:
        task: lm-eval's name of the task.
        benchmark: one of ``settings.BENCHMARKS``, by the task's own metadata.
        line: of the file, from 1.
        judged: whether the task was judged, or scored without a judge. Else the place of the judgements holds the
            model's own words, which may look like one.
        doc: the doc as logged.
        logged: the whole line.
    """

    task: str
    benchmark: str
    line: int
    judged: bool
    doc: dict[str, Any]
    logged: dict[str, Any]

    @property
    def answers(self) -> tuple[str, ...]:
        """As the model gave them to the first request, which is the only one; several where the task repeats."""
        resps = self.logged.get("resps")
        first = resps[0] if isinstance(resps, list) and resps else []
        return tuple(map(text, first)) if isinstance(first, list) else (text(first),)

    @property
    def records(self) -> tuple[dict[str, Any], ...]:
        """The judgement of each answer; empty where the run did not judge."""
        return _records(self.logged.get("filtered_resps"), self.benchmark) if self.judged else ()

    @property
    def uniq_id(self) -> str:
        """What names the doc inside its task."""
        return text(self.doc.get("uniq_id", self.doc.get("id")))


@dataclass
class Files:
    """A run as lm-eval wrote it.

    Attributes:
        results_file: the file that was read.
        date: when it was written, as in its name.
        results: its content.
        older: other results in the same place, newest first.
        benchmarks: task -> benchmark, of the tasks of this package.
        samples_files: task -> the file of its samples, where there is one.
        foreign: the other tasks that have samples.
    """

    results_file: Path
    date: str
    results: dict[str, Any]
    older: list[Path]
    benchmarks: dict[str, str]
    samples_files: dict[str, Path] = field(default_factory=dict)
    foreign: dict[str, Path] = field(default_factory=dict)

    def config(self, task: str) -> dict[str, Any]:
        """A task's configuration as it was stored; {} where there is none."""
        return mapping(mapping(self.results.get("configs")).get(task))

    def metadata(self, task: str) -> dict[str, Any]:
        """What was set for a task, and what was noted of it."""
        return mapping(self.config(task).get("metadata"))

    def judging(self, task: str) -> dict[str, Any]:
        """How judging went, or {} where there was none."""
        return mapping(self.metadata(task).get("judging"))

    def scoring(self, task: str) -> dict[str, Any]:
        """How the answers of a task without a judge were scored; {} for any other."""
        return mapping(self.metadata(task).get("scoring"))

    def samples(self, task: str) -> Iterator[Sample | Damage]:
        """The logged samples of a task, in the order of the file."""
        file = self.samples_files[task]
        for line, found in lines(file):
            yield found if isinstance(found, Damage) else self._sample(task, file, line, found)

    def _sample(self, task: str, file: Path, line: int, logged: dict[str, Any]) -> Sample | Damage:
        doc = logged.get("doc")
        if not isinstance(doc, dict):
            return Damage(file.name, line, "it has no doc")
        return Sample(task, self.benchmarks[task], line, bool(self.judging(task) or self.scoring(task)), doc, logged)


def read(where: str | Path) -> Files:
    """Read a folder (the newest results in it or in a folder below) or a results file.

    Raises:
        ValueError: there is no such thing or it is damaged; the message says what to name.
    """
    path = Path(where).expanduser()
    file, date, older = _newest(path)
    results = read_results(file)
    benchmarks = {
        text(task): benchmark
        for task, config in mapping(results.get("configs")).items()
        if (benchmark := benchmark_of(mapping(config)))
    }
    found = Files(file, date, results, older, benchmarks)
    pattern = re.compile(rf"samples_(.+)_{re.escape(date)}\.jsonl")
    for other in sorted(file.parent.iterdir()):
        if match := pattern.fullmatch(other.name):
            (found.samples_files if match[1] in benchmarks else found.foreign)[match[1]] = other
    return found


def benchmark_of(config: dict[str, Any]) -> str | None:
    """Which benchmark a task belongs to, by its stored configuration alone; None for one of other kinds."""
    metadata = mapping(config.get("metadata"))
    name = metadata.get("benchmark") or mapping(metadata.get("judging")).get("benchmark")
    return name if name in BENCHMARKS else None


def read_results(file: Path) -> dict[str, Any]:
    """The content of a results file.

    Raises:
        ValueError: it is damaged or something else.
    """
    try:
        with open_regular(file) as stream:
            results = from_json(stream.read())
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise ValueError(f"{file} is damaged ({said}).") from None
    if not isinstance(results, dict) or not isinstance(results.get("results", results.get("configs")), dict):
        raise ValueError(f'{file} is not a results file of lm_eval (it has no "results"): name another folder.')
    return results


def lines(file: Path) -> Iterator[tuple[int, dict[str, Any] | Damage]]:
    """Number and content of each line that is not empty."""
    try:
        stream = io.BufferedReader(open_regular(file))
    except OSError as error:
        yield 0, Damage(file.name, 0, str(error.strerror))
        return
    with stream:
        for line, raw in enumerate(stream, 1):
            if not raw.strip():
                continue
            try:
                found = from_json(raw)
            except UnicodeDecodeError:
                yield line, Damage(file.name, line, "not UTF-8")
            except ValueError:
                yield line, Damage(file.name, line, "not a whole JSON object")
            else:
                yield line, found if isinstance(found, dict) else Damage(file.name, line, "not a JSON object")


def results_in(folder: Path) -> dict[Path, str]:
    """The results files in a folder and in those right below it, with their dates."""
    found = {file: _RESULTS.fullmatch(file.name) for file in (*folder.glob("*.json"), *folder.glob("*/*.json"))}
    return {file: match[1] for file, match in found.items() if match}


def _newest(path: Path) -> tuple[Path, str, list[Path]]:
    if not path.exists():
        raise ValueError(f"{path} does not exist: name the folder that was given to lm_eval as --output_path.")
    if path.is_file():
        match = _RESULTS.fullmatch(path.name)
        if not match:
            raise ValueError(f"{path} is not a results file of lm_eval: name the folder given to it as --output_path.")
        return path, match[1], []
    dates = results_in(path)
    if not dates:
        raise ValueError(
            f"{path} holds no results_*.json of lm_eval: name the folder given to it as --output_path, after the run "
            "ended."
        )
    newest, *older = sorted(dates, key=lambda file: (dates[file], str(file)), reverse=True)
    return newest, dates[newest], older


def _records(filtered: Any, benchmark: str) -> tuple[dict[str, Any], ...]:
    """The judgement records, which lm-eval logs as a JSON string; several where the task repeats."""
    value = filtered[0] if isinstance(filtered, list) and filtered else filtered
    if isinstance(value, str):
        try:
            value = from_json(value)
        except ValueError:
            return ()
    found = [mapping(one) for one in (value if isinstance(value, list) else [value])]
    whole = all(record.get("benchmark") == benchmark and "judged" in record for record in found)
    return tuple(found) if whole else ()
