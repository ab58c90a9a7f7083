"""A task whose answers are judged: what AIR-Bench-Chat and INTIMA have in common.

lm-eval calls ``build_all_requests`` before generation (here the judge is tried), ``apply_filters`` once after it (here
all answers are judged at once, see ``judging``) and ``process_results`` doc by doc (which reads what was judged). A
benchmark adds its docs, its questions to the judge and its arithmetic.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from lm_eval_tasks.harness import compat, notes, together
from lm_eval_tasks.harness.judging import judge_answers
from lm_eval_tasks.harness.pack_task import PackTask
from lm_eval_tasks.harness.requests import ROOM, Asked, ask_early, questions_ahead
from lm_eval_tasks.judge.budget import BYTES_A_TOKEN
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.prompt import Wording
from lm_eval_tasks.judge.question import Question, Unjudged, Verdict
from lm_eval_tasks.runs import waiting as waiting_room
from lm_eval_tasks.runs.stored import load_run
from lm_eval_tasks.settings import check_judge

log = logging.getLogger(f"lm_eval.{__name__}")


class JudgedTask(PackTask):
    """A generative task that is scored by a judge.

    A subclass sets ``BENCHMARK``, ``SHAPING`` and ``PROMPT``, and defines ``load_docs``, ``questions``,
    ``trial_question``, ``judgement`` and ``verdict_values``; its YAML names ``process_results``.
    """

    PROMPT: type[Wording]

    EXPECTED_ANSWERS = "answers of the most tokens that they may have"
    """What ``expected_answer`` assumes, for the line that tells the cost before there are answers."""

    generation_sent: dict[str, Any] | None = None
    runs_end: together.RunsEnd | None = None

    def check_settings(self) -> None:
        """A judge must be named, unless nobody will be asked."""
        if not self.replayed and not compat.predictions_only():
            check_judge(self.settings)

    @cached_property
    def prompt_to_judge(self) -> Any:
        """The wording of this run."""
        return self.PROMPT.load(self.settings.judge_prompt)

    # What a benchmark defines

    def questions(self, doc: dict[str, Any], answer: str, repeat: int) -> dict[str, Question]:
        """What the judge is asked about one answer, by name."""
        raise NotImplementedError

    def trial_question(self) -> Question:
        """A small question in the benchmark's form, to try the judge with."""
        raise NotImplementedError

    def warn_of_settings(self) -> None:
        """Say before generation what will make the numbers incomparable. Called for each task."""

    def expected_answer(self, doc: dict[str, Any]) -> str:
        """A text as long as an answer may be."""
        asked = self.instances[0].args[1]
        limits = ("max_gen_toks", "max_new_tokens", "max_completion_tokens", "max_tokens")
        return "x" * (BYTES_A_TOKEN * int(next((asked[name] for name in limits if asked.get(name)), 256)))

    def judgement(self, outcomes: dict[str, list[Verdict | Unjudged]]) -> dict[str, Any]:
        """One answer's outcomes as JSON data with at least ``judged``, ``reason`` and ``verdicts``.

        Args:
            outcomes: name of a question -> an outcome for each time that it was put (``judge_repeats``).
        """
        raise NotImplementedError

    def verdict_values(self, record: dict[str, Any]) -> dict[str, list[list[float]]]:
        """What each usable verdict on a judged answer says: metric -> for each question a list of values."""
        raise NotImplementedError

    def flags(self, answer: str) -> list[str]:
        """What is remarkable about an answer: that it is empty, or rewritten for the judge; logged with the sample."""
        found = {"empty_answer": not answer.strip(), "neutralised": self.prompt_to_judge.neutral(answer)[1]}
        return [name for name, is_so in found.items() if is_so]

    def summary_extra(self, docs: list[dict[str, Any]], records: list[dict[str, Any]]) -> dict[str, Any]:
        """What a benchmark adds to the summary of its judging; ``docs`` holds the doc of each record."""
        return {}

    # What lm-eval calls

    def download(self, *args: Any, **kwargs: Any) -> None:
        """As every task, and count on it for the run."""
        super().download(*args, **kwargs)
        together.loaded(self)

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests, then try the judge before anything is generated."""
        super().build_all_requests(**options)
        self.run_options = options
        if compat.predicts_only(self):
            together.passed(self)
            return
        model = compat.model_behind(options)
        if not self.replayed:
            self.generation_sent = notes.generation_sent(model, self.instances)
        judge = Judge.of(self.settings)
        judge.begin_run(options.get("rank", 0), self.ranks)
        judge.fresh = bool(self.replayed and self.config.metadata.get("replay_all"))
        if not self.replayed and not self.is_finished():  # nothing is paid for before the judge is known to work
            judge.check(self.trial_question())
        if self.settings.judge_batch:
            if judge.fresh:
                raise ValueError(
                    "judge_batch reads verdicts from the cache, which --all ignores: leave one of them out"
                )
            if not self.is_finished():
                judge.check_batches()
        elif self.settings.judge_early:
            room = ROOM if isinstance(model, compat.TemplateAPI) else 0.0  # a model on this machine waits for nobody
            hand_over = partial(ask_early, self, judge, room)
            for instance in (instance for instance in self.instances if instance.repeats == 1):
                instance.on_answer, instance.progress = hand_over, judge.early.progress
                instance.on_break_off = judge.break_off
                judge.early.expected += len(self.all_questions(instance.doc, "", 0))
        if self.settings.judge_repeats > 1 and not self.settings.judge_temperature:
            compat.warning_once(log, "judge_repeats at judge_temperature=0 shows only the noise of the judge's server.")
        self.warn_of_settings()
        together.begin(self)

    def apply_filters(self) -> None:
        """Keep the answers before a filter of the user's own can fail, then apply the filters and judge."""
        waiting_room.save(together.answered())
        super().apply_filters()

    def score_answers(self) -> None:
        judge_answers(self)

    def all_questions(self, doc: dict[str, Any], answer: str, repeat: int) -> dict[tuple[str, int], Question]:
        """``questions``, each as often as it is put."""
        return {
            (name, again): replace(question, again=again) if again else question
            for name, question in self.questions(doc, answer, repeat).items()
            for again in range(self.settings.judge_repeats)
        }

    def questions_ahead(self) -> Iterator[tuple[Asked, Question]]:
        """All questions, before the filters were applied to the task."""
        return questions_ahead(self, self.instances)

    def questions_expected(self) -> Iterator[Question]:
        """Questions about answers that are not there yet, as long as these may become."""
        for instance in self.instances:
            for repeat in range(instance.repeats):
                yield from self.all_questions(instance.doc, self.expected_answer(instance.doc), repeat).values()

    def keep_verdicts(self, judge: Judge) -> None:
        """Give the judge the stored run's verdicts on the very questions that it is about to be asked."""
        if not self.replayed or not load_run(self.replayed).files.judging(self.config.task):
            return
        samples = load_run(self.replayed).samples[self.config.task]
        for one, question in self.questions_ahead():
            key = judge.key(question)
            for record in samples[one.instance.doc_id].records[one.repeat :][:1]:
                for verdict in record["verdicts"]:
                    if verdict.get("question") == key and not verdict["reason"]:
                        judge.remember(question, verdict)

    def is_finished(self) -> bool:
        """Whether these very requests were judged to their end before."""
        return Judge.of(self.settings).cache.is_finished(self.run_key)

    def is_answered(self) -> bool:
        """Whether the model has answered all requests of this task."""
        return bool(self.instances) and all(instance.resps for instance in self.instances)

    def noted(self) -> dict[str, Any]:
        """What a results file holds of how the answers were made, for ``waiting``."""
        return notes.of_run(self)

    def settings_in_results(self) -> dict[str, Any]:
        """Everything that shapes the numbers, under the names of the options."""
        names = ("judge_model", "judge_base_url", "judge_temperature", "judge_max_tokens", "empty_answers")
        names += ("judge_repeats",) if self.settings.judge_repeats > 1 else ()
        judging = {name: getattr(self.settings, name) for name in names}
        return judging | {"prompt_version": self.prompt_to_judge.version} | super().settings_in_results()
