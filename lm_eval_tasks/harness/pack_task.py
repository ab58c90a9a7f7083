"""What every task of this package has, judged or not: its settings, its docs, and what it notes of them."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from typing import Any

import datasets
from lm_eval.api.task import ConfigurableTask

from lm_eval_tasks.data.records import Loaded
from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.identity import identity_of, sign
from lm_eval_tasks.harness.ranks import JudgedMean, over_ranks
from lm_eval_tasks.harness.repeats import check_filters, check_repeats
from lm_eval_tasks.harness.requests import PackRequest
from lm_eval_tasks.harness.resources import make_room_for
from lm_eval_tasks.runs import alone, ended, provenance
from lm_eval_tasks.runs.answers import storable_answer
from lm_eval_tasks.runs.stored import load_run
from lm_eval_tasks.server import keys
from lm_eval_tasks.settings import read_settings

log = logging.getLogger(f"lm_eval.{__name__}")


class Docs(list):
    """Docs as lm-eval reads a ``Dataset``: by index, in order, and by the names of the columns."""

    @property
    def features(self) -> dict[str, None]:
        return dict.fromkeys(self[0]) if self else {}


class PackTask(ConfigurableTask):
    """A generative task of one benchmark.

    A subclass sets ``BENCHMARK`` and ``SHAPING``, and defines ``load_docs`` and ``score_answers``.

    Attributes:
        SHAPING: the names of the settings that shape the numbers, besides the judge's own.
        settings: the benchmark's.
        ranks: processes over which the docs are spread.
        run_key: identifies this command's model, requests and settings, once the requests are there.
        left_out: what had to be left out of the data (cause -> names).
        replayed: the stored run whose answers are judged again, if any.
        absent: members of the task's group that do not run, and why.
    """

    BENCHMARK: str
    SHAPING: tuple[str, ...]
    settings: Any

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        config = {key: value for key, value in (config or {}).items() if key != "class"}
        self.settings = read_settings(self.BENCHMARK, config.get("metadata"))
        metadata = {**(config.get("metadata") or {}), "benchmark": self.BENCHMARK}  # which tells a run of this package
        keys.know_options(metadata)
        keys.know_variables(getattr(self.settings, "judge_api_key_env", None))
        keys.guard_logs()
        config["metadata"] = keys.masked(metadata)  # which lm-eval writes, with --model_args in it
        self.replayed = config["metadata"].get("replay")
        self.left_out: dict[str, list[str]] = {}
        self.absent: dict[str, str] = {}
        self.ranks = 1
        self.check_settings()
        super().__init__(config=config)

    def check_settings(self) -> None:
        """Refuse settings with which the run could not end; before any data is fetched."""

    def end(self, answers: int = 0, scored: int = 0) -> None:
        """Note how many answers there were and how many count, for the command's exit status."""
        ended.note(self.task_name, answers, scored)
        alone.release(self._lock)

    def load_docs(self) -> Loaded:
        """The docs of the data."""
        raise NotImplementedError

    def metric_names(self) -> list[str]:
        """The metrics that a scored doc has under these settings."""
        return compat.metrics_of(self)

    def note(self, **noted: Any) -> None:
        """Put something beside the settings, which lm-eval writes into the results file."""
        self.config.metadata = {**(self.config.metadata or {}), **noted}

    def settings_in_results(self) -> dict[str, Any]:
        """Everything that shapes the numbers, under the names of the options, and the commit of the data."""
        shaping = {name: getattr(self.settings, name) for name in self.SHAPING}
        return shaping | {"data_revision": self.config.metadata.get("data_revision")}

    def summary(self, **more: Any) -> dict[str, Any]:
        """What the results say of the task's answers, however they are scored, and more."""
        return {
            "benchmark": self.BENCHMARK,
            "settings": self.settings_in_results(),
            **more,
            **self.made_with(),
            "left_out": self.left_out,
            "absent": self.absent,
            "ranks": self.ranks,
        }

    def score_answers(self) -> None:
        """Put what is found of each answer in its place in ``filtered_resps``, and call ``end``."""
        raise NotImplementedError

    # What lm-eval calls

    def download(self, *_: Any, **__: Any) -> None:
        """Build the one split from ``load_docs``, or from the stored run that is judged again."""
        found = load_run(self.replayed).docs_of(self.config) if self.replayed else self.load_docs()
        docs, self.left_out, facts, commit = found
        noted = {"left_out": self.left_out, "data": facts, "data_revision": commit}
        self.note(**{name: value for name, value in noted.items() if value})  # for a run that is judged later, too
        # a list serves lm-eval as well; a Dataset would hold each doc once more, and a further copy from each reading
        self.dataset = {
            self.config.test_split: datasets.Dataset.from_list(docs) if self.config.process_docs else Docs(docs)
        }

    def build_all_requests(self, *, rank: int = 0, world_size: int = 1, **options: Any) -> None:
        """Build the requests, and see that nothing stands in the way of generation, before any answer is paid for.

        Raises:
            ValueError: answers would be thrown away, another process is at the same, or too few files may be open.
        """
        if options.pop("cache_requests", False):  # kept under the task's name: another data set would get this one's
            compat.warning_once(
                log, "cache_requests is ignored by this pack's tasks, whose requests are quick to build."
            )
        if not self.replayed:
            check_repeats(self.config)
        super().build_all_requests(rank=rank, world_size=world_size, **options)
        compat.set_requests(self, [PackRequest(**vars(instance)) for instance in self.instances])
        for request in self.instances[:1]:
            check_filters(compat.filters_of(self), request)
        self.ranks = world_size
        model = compat.model_behind(options)
        self.run_key = self._fingerprint(model)  # before hashes of clips are known, which come when they are sent
        if not self.replayed:
            sign(self.instances, model)
        self._lock = f"{self.run_key} {rank}"
        alone.claim(self._lock, f"{self.task_name} is being run with this very model, data and settings")
        make_room_for(getattr(self.settings, "judge_concurrency", 0) + compat.concurrency(model))

    def apply_filters(self) -> None:
        """Apply the YAML's filters to answers that a file can hold (others would end lm-eval's), and score them."""
        for instance in self.instances:
            instance.resps = [storable_answer(a) if isinstance(a, str) else a for a in instance.resps]
        super().apply_filters()
        if compat.predicts_only(self):
            self.note(made_with=self.made_with())
            self.end()
        else:
            self.score_answers()

    def doc_to_text(self, doc: dict[str, Any], doc_to_text: Any = None) -> Any:
        """As lm-eval has it, but a template is compiled once; for each doc that would take a third of a millisecond."""
        template = self.config.doc_to_text if doc_to_text is None else doc_to_text
        plain = not self.prompt and self.config.doc_to_choice is None
        if plain and isinstance(template, str) and "{{" in template and template not in self.features:
            return compat.template(template).render(**doc)
        return super().doc_to_text(doc, doc_to_text)

    def process_results(self, doc: dict[str, Any], results: list[Any]) -> dict[str, Any]:
        """The doc's metrics; none where it does not count.

        With several ranks lm-eval gathers only metrics that every rank has. There a doc has NaN for each metric that
        it has not, which ``JudgedMean`` takes out again.
        """
        metrics = super().process_results(doc, results)
        if self.ranks == 1 or compat.predicts_only(self):
            return metrics
        return dict.fromkeys(self.metric_names(), math.nan) | metrics

    def aggregation(self) -> dict[str, Any]:
        """The YAML's aggregations; with several ranks the mean skips what ``process_results`` marked as not scored."""
        functions = super().aggregation()
        if self.ranks == 1:
            return functions
        return {name: JudgedMean() if function is compat.mean else function for name, function in functions.items()}

    def made_with(self) -> dict[str, Any]:
        """How the answers of all ranks ended, and the process that asked for them."""
        answers = over_ranks(provenance.of_answers(self.instances), self.ranks)
        return {"answers": answers, "process": provenance.of_process()}

    def _fingerprint(self, model: Any) -> str:
        metadata = json.dumps(self.config.metadata, sort_keys=True, default=str)
        shape = [json.dumps(identity_of(model), sort_keys=True)]  # in Python the metadata may not tell the model
        shape += [self.BENCHMARK, self.settings.model_dump_json(), str(self.settings_in_results()), metadata]
        shape += [str(tuple(instance.args[:2])) for instance in self.instances]
        return hashlib.sha256("\n".join(shape).encode()).hexdigest()
