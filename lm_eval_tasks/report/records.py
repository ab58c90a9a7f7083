"""The plain data a report is made of: what was read from a run folder, before anything is drawn."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from lm_eval_tasks.report import facts
from lm_eval_tasks.runs.plain import mapping, number, text
from lm_eval_tasks.runs.reader import Damage, Files
from lm_eval_tasks.settings import BENCHMARKS

WAITING = "not judged yet"


@dataclass(frozen=True)
class Estimate:
    """A value over `n` docs and its standard error, each of which may be missing for a stated reason."""

    value: float | None
    stderr: float | None = None
    reason: str = ""
    n: int | None = None


@dataclass(frozen=True)
class Answer:
    """One logged sample: the doc, the model's answer and the judgement of it.

    Attributes:
        key: names the doc, which is one of a task of lm-eval: the same in every run of that task on the same data.
        prediction: the model's answer; the first one where the task repeats.
        record: the judgement record ({} where the run did not judge); where the task repeats, the mean of the judged
            ones, as lm-eval's metrics have it.
        metrics: what lm-eval logged for the doc; of INTIMA each class, trait and label as 0 or 1.
        predictions: all answers, which are several where the task repeats.
    """

    benchmark: str
    task: str
    key: str
    doc: dict[str, Any]
    prediction: str
    record: dict[str, Any]
    metrics: dict[str, float] = field(default_factory=dict)
    predictions: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether the judgement counts in the scores."""
        return self.record.get("judged") is True

    @property
    def reason(self) -> str:
        """Why there is no judgement ("" where there is one)."""
        return "" if self.judged else text(self.record.get("reason")) or "no judgement was logged"

    @property
    def score(self) -> float | None:
        """AIR-Bench-Chat: the prediction's score, 1 to 10."""
        return number(self.record.get("prediction_score")) if self.judged else None

    @property
    def reference_score(self) -> float | None:
        """AIR-Bench-Chat: the reference's score, 1 to 10."""
        return number(self.record.get("reference_score")) if self.judged else None

    def value(self, metric: str) -> float | None:
        """A metric of the doc: AIR-Bench-Chat's score is that of the record, all others are as lm-eval logged them."""
        return self.score if metric == "gpt_score" else self.metrics.get(metric)

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
        place: the folder or file that was named to read the run.
        files: the results file and what belongs to it.
        results: lm_eval's rows, task or group -> metric -> value.
        limit: what `--limit` said, or None.
        summaries: task -> what the pack noted of how its answers were judged, or scored without a judge.
        answers: benchmark -> logged samples.
        damaged: unusable lines.
        notes: what a reader must know about how the run was read.
    """

    label: str
    model: str
    place: str
    files: Files
    results: dict[str, dict[str, Any]]
    limit: Any
    summaries: dict[str, dict[str, Any]]
    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    damaged: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def written(self) -> str:
        """When the results were written, to the second."""
        day, _, time = self.files.date.partition("T")
        return f"{day} {time[:8].replace('-', ':')}"

    def estimate(self, task: str, metric: str) -> Estimate:
        """A metric of a task or group as lm_eval's results file has it."""
        row = self.results.get(task, {})
        key = next((key for key in row if key.partition(",")[0] == metric), "")
        value = number(row.get(key))
        if value is not None:
            error = number(row.get(key.replace(metric, f"{metric}_stderr", 1)))
            missing = "lm_eval's results hold no standard error here (a single doc has none)"
            return Estimate(value, error, missing if error is None else "", self.judged_docs(task))
        if not key and self.waits(self._benchmark_of(task)):
            return Estimate(None, reason=WAITING)
        if task in self.results:
            return Estimate(None, reason="lm_eval's results hold no number here")
        return Estimate(None, reason="not in this run's results: its tasks were not run, or had no judged docs")

    def _benchmark_of(self, name: str) -> str:
        """The benchmark of a task or group; groups, which store no settings, have it in their names."""
        return self.files.benchmarks.get(name) or next((b for b in BENCHMARKS if name.startswith(b)), facts.AIR)

    def judged_docs(self, task: str) -> int | None:
        """How many docs of a task were judged, where its summary says so."""
        count = number(self.summaries.get(task, {}).get("judged"))
        return None if count is None else int(count)

    def tasks(self, benchmark: str) -> list[str]:
        """The tasks of a benchmark, variants as well, in the results' order."""
        return [name for name, its in self.files.benchmarks.items() if its == benchmark]

    def judged_in(self, group: str) -> list[Answer]:
        """The judged answers that count in a row: of a task, or of the tasks of a group."""
        answers = self.answers[self._benchmark_of(group)]
        return [a for a in answers if a.judged and group in (a.task, *facts.GROUPS.get(a.task, ()))]

    def has(self, benchmark: str) -> bool:
        """Whether the run holds anything of a benchmark."""
        return benchmark in self.files.benchmarks.values()

    def waits(self, benchmark: str) -> bool:
        """Whether the answers of a benchmark are there and nothing was judged, as after --predict_only."""
        rows = [self.results.get(name, {}) for name in self.tasks(benchmark)]
        names = [key for row in rows for key, value in row.items() if "," in key and number(value) is not None]
        scored = any(not key.startswith("bypass") for key in names)
        return self.has(benchmark) and not scored and not any(map(self.summaries.get, self.tasks(benchmark)))

    def judged_at_all(self, benchmark: str) -> bool:
        """Whether the run holds a benchmark, judged."""
        return self.has(benchmark) and not self.waits(benchmark)

    def judges(self, benchmark: str) -> tuple[list[str], list[str]]:
        """The judges that were asked for, and the names of the models that answered."""
        summaries = [self.summaries[task] for task in self.tasks(benchmark)]
        asked = dict.fromkeys(text(mapping(summary.get("settings")).get("judge_model")) for summary in summaries)
        answered = dict.fromkeys(text(name) for summary in summaries for name in mapping(summary.get("judge_answered")))
        return list(filter(None, asked)), list(answered)
