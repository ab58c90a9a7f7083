"""A task whose docs have a clip, judged or not: where its docs come from and how a clip reaches the model."""

from __future__ import annotations

from typing import Any

from lm_eval.api.instance import Instance

from lm_eval_tasks.data import hub
from lm_eval_tasks.data.clips import load_track
from lm_eval_tasks.data.records import Loaded, Track, forget_records
from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.chat import NEEDS_AUDIO, takes_audio, with_audio
from lm_eval_tasks.harness.pack_task import PackTask


class AudioTask(PackTask):
    """One task of a track; the YAML's ``dataset_name`` is its name in the metadata."""

    TRACK: Track
    SHAPING = ("audio_part", "audio_sample_rate", "max_audio_seconds", "local_path", "source", "revision")
    MULTIMODAL = property(lambda self: False, lambda self, value: None)
    """lm-eval refuses text-only models by this, naming models that do not fit; ``build_all_requests`` does it here."""

    def load_docs(self) -> Loaded:
        """The records of this task whose clips can be sent."""
        name = self.config.dataset_name
        return load_track(hub.fetch(self.TRACK, self.settings, [name]), self.TRACK, self.settings, name)

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
        if self.replayed:
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
        return [] if self.replayed and "audio" not in doc else super().doc_to_audio(doc, doc_to_audio)
