"""What the judge is asked about which answer: after generation for all of them, or the moment that one arrives."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.api.instance import Instance

from lm_eval_tasks.judge import Judge, Question
from lm_eval_tasks.unanswered import Unanswered

Questions = Callable[[dict[str, Any], str, int], dict[str, Question]]
"""From a doc, an answer and which of several answers to the same doc it is, to the questions about it by name."""


@dataclass(frozen=True)
class Asked:
    """The questions about one answer.

    Attributes:
        instance: the request that was answered.
        filter: name of the filter that the answer went through.
        repeat: which of the request's answers it is, from 0.
        answer: the filtered answer; "" where there is none.
        missing: why there is no answer, or None.
        questions: what the judge is asked, by name.
    """

    instance: Instance
    filter: str
    repeat: int
    answer: str
    missing: str | None
    questions: dict[str, Question]


def what_is_asked(instances: Iterable[Instance], questions: Questions) -> list[Asked]:
    """What the judge is asked about the filtered answers of some requests, in their order."""
    return [
        Asked(
            instance,
            name,
            repeat,
            answer or "",
            _why_missing(instance, repeat),
            questions(instance.doc, answer or "", repeat),
        )
        for instance in instances
        for name, answers in instance.filtered_resps.items()
        for repeat, answer in enumerate(answers if isinstance(answers, list) else [answers])
    ]


def ask_early(judge: Judge, instance: Instance, filters: Sequence[Any], questions: Questions, answer: str) -> None:
    """Put the questions about one answer while the model is still answering others.

    Nothing is done with the outcome here: the same questions are put again when all answers are there.
    """
    alone = copy.copy(instance)
    alone.resps, alone.filtered_resps = [answer], {}
    for one in filters:
        one.apply([alone])
    for asked in what_is_asked([alone], questions):
        for question in asked.questions.values():
            judge.submit(question)


def _why_missing(instance: Instance, repeat: int) -> str | None:
    raw = instance.resps[repeat] if repeat < len(instance.resps) else None
    return raw.reason if isinstance(raw, Unanswered) else None
