"""AIR-Bench-Chat's data: where it lies, what a record holds, and its docs.

Layout (the same on both hubs): ``ROOT/Chat/Chat_meta.json``, one JSON list; a record's clip is
``ROOT/Chat/{task_name}_{dataset_name}/{path}``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lm_eval_tasks.airbench_chat.scoring import CATEGORY, RECORDS
from lm_eval_tasks.data import hub
from lm_eval_tasks.data.clips import load_track
from lm_eval_tasks.data.records import Loaded, Track
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


def load_docs(settings: AirBenchSettings, task_name: str, root: Path | None = None) -> Loaded:
    """The docs of one task whose clips can be sent.

    Args:
        settings: where the data is and what to do about bad audio and odd records.
        task_name: one of the eight.
        root: what ``fetch`` returned, where it was called before.

    Returns:
        The docs, in the order of the metadata, what was left out, and what the results say of the data.

    Raises:
        DataError: the metadata is no list of records, or something is bad and must not be.
        NoDocs: no doc of this task is usable.
    """
    root = root or fetch(settings, [task_name])
    return load_track(root, CHAT, settings, task_name, category=CATEGORY[task_name])


def fetch(settings: AirBenchSettings, task_names: Iterable[str]) -> Path:
    """The folder that holds ``Chat/``: the local one, or the hub's copy with only the folders of these tasks.

    Raises:
        DataError: there is no such folder, or the hub cannot deliver; says what to do.
    """
    return hub.fetch(CHAT, settings, task_names, SAMPLE)
