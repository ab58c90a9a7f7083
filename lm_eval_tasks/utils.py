"""Hooks that YAML files of every benchmark may name."""

from __future__ import annotations

from typing import Any

from lm_eval_tasks.audio.clips import ARRAY_RATE, AudioRef


def doc_to_visual(doc: dict[str, Any]) -> list[AudioRef]:
    """The clip of a doc as a reference; the one audio hook (lmms-eval's name for it).

    Nothing is read here. A model of lm-eval that hears takes ``["array"]`` (float32, mono) and ``["sampling_rate"]``.
    """
    return [AudioRef({"sampling_rate": ARRAY_RATE, **doc["audio"]})]
