"""AIR-Bench-Chat's data: where it lies, what a record holds, and its docs.

Layout (the same on both hubs): ``ROOT/Chat/Chat_meta.json``, one JSON list; a record's clip is
``ROOT/Chat/{task_name}_{dataset_name}/{path}``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lm_eval_tasks.airbench_chat.scoring import RECORDS
from lm_eval_tasks.data import hub
from lm_eval_tasks.data.records import Track
from lm_eval_tasks.settings import AirBenchSettings

SAMPLE = Path(__file__).parent / "sample"
CHAT = Track(
    name="air_bench_chat",
    folder="Chat",
    metadata="Chat_meta.json",
    tasks=RECORDS,
    required=("question", "answer_gt", "meta_info"),
    structured=("meta_info",),
)


def fetch(settings: AirBenchSettings, task_names: Iterable[str]) -> Path:
    """The folder that holds ``Chat/``: the local one, or the hub's copy with only the folders of these tasks.

    Raises:
        DataError: there is no such folder, or the hub cannot deliver; says what to do.
    """
    return hub.fetch(CHAT, settings, task_names, SAMPLE)
