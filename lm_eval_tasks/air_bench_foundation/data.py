"""AIR-Bench Foundation's data: where it lies and what a record holds.

Layout (the same on both hubs): ``ROOT/Foundation/Foundation_meta.json``, one JSON list; a record's clip is
``ROOT/Foundation/{task_name}_{dataset_name}/{path}``.
"""

from __future__ import annotations

from pathlib import Path

from lm_eval_tasks.air_bench_foundation.scoring import CATEGORY, RECORDS, fault
from lm_eval_tasks.data.records import Track


def other_names(record: dict[str, str]) -> tuple[str, ...]:
    """Clips of this task are FLAC files under names that say WAV (official ``Inference_Foundation.py``)."""
    path = record["path"]
    flac = record["task_name"] == "Audio_Grounding" and path.lower().endswith(".wav")
    return (f"{path[:-3]}flac",) if flac else ()


_CHOICES = ("choice_c", "choice_d")

FOUNDATION = Track(
    name="air_bench_foundation",
    folder="Foundation",
    metadata="Foundation_meta.json",
    sample=Path(__file__).parent / "sample",
    tasks=RECORDS,
    category=CATEGORY,
    required=("question", "choice_a", "choice_b", "answer_gt"),
    optional=_CHOICES,
    values=("choice_a", "choice_b", *_CHOICES, "answer_gt"),
    check=fault,
    locate=other_names,
)
