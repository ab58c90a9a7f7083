"""The models under test. Importing this package registers them with lm-eval."""

from __future__ import annotations

from lm_eval.api.registry import model_registry

from lm_eval_tasks.models.api import AudioChatCompletions
from lm_eval_tasks.models.replay import ReplayAnswers

__all__ = ["AudioChatCompletions", "ReplayAnswers"]

if "hf-audio" not in model_registry:  # by name alone: loading it takes torch, which only the extra [local] has
    model_registry.register("hf-audio", target="lm_eval_tasks.models.local:HFAudio")
