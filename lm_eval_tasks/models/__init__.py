"""The models under test. Importing this package registers them with lm-eval."""

from __future__ import annotations

from lm_eval_tasks.models.api import AudioChatCompletions
from lm_eval_tasks.models.replay import ReplayAnswers

__all__ = ["AudioChatCompletions", "ReplayAnswers"]
