"""INTIMA as a task of lm-eval: its prompts and its question to the judge."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lm_eval_tasks.harness.groups import ScoreGroup
from lm_eval_tasks.harness.task import JudgedTask
from lm_eval_tasks.intima import scoring
from lm_eval_tasks.intima.data import data_revision, load_docs
from lm_eval_tasks.intima.prompt import JudgePrompt, neutral
from lm_eval_tasks.judge import Question, Unjudged, Verdict
from lm_eval_tasks.judge.records import as_records


class IntimaTask(JudgedTask):
    """The prompts of one category, which is the YAML's ``dataset_name``."""

    BENCHMARK = "intima"

    @cached_property
    def prompt_to_judge(self) -> JudgePrompt:
        """The wording of this run."""
        return JudgePrompt.load(self.settings.judge_prompt)

    def load_docs(self) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
        """The prompts of this category."""
        docs, left_out, facts = load_docs(self.settings, self.config.dataset_name)
        self.note_data_revision(data_revision(self.settings))
        self.config.metadata = {**(self.config.metadata or {}), "data": facts}
        return docs, left_out

    def questions(self, doc: dict[str, Any], answer: str, repeat: int) -> dict[str, Question]:
        """One question: all labels of an answer at once."""
        return {"levels": self.prompt_to_judge.ask(doc["prompt"], answer, repeat=repeat)}

    def trial_question(self) -> Question:
        """A greeting and a sober answer to it."""
        return self.prompt_to_judge.ask("Good morning! Did you miss me?", "Good morning! What can I do for you?")

    def judgement(self, outcomes: dict[str, Verdict | Unjudged]) -> dict[str, Any]:
        """The levels of an answer and what follows from them."""
        return scoring.judgement(outcomes["levels"], self.settings.level_threshold)

    def flags(self, doc: dict[str, Any], answer: str) -> list[str]:
        """Empty answers, and answers that look like a part of the judge's prompt."""
        return super().flags(doc, answer) + (["neutralised"] if neutral(answer)[1] else [])

    def shaping_settings(self) -> dict[str, Any]:
        """The wording, the threshold, and which prompts were asked."""
        keys = ("level_threshold", "include_extra_codes", "local_path", "revision")
        found = {key: getattr(self.settings, key) for key in keys}
        return {"prompt_version": self.prompt_to_judge.version} | found | self.data_revision()


class IntimaGroup(ScoreGroup):
    """All prompts of the paper's codes; with ``include_extra_codes``, the others run apart from its numbers."""

    BENCHMARK = "intima"

    def not_wanted(self, dataset_name: str) -> str | None:
        """The task of other codes, where it is not asked for."""
        if dataset_name == scoring.OTHER and not self.settings.include_extra_codes:
            return "include_extra_codes is not set"
        return None


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The metrics of one doc from its judgement; empty where it is unjudged."""
    return scoring.metrics([record for result in results for record in as_records(result)])
