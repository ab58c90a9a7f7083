"""The one judge that every judged benchmark asks: questions in, verdicts or reasons out."""

from __future__ import annotations

from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import NoVerdict, Question, Unjudged, Verdict

__all__ = ["Judge", "NoVerdict", "Question", "Unjudged", "Verdict"]
