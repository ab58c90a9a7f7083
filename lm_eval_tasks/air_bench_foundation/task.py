"""AIR-Bench Foundation as a task of lm-eval: questions of choices, scored by reading a letter."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from lm_eval.api.instance import Instance

from lm_eval_tasks.air_bench_foundation import scoring
from lm_eval_tasks.air_bench_foundation.data import FOUNDATION, SAMPLE
from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.audio_task import AudioTask
from lm_eval_tasks.harness.identity import identity_of, sign
from lm_eval_tasks.harness.ranks import over_ranks
from lm_eval_tasks.harness.repeats import check_repeats
from lm_eval_tasks.runs.answers import finish_reason, why_missing

log = logging.getLogger(f"lm_eval.{__name__}")


@dataclass
class Request(Instance):
    """A request that the pack's own model may leave unanswered."""

    may_stay_unanswered: ClassVar[bool] = True


class FoundationTask(AudioTask):
    """One of the 19 tasks. It has no judge: two rules read a letter from each answer (``scoring``)."""

    BENCHMARK = "air_bench_foundation"
    TRACK, SAMPLE, CATEGORY = FOUNDATION, SAMPLE, scoring.CATEGORY

    def load_docs(self) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
        """The records with usable clips; ``choices`` holds what is printed, ``answer`` the right letter."""
        docs, left_out = super().load_docs()
        absent = dict.fromkeys(scoring.LETTERS, "None") if self.settings.prompt_form == "official" else {}
        for doc in docs:
            doc["choices"], doc["answer"] = absent | scoring.choices_of(doc), scoring.right_letter(doc)
        return docs, left_out

    def build_all_requests(self, *, rank: int = 0, world_size: int = 1, **options: Any) -> None:
        """Build them; nothing else has to be tried before generation."""
        if options.pop("cache_requests", False):  # kept under the task's name: another data set would get this one's
            compat.warning_once(
                log, "cache_requests is ignored by AIR-Bench's tasks, whose requests are quick to build."
            )
        check_repeats(self.config)
        super().build_all_requests(rank=rank, world_size=world_size, **options)
        compat.set_requests(self, [Request(**vars(instance)) for instance in self.instances])
        model = compat.model_behind(options)
        self._ranks = world_size
        same = hashlib.sha256(json.dumps(self.config.metadata, sort_keys=True, default=str).encode())
        same.update(json.dumps(identity_of(model), sort_keys=True).encode())
        for instance in self.instances:
            same.update(str(tuple(instance.args[:2])).encode())
        sign(self.instances, model)  # after that: hashes of clips may not be known before they are sent
        self.begin(f"{self.BENCHMARK} {same.hexdigest()}", rank, compat.concurrency(model))

    def apply_filters(self) -> None:
        """Apply the YAML's filters, then read the letters; what was read takes the place of the filtered answers."""
        super().apply_filters()
        if self._predicts_only():
            self.note(made_with=self._made_with())
            self.end()
            return
        records = []
        for instance in self.instances:
            for name, answers in instance.filtered_resps.items():
                found = [self._read(instance, n, a) for n, a in enumerate(_as_list(answers))]
                instance.filtered_resps[name] = json.dumps(found[0] if len(found) == 1 else found, ensure_ascii=False)
                records += found
        self._conclude(records)

    def process_results(self, doc: dict[str, Any], results: list[Any]) -> dict[str, Any]:
        """The doc's metrics; with several ranks NaN for what it has not, since all ranks must have every metric."""
        metrics = super().process_results(doc, results)
        if self._ranks == 1 or self._predicts_only():
            return metrics
        return dict.fromkeys(self.metric_names(), math.nan) | metrics

    def settings_in_results(self) -> dict[str, Any]:
        """Everything that shapes the numbers, under the names of the options."""
        prompt = {"prompt_form": self.settings.prompt_form, "prompt_version": self.prompt_version()}
        return prompt | self.data_settings()

    def prompt_version(self) -> str:
        """The form, and a hash of the YAML's template: another wording has another."""
        digest = hashlib.sha256(str(self.config.doc_to_text).encode()).hexdigest()[:8]
        return f"{self.settings.prompt_form}-{digest}"

    def _read(self, instance: Instance, repeat: int, answer: Any) -> dict[str, Any]:
        record = scoring.reading(instance.doc, answer or "", why_missing(instance, repeat))
        return {"benchmark": self.BENCHMARK, **record, "finish_reason": finish_reason(instance, repeat)}

    def _conclude(self, records: list[dict[str, Any]]) -> None:
        """Say how the answers were read, and put it where lm-eval writes it into the results file."""
        counts = over_ranks(scoring.summary(records), self._ranks)
        self.end(counts["docs"], counts["scored"])
        made_with = self._made_with()
        self.note(
            scoring={
                "benchmark": self.BENCHMARK,
                "settings": self.settings_in_results(),
                "chance": scoring.TASKS[self.config.dataset_name].chance,
                **counts,
                "cut": made_with["answers"]["cut"],
                **made_with,
                "left_out": self.left_out,
                "absent": self.absent,
                "ranks": self._ranks,
            }
        )
        text = "%s: %d of %d answers scored; %d have no letter and count as wrong; %d were cut"
        log.info(
            text, self.task_name, counts["scored"], counts["docs"], counts["no_letter"], made_with["answers"]["cut"]
        )
        if counts["unanswered"]:
            told = "; ".join(f"{reason}: {count}" for reason, count in counts["unanswered"].items())
            log.warning("%s: UNANSWERED docs are excluded from every score: %s", self.task_name, told)
        if counts["scored"] and counts["no_letter"] > counts["scored"] / 10:
            text = "%s: %d of %d answers name no letter; the logged samples show them (is max_gen_toks large enough?)"
            log.warning(text, self.task_name, counts["no_letter"], counts["scored"])


def _as_list(answers: Any) -> list[Any]:
    return answers if isinstance(answers, list) else [answers]
