"""AIR-Bench-Chat as a task of lm-eval: its docs, its audio and its questions to the judge."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any

from lm_eval.api.instance import Instance

from lm_eval_tasks.airbench_chat import scoring
from lm_eval_tasks.airbench_chat.data import fetch, load_docs
from lm_eval_tasks.airbench_chat.prompt import JudgePrompt
from lm_eval_tasks.data.huggingface import commit_of
from lm_eval_tasks.data.records import forget_records
from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.chat import NEEDS_AUDIO, takes_audio, with_audio
from lm_eval_tasks.harness.task import JudgedTask
from lm_eval_tasks.judge.question import Question, Unjudged, Verdict
from lm_eval_tasks.settings import OFFICIAL_AIR_BENCH_JUDGE

log = logging.getLogger(f"lm_eval.{__name__}")


class AirBenchChatTask(JudgedTask):
    """One of the eight tasks; the YAML's ``dataset_name`` is its name in the metadata."""

    BENCHMARK = "air_bench_chat"
    MULTIMODAL = property(lambda self: False, lambda self, value: None)
    """lm-eval refuses text-only models by this, naming models that do not fit; ``build_all_requests`` does it here."""

    @cached_property
    def prompt_to_judge(self) -> JudgePrompt:
        """The wording of this run."""
        return JudgePrompt.load(self.settings.judge_prompt)

    def load_docs(self) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
        """The records of this task whose clips can be sent."""
        root = fetch(self.settings, [self.config.dataset_name])
        self.note_data_revision(commit_of(root))
        docs, left_out, facts = load_docs(self.settings, self.config.dataset_name, root)
        self.config.metadata = {**(self.config.metadata or {}), "data": facts}
        return docs, left_out

    def build_all_requests(self, **options: Any) -> None:
        """Build them; by now all tasks of the run have read their docs.

        Raises:
            ValueError: the model takes text only.
        """
        forget_records()
        model = compat.model_behind(options)
        if model is not None and not takes_audio(model):
            raise ValueError(f"{type(model).__name__} takes text only. {self.task_name} {NEEDS_AUDIO}")
        super().build_all_requests(**options)

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **options: Any) -> Instance:
        """An API model gets the clip inside its chat, read when it is sent; another model gets lm-eval's ``audio``.

        Raises:
            ValueError: the chat template is not applied, or leaves no place for a clip.
        """
        if self._replayed:
            return super().construct_requests(doc, ctx, **options)
        if not options.get("apply_chat_template"):
            raise ValueError(
                f"{self.task_name} puts audio into a chat: add --apply_chat_template (in Python: "
                "apply_chat_template=True), with a model that takes audio, such as --model audio-chat-completions."
            )
        model = compat.model_behind(options)
        if isinstance(model, compat.TemplateAPI) and not isinstance(ctx, compat.JsonChatStr):
            raise ValueError(
                f"{self.task_name}: {type(model).__name__} turns the chat into text here, so that no audio fits into "
                "it. Use --model local-chat-completions (or another chat-completions model) without a tokenizer."
            )
        if not isinstance(ctx, compat.JsonChatStr):
            return super().construct_requests(doc, ctx, **options)
        clips = self.doc_to_audio(doc)
        chat = with_audio(ctx, clips, self.settings.audio_part, self.settings.audio_sample_rate)
        request = super().construct_requests(doc, chat, **options)
        request.arguments = request.arguments[:2]  # the stock API models take a third argument for images
        return request

    def doc_to_audio(self, doc: dict[str, Any], doc_to_audio: Any = None) -> Any:
        """The clip; none of an answer that came from a file."""
        return [] if self._replayed and "audio" not in doc else super().doc_to_audio(doc, doc_to_audio)

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

    def judgement(self, outcomes: dict[str, Verdict | Unjudged]) -> dict[str, Any]:
        """Both verdicts, named by role, and what follows from them."""
        return scoring.judgement(outcomes)

    def flags(self, doc: dict[str, Any], answer: str) -> list[str]:
        """Empty answers, and answers in which something was rewritten for the judge."""
        return super().flags(doc, answer) + (["neutralised"] if self.prompt_to_judge.neutral(answer)[1] else [])

    def metric_names(self) -> list[str]:
        """There is no position gap without swap."""
        return [name for name in super().metric_names() if name != "position_gap" or self.settings.do_swap]

    def shaping_settings(self) -> dict[str, Any]:
        """The order, the wording, and how the audio was sent."""
        keys = ("do_swap", "audio_part", "audio_sample_rate", "max_audio_seconds", "local_path", "source", "revision")
        found = {key: getattr(self.settings, key) for key in keys}
        return {"prompt_version": self.prompt_to_judge.version} | found | self.data_revision()
