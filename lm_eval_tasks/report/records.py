"""The plain data a report is made of: what was read from a run folder, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval_tasks.report import facts
from lm_eval_tasks.runs.plain import mapping, number, text
from lm_eval_tasks.runs.reader import Damage
from lm_eval_tasks.settings import BENCHMARKS

__all__ = ["WAITING", "Answer", "Damage", "Estimate", "Run", "mapping", "number", "text"]

WAITING = "not judged yet"


@dataclass(frozen=True)
class Estimate:
    """A value and its standard error, each of which may be missing for a stated reason.

    Attributes:
        value: the point estimate, or None.
        stderr: its standard error, or None.
        reason: why one of them is missing ("" where both are there).
        n: number of docs behind it, where known.
    """

    value: float | None
    stderr: float | None = None
    reason: str = ""
    n: int | None = None


@dataclass(frozen=True)
class Answer:
    """One logged sample: the doc, the model's answer and the judgement of it.

    Attributes:
        benchmark: "air_bench_chat", "intima" or "air_bench_foundation".
        task: lm_eval's name of the task it was logged under.
        key: names the doc, which is one of a task of lm-eval: the same in every run of that task on the same data.
        doc: the doc as logged.
        prediction: the model's answer; the first one where the task repeats.
        record: the judgement record ({} where the run did not judge); where the task repeats, the mean of the judged
            ones, as lm-eval's metrics have it.
        metrics: what lm-eval logged for the doc; of INTIMA each class, trait and label as 0 or 1.
        predictions, records: all answers and their judgements where the task repeats; else of one each, or none.
    """

    benchmark: str
    task: str
    key: str
    doc: dict[str, Any]
    prediction: str
    record: dict[str, Any]
    metrics: dict[str, float] = field(default_factory=dict)
    predictions: tuple[str, ...] = ()
    records: tuple[dict[str, Any], ...] = ()

    @property
    def judged(self) -> bool:
        """Whether the judgement counts in the scores."""
        return self.record.get("judged") is True

    @property
    def reason(self) -> str:
        """Why there is no judgement ("" where there is one)."""
        if self.judged:
            return ""
        return text(self.record.get("reason")) or "no judgement was logged"

    @property
    def score(self) -> float | None:
        """AIR-Bench-Chat: the prediction's score, 1 to 10."""
        return number(self.record.get("prediction_score")) if self.judged else None

    @property
    def reference_score(self) -> float | None:
        """AIR-Bench-Chat: the reference's score, 1 to 10."""
        return number(self.record.get("reference_score")) if self.judged else None

    @property
    def levels(self) -> dict[str, str]:
        """INTIMA: level of each class and trait."""
        levels = mapping(self.record.get("levels")) if self.judged else {}
        return {text(name): text(level) for name, level in levels.items()}


@dataclass(eq=False)
class Run:
    """One finished run of lm_eval, as read from its folder.

    Attributes:
        label: short name, unique in the report.
        model: lm_eval's name of the model.
        date: when the results were written, as in the file's name.
        place: the folder or file that was named to read the run.
        results_file: the file all scores come from.
        results: lm_eval's rows, task or group -> metric -> value.
        judging: task -> the judging summary that the pack stores in the task's configuration.
        scoring: task without a judge -> how its answers were scored, as stored in the task's configuration.
        limit: what `--limit` said, or None.
        benchmarks: task -> benchmark, of the tasks of this package.
        answers: benchmark -> logged samples.
        damaged: unusable lines.
        notes: what a reader must know about how the run was read.
        content: of the results file, whole.
    """

    label: str
    model: str
    date: str
    results_file: Path
    results: dict[str, dict[str, Any]]
    judging: dict[str, dict[str, Any]]
    limit: Any = None
    place: str = ""
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    damaged: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    benchmarks: dict[str, str] = field(default_factory=dict)
    scoring: dict[str, dict[str, Any]] = field(default_factory=dict)
    content: dict[str, Any] = field(default_factory=dict)

    @property
    def written(self) -> str:
        """When the results were written, to the second."""
        day, _, time = self.date.partition("T")
        return f"{day} {time[:8].replace('-', ':')}"

    def estimate(self, task: str, metric: str) -> Estimate:
        """Returns a metric of a task or group as lm_eval's results file has it."""
        row = self.results.get(task)
        key = next((key for key in row or {} if key.partition(",")[0] == metric), "")
        point = number(row[key]) if row and key else None
        if row and point is not None:
            error = number(row.get(key.replace(metric, f"{metric}_stderr", 1)))
            missing = "lm_eval's results hold no standard error here (a single doc has none)"
            return Estimate(point, error, missing if error is None else "", self.judged_docs(task))
        if not key and self.waits(self._benchmark_of(task)):
            return Estimate(None, None, WAITING)
        if row is None:
            return Estimate(None, None, "not in this run's results: its tasks were not run, or had no judged docs")
        return Estimate(None, None, "lm_eval's results hold no number here")

    def _benchmark_of(self, name: str) -> str:
        """The benchmark of a task or group; groups, which store no settings, have it in their names."""
        return self.benchmarks.get(name) or next((b for b in BENCHMARKS if name.startswith(b)), "air_bench_chat")

    def summary(self, task: str) -> dict[str, Any]:
        """What a task noted of how its answers were judged, or scored without a judge; {} where it noted nothing."""
        return self.judging.get(task) or self.scoring.get(task) or {}

    def judged_docs(self, task: str) -> int | None:
        """Returns how many docs of a task were judged, where its summary says so."""
        count = number(self.judging.get(task, {}).get("judged"))
        return None if count is None else int(count)

    def tasks(self, benchmark: str) -> list[str]:
        """Returns the tasks of a benchmark, variants as well, in the results' order."""
        return [name for name, its in self.benchmarks.items() if its == benchmark]

    def judged_in(self, group: str) -> list[Answer]:
        """Returns the judged answers that count in a row: of a task, or of the tasks of a group."""
        answers = self.answers.get(self._benchmark_of(group), [])
        return [a for a in answers if a.judged and group in (a.task, *facts.GROUPS.get(a.task, ()))]

    def has(self, benchmark: str) -> bool:
        """Whether the run holds anything of a benchmark."""
        return bool(self.tasks(benchmark))

    def waits(self, benchmark: str) -> bool:
        """Whether the answers of a benchmark are there and nothing was judged, as after --predict_only."""
        rows = [self.results.get(name, {}) for name in self.tasks(benchmark)]
        names = [key for row in rows for key, value in row.items() if "," in key and number(value) is not None]
        scored = any(not key.startswith("bypass") for key in names)
        return self.has(benchmark) and not scored and not any(map(self.summary, self.tasks(benchmark)))

    def judged_at_all(self, benchmark: str) -> bool:
        """Whether the run holds a benchmark, judged."""
        return self.has(benchmark) and not self.waits(benchmark)

    def judges(self, benchmark: str) -> tuple[list[str], list[str]]:
        """Returns the judges that were asked for, and the names of the models that answered."""
        summaries = [self.judging.get(task, {}) for task in self.tasks(benchmark)]
        asked = dict.fromkeys(text(mapping(summary.get("settings")).get("judge_model")) for summary in summaries)
        answered = dict.fromkeys(text(name) for summary in summaries for name in mapping(summary.get("judge_answered")))
        return list(filter(None, asked)), list(answered)
