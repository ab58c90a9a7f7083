"""AIR-Bench Foundation's tasks and groups: questions of choices, scored by reading a letter."""

from __future__ import annotations

import hashlib
import json
import logging
from typing import Any

from lm_eval.api.instance import Instance

from lm_eval_tasks.air_bench_foundation import scoring
from lm_eval_tasks.air_bench_foundation.data import FOUNDATION
from lm_eval_tasks.data.records import Loaded
from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.audio_task import AudioTask
from lm_eval_tasks.harness.groups import ScoreGroup
from lm_eval_tasks.harness.ranks import over_ranks
from lm_eval_tasks.harness.requests import texts_left, why_no_text
from lm_eval_tasks.runs.answers import finish_reason

log = logging.getLogger(f"lm_eval.{__name__}")

SIZE = (
    "AIR-Bench Foundation: what is not here yet is fetched now. All 19 tasks are most of the hub's 49 GB; tasks=... "
    "asks for some of them, and `lm-eval-tasks fetch air_bench_foundation --tasks ...` says how much they are."
)


class FoundationTask(AudioTask):
    """One of the 19 tasks. It has no judge: two rules read a letter from each answer (``scoring``)."""

    BENCHMARK, TRACK = FOUNDATION.name, FOUNDATION
    SHAPING = ("prompt_form", *AudioTask.SHAPING)

    def load_docs(self) -> Loaded:
        """The records with usable clips; ``choices`` holds what is printed, ``answer`` the right letter."""
        loaded = super().load_docs()
        absent = dict.fromkeys(scoring.LETTERS, "None") if self.settings.prompt_form == "official" else {}
        for doc in loaded.docs:
            doc["choices"], doc["answer"] = absent | scoring.choices_of(doc), scoring.right_letter(doc)
        return loaded

    def score_answers(self) -> None:
        """Read the letters; what was read takes the place of the filtered answers."""
        records = []
        for instance in self.instances:
            for name, left in instance.filtered_resps.items():
                found = [self._read(instance, n, a) for n, a in enumerate(texts_left(left, len(instance.resps)))]
                instance.filtered_resps[name] = json.dumps(found[0] if len(found) == 1 else found, ensure_ascii=False)
                records += found
        self._conclude(records)

    def settings_in_results(self) -> dict[str, Any]:
        """The prompt's version as well: its form, and a hash of the YAML's template."""
        digest = hashlib.sha256(str(self.config.doc_to_text).encode()).hexdigest()[:8]
        return {"prompt_version": f"{self.settings.prompt_form}-{digest}"} | super().settings_in_results()

    def _read(self, instance: Instance, repeat: int, answer: Any) -> dict[str, Any]:
        text = answer if isinstance(answer, str) else ""
        record = scoring.reading(instance.doc, text, why_no_text(instance, repeat, answer))
        return {"benchmark": self.BENCHMARK, **record, "finish_reason": finish_reason(instance, repeat)}

    def _conclude(self, records: list[dict[str, Any]]) -> None:
        """Say how the answers were read, and put it where lm-eval writes it into the results file."""
        counts = over_ranks(scoring.summary(records), self.ranks)
        self.end(counts["docs"], counts["scored"])
        summary = self.summary(chance=scoring.TASKS[self.config.dataset_name].chance, **counts)
        cut = summary["answers"]["cut"]
        self.note(scoring=summary | {"cut": cut})
        text = "%s: %d of %d answers scored; %d have no letter and count as wrong; %d were cut"
        log.info(text, self.task_name, counts["scored"], counts["docs"], counts["no_letter"], cut)
        if counts["unanswered"]:
            told = "; ".join(f"{reason}: {count}" for reason, count in counts["unanswered"].items())
            log.warning("%s: UNANSWERED docs are in no number: %s", self.task_name, told)
        if counts["scored"] and counts["no_letter"] > counts["scored"] / 10:
            text = "%s: %d of %d answers name no letter; the logged samples show them (is max_gen_toks large enough?)"
            log.warning(text, self.task_name, counts["no_letter"], counts["scored"])


class FoundationGroup(ScoreGroup):
    """A category or the whole track."""

    BENCHMARK, TRACK, FILTER = FOUNDATION.name, FOUNDATION, "none"

    def _build(self, config: dict[str, Any]) -> None:
        if self.settings.local_path is None:
            compat.warning_once(log, SIZE)
        super()._build(config)
