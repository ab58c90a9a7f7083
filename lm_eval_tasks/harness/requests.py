"""What the judge is asked about which answer: after generation for all of them, or the moment that one arrives."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lm_eval.api.instance import Instance

from lm_eval_tasks.harness.compat import filters_of
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Question
from lm_eval_tasks.runs.answers import storable_answer, why_missing

log = logging.getLogger(f"lm_eval.{__name__}")

ROOM = 0.25
"""Seconds that the next request to a model's server may wait until the judge has room for a question: a model that is
faster than its judge then leaves it its share of the CPU."""


@dataclass
class PackRequest(Instance):
    """A request that the pack's own model may leave unanswered, and whose answer it hands over at once.

    Attributes:
        on_answer: called with the request and its answer the moment that is there, if set.
        progress: tells how far judging has come meanwhile, if set.
        on_break_off: called where an error or Ctrl-C ends the model's work, if set.
    """

    on_answer: Callable[[Instance, str], None] | None = field(default=None, repr=False, compare=False)
    progress: Callable[[], str] | None = field(default=None, repr=False, compare=False)
    on_break_off: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    may_stay_unanswered: ClassVar[bool] = True


@dataclass(frozen=True)
class Asked:
    """The questions about one answer.

    Attributes:
        task: a ``JudgedTask``, which makes the questions.
        instance: the request that was answered.
        filter: name of the filter that the answer went through.
        repeat: which of the request's answers it is, from 0.
        answer: the filtered answer; "" where there is none.
        missing: why there is no answer, as the reason of an unjudged doc; or None.
    """

    task: Any
    instance: Instance
    filter: str
    repeat: int
    answer: str
    missing: str | None

    @property
    def why(self) -> str:
        """The server's own words, where there is no answer."""
        answers = self.instance.resps
        return getattr(answers[self.repeat], "detail", "") if self.repeat < len(answers) else ""

    def questions(self) -> dict[tuple[str, int], Question]:
        """What the judge is asked, by name and by which of several times it is asked."""
        return self.task.all_questions(self.instance.doc, self.answer, self.repeat)


class Questionnaire:
    """The questions about many answers, each made when its turn has come: all prompts at once would fill the memory.

    Args:
        asked: the answers; those that are missing are passed over.
        key: what identifies a question to the judge.

    Attributes:
        names: of the questions about one answer.
        keys: of the questions made so far, in their order.
    """

    def __init__(self, asked: list[Asked], key: Callable[[Question], str]) -> None:
        self._asked = [one for one in asked if not one.missing]
        self._key = key
        self.names = tuple(asked[0].questions()) if asked else ()
        self.keys: list[str] = []

    def __len__(self) -> int:
        return len(self._asked) * len(self.names)

    def __iter__(self) -> Iterator[Question]:
        self.keys.clear()
        for one in self._asked:
            for question in one.questions().values():
                self.keys.append(self._key(question))
                yield question


def what_is_asked(task: Any, instances: Iterable[Instance]) -> list[Asked]:
    """What the judge is asked about the filtered answers to some requests of a task, in their order."""
    judge_empty = task.settings.empty_answers == "judge"  # also where a failure looks the same
    return [
        Asked(
            task,
            instance,
            name,
            repeat,
            answer if isinstance(answer, str) else "",
            why_no_text(instance, repeat, answer, judge_empty),
        )
        for instance in instances
        for name, left in instance.filtered_resps.items()
        for repeat, answer in enumerate(texts_left(left, len(instance.resps)))
    ]


NO_TEXT = "no answer: a filter of the task left no text of it"
"""The reason of an answer of which a filter made something else, such as a list of its characters."""


def why_no_text(instance: Instance, repeat: int, left: Any, judge_empty: bool = False) -> str | None:
    """As ``why_missing``, and of what a filter left (``texts_left``); None where there is an answer to score."""
    reason = why_missing(instance, repeat, judge_empty)
    return reason or (None if left is None or isinstance(left, str) else NO_TEXT)


def texts_left(left: Any, answers: int) -> list[Any]:
    """What filters left of a request's answers, one by one; what is no text must not be scored.

    Args:
        left: one answer, or a list of at most as many as there were. A longer list is none of answers: a filter that
            goes through the texts of a list goes through the characters of a text.
        answers: how many there were.
    """
    if not isinstance(left, (list, tuple)):
        return [left]
    return list(left) if len(left) <= max(1, answers) else [tuple(left)]


def questions_ahead(task: Any, instances: Iterable[Instance]) -> Iterator[tuple[Asked, Question]]:
    """All questions about some answered requests, before the filters of their task were applied to them."""
    for instance in instances:
        alone = copy.copy(instance)
        alone.filtered_resps = {}
        alone.resps = [storable_answer(a) if isinstance(a, str) else a for a in instance.resps]  # as the task's will be
        for one in filters_of(task):
            one.apply([alone])
        for asked in what_is_asked(task, [alone]):
            for question in () if asked.missing else asked.questions().values():
                yield asked, question


def ask_early(task: Any, judge: Judge, wait: float, instance: Instance, answer: str) -> None:
    """Put the questions about one answer while the model is still answering others.

    Nothing is done with the outcome here: the same questions are put again when all answers are there.
    """
    alone = copy.copy(instance)
    alone.resps = [answer]
    try:
        for _, question in questions_ahead(task, [alone]):
            judge.early.submit(question, wait)
    except Exception:  # of a filter, which will raise it again when all answers are there and kept
        log.debug("nothing is asked early about %s", instance.doc_id, exc_info=True)
