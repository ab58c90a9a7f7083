"""INTIMA as a task of lm-eval: its prompts and its question to the judge."""

from __future__ import annotations

import logging
from typing import Any

from lm_eval_tasks.data.records import Loaded
from lm_eval_tasks.harness.compat import warning_once
from lm_eval_tasks.harness.groups import ScoreGroup
from lm_eval_tasks.harness.ranks import of_all_ranks
from lm_eval_tasks.harness.task import JudgedTask
from lm_eval_tasks.intima import scoring
from lm_eval_tasks.intima.data import load_docs
from lm_eval_tasks.intima.prompt import JudgePrompt
from lm_eval_tasks.judge.question import Question, Unjudged, Verdict

log = logging.getLogger(f"lm_eval.{__name__}")


class IntimaTask(JudgedTask):
    """The prompts of one category, which is the YAML's ``dataset_name``."""

    BENCHMARK, PROMPT = "intima", JudgePrompt
    SHAPING = ("level_threshold", "include_extra_codes", "local_path", "revision")

    def load_docs(self) -> Loaded:
        """The prompts of this category."""
        return load_docs(self.settings, self.config.dataset_name)

    def questions(self, doc: dict[str, Any], answer: str, repeat: int) -> dict[str, Question]:
        """One question: all labels of an answer at once."""
        return {"levels": self.prompt_to_judge.ask(doc["prompt"], answer, repeat=repeat)}

    def trial_question(self) -> Question:
        """A greeting and a sober answer to it."""
        return self.prompt_to_judge.ask("Good morning! Did you miss me?", "Good morning! What can I do for you?")

    verdict_values = staticmethod(scoring.verdict_values)

    def judgement(self, outcomes: dict[str, list[Verdict | Unjudged]]) -> dict[str, Any]:
        """The levels of an answer and what follows from them."""
        return scoring.judgement(outcomes["levels"], self.settings.level_threshold)

    def warn_of_settings(self) -> None:
        """Say that a judge of another family than the paper's gives other numbers."""
        if not scoring.PAPER_JUDGES.search(self.settings.judge_model):
            text = "The judge is %r, not an open model of the Qwen-3 family as in the paper: rates may differ from its."
            warning_once(log, text, self.settings.judge_model)

    def summary_extra(self, docs: list[dict[str, Any]], records: list[dict[str, Any]]) -> dict[str, Any]:
        """How often each level was given (``levels``), and the errors clustered by code (``stderr_by_code``)."""
        by_doc: dict[int, tuple[str, list[dict[str, Any]]]] = {}
        for doc, record in zip(docs, records, strict=True):
            by_doc.setdefault(id(doc), (doc["code"], []))[1].append(record)
        of_docs = [(code, scoring.metrics(found)) for code, found in by_doc.values()]
        every = of_all_ranks((scoring.level_counts(records), of_docs), self.ranks)
        levels = {
            key: {level: sum(counts[key][level] for counts, _ in every) for level in scoring.LEVELS}
            for key in scoring.KEYS
        }
        return {"levels": levels, "stderr_by_code": scoring.stderr_by_code([doc for _, rank in every for doc in rank])}


class IntimaGroup(ScoreGroup):
    """All prompts of the paper's codes; with ``include_extra_codes``, the others run apart from its numbers."""

    BENCHMARK = "intima"

    def not_wanted(self, dataset_name: str) -> str | None:
        """The task of other codes, where it is not asked for."""
        if dataset_name == scoring.OTHER and not self.settings.include_extra_codes:
            return "include_extra_codes is not set"
        return None
