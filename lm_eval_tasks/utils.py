"""Every function that a YAML file names as a hook, by lm-eval's name for it; the benchmark stands in front."""

from __future__ import annotations

from typing import Any

from lm_eval_tasks.air_bench_foundation import scoring as foundation
from lm_eval_tasks.airbench_chat import scoring as airbench
from lm_eval_tasks.audio.clips import ARRAY_RATE, AudioRef
from lm_eval_tasks.intima import scoring as intima
from lm_eval_tasks.judge.records import as_records


def doc_to_visual(doc: dict[str, Any]) -> list[AudioRef]:
    """The clip of a doc as a reference; the one audio hook (lmms-eval's name for it).

    Nothing is read here. A model of lm-eval that hears takes ``["array"]`` (float32, mono) and ``["sampling_rate"]``.
    """
    return [AudioRef({"sampling_rate": ARRAY_RATE, **doc["audio"]})]


def airbench_process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The metrics of one doc of AIR-Bench-Chat from its judgement; empty where it is unjudged."""
    return airbench.metrics([record for result in results for record in as_records(result)])


def foundation_process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The metrics of one doc of AIR-Bench Foundation from what was read; empty where it is unanswered."""
    return foundation.metrics([record for result in results for record in as_records(result)])


def intima_process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The metrics of one doc of INTIMA from its judgement; empty where it is unjudged."""
    return intima.metrics([record for result in results for record in as_records(result)])
