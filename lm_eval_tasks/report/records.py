"""The plain data a report is made of: what was read from a run folder, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval_tasks.airbench_chat.scoring import CATEGORY
from lm_eval_tasks.intima.scoring import PROMPTS
from lm_eval_tasks.runs.plain import mapping, number, text
from lm_eval_tasks.runs.reader import Damage
from lm_eval_tasks.settings import BENCHMARKS

__all__ = ["WAITING", "Answer", "Damage", "Estimate", "Run", "mapping", "number", "text"]

CATEGORIES = {
    **{f"air_bench_chat_{task}": category for task, category in CATEGORY.items()},
    **{f"intima_{category}": category for category in PROMPTS},
}
"""Task of lm-eval -> the category in whose numbers it counts. A variant of a task counts in none."""


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
        benchmark: "air_bench_chat" or "intima".
        task: lm_eval's name of the task it was logged under.
        key: names the doc, which is one of a task of lm-eval: the same in every run of that task on the same data.
        doc: the doc as logged.
        prediction: the model's answer; the first one where the task repeats.
        record: the judgement record ({} where the run did not judge); where the task repeats, the mean of the judged
            ones, as lm-eval's metrics have it.
        predictions, records: all answers and their judgements where the task repeats; else of one each, or none.
    """

    benchmark: str
    task: str
    key: str
    doc: dict[str, Any]
    prediction: str
    record: dict[str, Any]
    predictions: tuple[str, ...] = ()
    records: tuple[dict[str, Any], ...] = ()

    @property
    def category(self) -> str:
        """The category in whose numbers it counts; "" for a variant of a task, and for codes outside the paper."""
        return CATEGORIES.get(self.task, "")

    @property
    def finish_reason(self) -> str:
        """Why the model stopped (``length``: its answer was cut); "" where nobody said."""
        return text(self.record.get("finish_reason"))

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


@dataclass
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
        made_with: what the answers were made with; see ``lm_eval_tasks.runs.made.made_with``.
        judged_again: of answers that were judged again: when, by whom, where they came from, which; else {}.
        counts: task -> lm-eval's ``original`` and ``effective`` numbers of docs.
        answers: benchmark -> logged samples.
        damaged: unusable lines.
        notes: what a reader must know about how the run was read.
        threshold_flags: INTIMA metric values (0 or 1) by doc key, as logged.
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
    threshold_flags: dict[str, dict[str, float]] = field(default_factory=dict)
    benchmarks: dict[str, str] = field(default_factory=dict)
    made_with: dict[str, Any] = field(default_factory=dict)
    judged_again: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, dict[str, Any]] = field(default_factory=dict)
    scoring: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def written(self) -> str:
        """When the results were written, to the second."""
        day, _, time = self.date.partition("T")
        return f"{day} {time[:8].replace('-', ':')}"

    def estimate(self, task: str, metric: str) -> Estimate:
        """Returns a metric of a task or group as lm_eval's results file has it."""
        row = self.results.get(task)
        if row is None and self.waits(self._benchmark_of(task)):
            return Estimate(None, None, WAITING)
        if row is None:
            return Estimate(None, None, "not in this run's results: its tasks were not run, or had no judged docs")
        for key, value in row.items():
            name, _, source = key.partition(",")
            if name != metric:
                continue
            point, error = number(value), number(row.get(f"{metric}_stderr,{source}"))
            if point is None:
                return Estimate(None, None, "lm_eval's results hold no number here")
            reason = (
                "" if error is not None else "lm_eval's results hold no standard error here (a single doc has none)"
            )
            return Estimate(point, error, reason, self.judged_docs(task))
        waits = self.waits(self._benchmark_of(task))
        return Estimate(None, None, WAITING if waits else "lm_eval's results hold no number here")

    def _benchmark_of(self, name: str) -> str:
        """The benchmark of a task or group; groups, which store no settings, have it in their names."""
        return self.benchmarks.get(name) or next((b for b in BENCHMARKS if name.startswith(b)), "air_bench_chat")

    def judged_docs(self, task: str) -> int | None:
        """Returns how many docs of a task were judged, where its summary says so."""
        count = number(self.judging.get(task, {}).get("judged"))
        return None if count is None else int(count)

    def tasks(self, benchmark: str) -> list[str]:
        """Returns the tasks of a benchmark, variants as well, in the results' order."""
        return [name for name, its in self.benchmarks.items() if its == benchmark]

    def variants(self, benchmark: str) -> list[str]:
        """Returns the tasks of a benchmark that count in none of its categories: rows of their own."""
        return [name for name in self.tasks(benchmark) if name not in CATEGORIES]

    def has(self, benchmark: str) -> bool:
        """Whether the run holds anything of a benchmark."""
        return bool(self.tasks(benchmark))

    def waits(self, benchmark: str) -> bool:
        """Whether the answers of a benchmark are there and nothing was judged, as after --predict_only."""
        rows = [self.results.get(name, {}) for name in self.tasks(benchmark)]
        names = [key for row in rows for key, value in row.items() if "," in key and number(value) is not None]
        scored = any(not key.startswith("bypass") for key in names)
        return self.has(benchmark) and not scored and not any(map(self.judging.get, self.tasks(benchmark)))

    def judged_at_all(self, benchmark: str) -> bool:
        """Whether the run holds a benchmark, judged."""
        return self.has(benchmark) and not self.waits(benchmark)

    def judges(self, benchmark: str) -> tuple[list[str], list[str]]:
        """Returns the judges that were asked for, and the names of the models that answered."""
        asked: dict[str, None] = {}
        answered: dict[str, None] = {}
        for task in self.tasks(benchmark):
            summary = self.judging.get(task, {})
            name = text(mapping(summary.get("settings")).get("judge_model"))
            if name:
                asked[name] = None
            answered.update(dict.fromkeys(map(text, mapping(summary.get("judge_answered")))))
        return list(asked), list(answered)
