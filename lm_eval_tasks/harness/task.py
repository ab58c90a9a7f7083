"""A task whose answers are judged: what AIR-Bench-Chat and INTIMA have in common.

lm-eval calls ``build_all_requests`` before generation (here the judge is tried), ``apply_filters`` once after it (here
all answers are judged at once) and ``process_results`` doc by doc (which reads what was judged). A benchmark adds its
docs, its questions to the judge and its arithmetic.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from lm_eval_tasks.errors import NoDocs
from lm_eval_tasks.harness import compat, notes, together
from lm_eval_tasks.harness.identity import identity_of, sign
from lm_eval_tasks.harness.pack_task import PackTask
from lm_eval_tasks.harness.ranks import over_ranks
from lm_eval_tasks.harness.repeats import check_filters, check_repeats
from lm_eval_tasks.harness.requests import (
    ROOM,
    Asked,
    JudgedRequest,
    Questionnaire,
    ask_early,
    questions_ahead,
    what_is_asked,
)
from lm_eval_tasks.judge.budget import BYTES_A_TOKEN
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Question, Unjudged, Verdict
from lm_eval_tasks.judge.records import describe, summarise
from lm_eval_tasks.runs import waiting as waiting_room
from lm_eval_tasks.runs.answers import EMPTY_ANSWER, NO_ANSWER, finish_reason
from lm_eval_tasks.runs.stored import load_run
from lm_eval_tasks.settings import check_judge

log = logging.getLogger(f"lm_eval.{__name__}")


class JudgedTask(PackTask):
    """A generative task that is scored by a judge.

    A subclass sets ``BENCHMARK`` and defines ``load_docs``, ``questions``, ``trial_question``, ``judgement``,
    ``verdict_values`` and ``shaping_settings``; its YAML names ``process_results``.
    """

    prompt_to_judge: Any

    EXPECTED_ANSWERS = "answers of the most tokens that they may have"
    """What ``expected_answer`` assumes, for the line that tells the cost before there are answers."""

    _sent: dict[str, Any] | None = None
    runs_end: together.RunsEnd | None = None

    def check_settings(self) -> None:
        """A judge must be named, unless nobody will be asked."""
        if not self._replayed and not compat.predictions_only():
            check_judge(self.settings)

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

    def flags(self, doc: dict[str, Any], answer: str) -> list[str]:
        """What is remarkable about an answer: counted, and logged with the sample."""
        return [] if answer.strip() else ["empty_answer"]

    def shaping_settings(self) -> dict[str, Any]:
        """Settings that shape the numbers, besides the judge's own; they go into the results file."""
        raise NotImplementedError

    def summary_extra(self, docs: list[dict[str, Any]], records: list[dict[str, Any]]) -> dict[str, Any]:
        """What a benchmark adds to the summary of its judging; ``docs`` holds the doc of each record."""
        return {}

    # What lm-eval calls

    def download(self, *args: Any, **kwargs: Any) -> None:
        """As every task, and count on it for the run."""
        super().download(*args, **kwargs)
        together.loaded(self)

    def docs_to_ask(self) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
        """The docs of the data, or those of a stored run that is judged again."""
        return self.load_docs() if not self._replayed else self._stored_docs()

    def build_all_requests(self, *, rank: int = 0, world_size: int = 1, **options: Any) -> None:
        """Build the requests, then try the judge before anything is generated."""
        if options.pop("cache_requests", False):  # kept under the task's name: another data set would get this one's
            compat.warning_once(log, "cache_requests is ignored by judged tasks: their requests are built in no time.")
        if not self._replayed:
            check_repeats(self.config)
        self._run_options = {"rank": rank, "ranks": world_size, **options}
        super().build_all_requests(rank=rank, world_size=world_size, **options)
        compat.set_requests(self, [JudgedRequest(**vars(instance)) for instance in self.instances])
        check_filters(compat.filters_of(self), self.instances[0])
        self._ranks = world_size
        model = compat.model_behind(options)
        self._run_key = self._fingerprint(model)  # before hashes of clips are known, which come when they are sent
        if not self._replayed:
            sign(self.instances, model)
            self._sent = notes.generation_sent(model, self.instances)
        self.begin(self._run_key, rank, self.settings.judge_concurrency + compat.concurrency(model))
        if self._predicts_only():
            together.passed(self)
            return
        judge = Judge.of(self.settings)
        judge.begin_run(rank, world_size)
        judge.fresh = bool(self._replayed and self.config.metadata.get("replay_all"))
        if not self._replayed and not self.is_finished():  # nothing is paid for before the judge is known to work
            judge.check(self.trial_question())
        if self.settings.judge_batch:
            if judge.fresh:
                raise ValueError("judge_batch takes the verdicts from the cache, where --all asks for new ones")
            if not self.is_finished():
                judge.check_batches()
        elif self.settings.judge_early:
            room = ROOM if isinstance(model, compat.TemplateAPI) else 0.0  # a model on this machine waits for nobody
            hand_over = partial(ask_early, judge, compat.filters_of(self), self.all_questions, room)
            for instance in (instance for instance in self.instances if instance.repeats == 1):
                instance.on_answer, instance.progress = hand_over, judge.early.progress
                instance.on_break_off = judge.break_off
                judge.early.expected += self._calls_a_doc()
        if self.settings.judge_repeats > 1 and not self.settings.judge_temperature:
            compat.warning_once(log, "judge_repeats at judge_temperature=0 shows the noise of the judge's server only.")
        self.warn_of_settings()
        together.begin(self)

    def apply_filters(self) -> None:
        """Apply the YAML's filters, then judge what they leave; judgements take the place of the filtered answers."""
        waiting_room.save(together.answered())  # before a filter of the user's own can fail
        super().apply_filters()
        if self._predicts_only():
            self.config.metadata = {**(self.config.metadata or {}), "made_with": self._made_with()}
            self.end()
            return
        asked = what_is_asked(self.instances, self.all_questions, self.settings.empty_answers == "judge")
        judge = Judge.of(self.settings)
        every = Questionnaire(asked, judge.key)
        together.prepare(judge)
        outcomes = iter(judge.ask(every, f"Judging {self.task_name}", together.questions_after(self)))
        asked_by = iter(every.keys)
        judgements = defaultdict(list)
        for one in asked:
            lacking = Unjudged(one.missing, why=one.why) if one.missing else None
            record = {"benchmark": self.BENCHMARK}
            said: dict[str, list[Verdict | Unjudged]] = defaultdict(list)
            for name, _ in every.names:
                said[name].append(lacking or next(outcomes))
            record |= self.judgement(said)
            for verdict in record["verdicts"]:
                verdict["question"] = None if lacking else next(asked_by)  # by which a later rejudge knows it again
            no_answer = one.missing not in (None, EMPTY_ANSWER)
            record["flags"] = [] if no_answer else self.flags(one.instance.doc, one.answer)
            whys = (verdict["why"] for verdict in record["verdicts"] if verdict["why"] and not record["judged"])
            record["why"] = next(whys, "")
            record["finish_reason"] = finish_reason(one.instance, one.repeat)
            judgements[id(one.instance), one.filter].append(record)
        for instance in self.instances:
            for name in instance.filtered_resps:
                records = judgements[id(instance), name]
                whole = records[0] if len(records) == 1 else records
                instance.filtered_resps[name] = json.dumps(whole, ensure_ascii=False)
        records = [record for records in judgements.values() for record in records]
        self._any_judged = any(record["judged"] for record in records)
        extra = self.summary_extra([one.instance.doc for one in asked], records) | notes.of_noise(
            self, judgements.values(), self._ranks
        )
        lacking = (one for one, record in zip(asked, records, strict=True) if not record["judged"])
        self._unjudged_by_category = dict(Counter(str(one.instance.doc.get("category")) for one in lacking))
        self._conclude(judge, records, [one.answer for one in asked if not one.missing], extra)

    def process_results(self, doc: dict[str, Any], results: list[Any]) -> dict[str, Any]:
        """The doc's metrics; none where it is unjudged.

        With several ranks lm-eval gathers only metrics that every rank has. A rank whose docs are all unjudged
        therefore returns NaN for each, which ``JudgedMean`` takes out again.
        """
        metrics = super().process_results(doc, results)
        if metrics or self._ranks == 1 or self._predicts_only() or self._any_judged:
            return metrics
        return dict.fromkeys(self.metric_names(), math.nan)

    def _stored_docs(self) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
        run = load_run(self._replayed)
        if self.config.task not in run.samples:
            raise NoDocs(f"{run.folder} holds no samples of {self.config.task}, only of {', '.join(run.samples)}.")
        run.check_task(self.config.task, self.config)
        docs = [sample.doc for sample in run.samples[self.config.task]]
        self.note_data_revision(run.data_revision(self.config.task))
        self.note(**run.of_answers(self.config.task))
        return docs, run.left_out(self.config.task)

    def all_questions(self, doc: dict[str, Any], answer: str, repeat: int) -> dict[tuple[str, int], Question]:
        """``questions``, each as often as it is put."""
        return {
            (name, again): replace(question, again=again) if again else question
            for name, question in self.questions(doc, answer, repeat).items()
            for again in range(self.settings.judge_repeats)
        }

    def questions_ahead(self) -> Iterator[tuple[Asked, Question]]:
        """All questions, before the filters were applied to the task."""
        empty = self.settings.empty_answers == "judge"
        return questions_ahead(self.instances, compat.filters_of(self), self.all_questions, empty)

    def questions_expected(self) -> Iterator[Question]:
        """Questions about answers that are not there yet, as long as these may become."""
        for instance in self.instances:
            for repeat in range(instance.repeats):
                yield from self.all_questions(instance.doc, self.expected_answer(instance.doc), repeat).values()

    def _calls_a_doc(self) -> int:
        return len(self.all_questions(self.instances[0].doc, "", 0))

    def keep_verdicts(self, judge: Judge) -> None:
        """Give the judge the stored run's verdicts on the very questions that it is about to be asked."""
        if not self._replayed or not load_run(self._replayed).files.judging(self.config.task):
            return
        samples = load_run(self._replayed).samples[self.config.task]
        for one, question in self.questions_ahead():
            key = judge.key(question)
            for record in samples[one.instance.doc_id].records[one.repeat :][:1]:
                for verdict in record["verdicts"]:
                    if verdict.get("question") == key and not verdict["reason"]:
                        judge.remember(question, verdict)

    @property
    def replayed(self) -> bool:
        """Whether the answers are those of a stored run."""
        return bool(self._replayed)

    def is_finished(self) -> bool:
        """Whether these very requests were judged to their end before."""
        return Judge.of(self.settings).cache.is_finished(self._run_key)

    def is_answered(self) -> bool:
        """Whether the model has answered all requests of this task."""
        return bool(self.instances) and all(instance.resps for instance in self.instances)

    def _fingerprint(self, model: Any) -> str:
        """Identifies this command's requests and settings, so that doing a finished one again needs no trial call."""
        metadata = json.dumps(self.config.metadata, sort_keys=True, default=str)
        shape = [json.dumps(identity_of(model), sort_keys=True)]  # in Python the metadata may not tell the model
        shape += [self.BENCHMARK, self.settings.model_dump_json(), str(self.shaping_settings()), metadata]
        shape += [str(tuple(instance.args[:2])) for instance in self.instances]
        return hashlib.sha256("\n".join(shape).encode()).hexdigest()

    def _conclude(self, judge: Judge, records: list[dict[str, Any]], answers: list[str], extra: dict[str, Any]) -> None:
        """Say how judging went, and put it where lm-eval writes it into the results file."""
        dialect = {lesson for record in records for verdict in record["verdicts"] for lesson in verdict["dialect"]}
        counts = summarise(records) | {"unjudged_by_category": self._unjudged_by_category}
        summary = {
            "benchmark": self.BENCHMARK,
            "settings": self.settings_in_results() | {"dialect": sorted(dialect | judge.client.given_up)},
            "judge_prompt": notes.judge_prompt(self.prompt_to_judge, self.trial_question().form),
            **over_ranks(counts, self._ranks),
            **extra,
            **({"generation_sent": self._sent} if self._sent else {}),
            **self._made_with(),
            "left_out": self.left_out,
            "absent": self.absent,
            "ranks": self._ranks,
        }
        self.config.metadata = {**(self.config.metadata or {}), "judging": summary}
        log.info("%s: %s", self.task_name, describe(summary))
        if len(answers) > 2 and len(set(answers)) == 1:
            log.warning(
                "%s: all %d answers are identical; does the prompt reach the model?", self.task_name, len(answers)
            )
        if summary["flags"].get("empty_answer"):
            told = "left out" if summary["unjudged"].get(EMPTY_ANSWER) else "judged as such"
            log.warning("%s: %d empty answers, %s", self.task_name, summary["flags"]["empty_answer"], told)
        self.end(summary["docs"], summary["judged"])
        if not summary["unjudged"]:
            judge.cache.set_finished(self._run_key)
            waiting_room.forget(self)
        first = {record["reason"]: record["why"] for record in records[::-1] if not record["judged"]}
        rows = [(count, reason, first.get(reason, "")) for reason, count in summary["unjudged"].items()]
        answered = any(not reason.startswith((NO_ANSWER, EMPTY_ANSWER)) for reason in summary["unjudged"])
        kept = waiting_room.path_of(self)
        end = self.runs_end or together.RunsEnd([self])  # a rank without a doc of this task
        end.note(self, rows, answered, str(kept.parent) if kept else "", judge.stopped)

    def noted(self) -> dict[str, Any]:
        """What a results file holds of how the answers were made, for ``waiting``."""
        return notes.of_run(self, self._run_options, self.settings_in_results())

    def settings_in_results(self) -> dict[str, Any]:
        """Everything that shapes the numbers, under the names of the options."""
        names = ("judge_model", "judge_base_url", "judge_temperature", "judge_max_tokens", "empty_answers")
        names += ("judge_repeats",) if self.settings.judge_repeats > 1 else ()
        return {name: getattr(self.settings, name) for name in names} | self.shaping_settings()
