"""AIR-Bench-Chat's data: where it lies, and what a record holds.

Layout (the same on both hubs): ``ROOT/Chat/Chat_meta.json``, one JSON list; a record's clip is
``ROOT/Chat/{task_name}_{dataset_name}/{path}``.
"""

from __future__ import annotations

from pathlib import Path

from lm_eval_tasks.airbench_chat.scoring import CATEGORY, RECORDS
from lm_eval_tasks.data.records import Track

CHAT = Track(
    name="air_bench_chat",
    folder="Chat",
    metadata="Chat_meta.json",
    sample=Path(__file__).parent / "sample",
    tasks=RECORDS,
    category=CATEGORY,
    required=("question", "answer_gt", "meta_info"),
    structured=("meta_info",),
)
