"""AIR-Bench-Chat's tasks and groups: their docs, their audio and their questions to the judge."""

from __future__ import annotations

import logging
from typing import Any

from lm_eval_tasks.airbench_chat import scoring
from lm_eval_tasks.airbench_chat.data import CHAT
from lm_eval_tasks.airbench_chat.prompt import JudgePrompt
from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.audio_task import AudioTask
from lm_eval_tasks.harness.groups import ScoreGroup
from lm_eval_tasks.harness.task import JudgedTask
from lm_eval_tasks.judge.question import Question
from lm_eval_tasks.settings import OFFICIAL_AIR_BENCH_JUDGE

log = logging.getLogger(f"lm_eval.{__name__}")


class AirBenchChatTask(AudioTask, JudgedTask):
    """One of the eight tasks; the YAML's ``dataset_name`` is its name in the metadata."""

    BENCHMARK, TRACK, PROMPT = CHAT.name, CHAT, JudgePrompt
    SHAPING = ("do_swap", *AudioTask.SHAPING)

    def questions(self, doc: dict[str, Any], answer: str, repeat: int) -> dict[str, Question]:
        """The same question in each order; the sides have roles, and only the prompt has positions."""
        texts = {"reference": doc["answer_gt"], "prediction": answer}
        asked = {}
        for order in scoring.orders(self.settings.do_swap):
            first, second = scoring.sides(order)
            asked[order] = self.prompt_to_judge.ask(
                doc["meta_info"], doc["question"], texts[first], texts[second], repeat=repeat, part=order
            )
        return asked

    def trial_question(self) -> Question:
        """Two short answers about a dog."""
        return self.prompt_to_judge.ask("A dog barks twice.", "Which animal is heard?", "A dog.", "A cat.")

    def warn_of_settings(self) -> None:
        """Say that another judge than the official one gives other numbers."""
        if self.settings.judge_model != OFFICIAL_AIR_BENCH_JUDGE:
            text = "The judge is %r, not %r of the published leaderboard: the scores are not comparable with it."
            compat.warning_once(log, text, self.settings.judge_model, OFFICIAL_AIR_BENCH_JUDGE)

    EXPECTED_ANSWERS = "answers as long as the references"

    def expected_answer(self, doc: dict[str, Any]) -> str:
        """The reference."""
        return doc["answer_gt"]

    judgement = staticmethod(scoring.judgement)
    verdict_values = staticmethod(scoring.verdict_values)

    def metric_names(self) -> list[str]:
        """There is no position gap without swap."""
        return [name for name in super().metric_names() if name != "position_gap" or self.settings.do_swap]


class AirBenchGroup(ScoreGroup):
    """A category, two of them, or the whole benchmark."""

    BENCHMARK, TRACK = CHAT.name, CHAT
