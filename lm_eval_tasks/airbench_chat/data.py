"""Reads AIR-Bench-Chat from a folder or fetches it from a hub, and checks every record and clip.

Layout (the same on both hubs): ``ROOT/Chat/Chat_meta.json``, one JSON list; a record's clip is
``ROOT/Chat/{task_name}_{dataset_name}/{path}``.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lm_eval_tasks.airbench_chat import hub
from lm_eval_tasks.airbench_chat.scoring import CATEGORY, RECORDS
from lm_eval_tasks.audio.clips import ARRAY_RATE, LFS_POINTER, BadAudio, find_audio, inspect_audio
from lm_eval_tasks.errors import DataError, NoDocs
from lm_eval_tasks.settings import AirBenchSettings

log = logging.getLogger(f"lm_eval.{__name__}")

SAMPLE = Path(__file__).parent / "sample"
FIELDS = ("path", "question", "answer_gt", "task_name", "dataset_name", "meta_info", "uniq_id")
LONG_CLIP = 30.0
"""Seconds; many models hear no more than this (the window of Whisper's encoder)."""

_LISTED = 5


def load_docs(
    settings: AirBenchSettings, task_name: str, root: Path | None = None
) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """The docs of one task whose clips can be sent.

    Args:
        settings: where the data is and what to do about bad audio.
        task_name: one of the eight.
        root: what ``fetch`` returned, where it was called before.

    Returns:
        The docs, in the order of the metadata, and what was left out: cause -> clips as ``folder/file``.

    Raises:
        DataError: the metadata is damaged, a path leaves the folder, or audio is bad and must not be.
        NoDocs: no doc of this task is usable.
    """
    root = root or fetch(settings, [task_name])
    records = [record for record in read_metadata(root / "Chat" / "Chat_meta.json") if record["task_name"] == task_name]
    docs, left_out = [], defaultdict(list)
    for record in tqdm(records, desc=f"Checking audio of {task_name}", unit="clip", leave=False):
        folder = f"{task_name}_{record['dataset_name']}"
        try:
            audio = inspect_audio(find_audio(root / "Chat", folder, record["path"]))
        except BadAudio as error:
            left_out[str(error)].append(f"{folder}/{record['path']}")
            continue
        except ValueError as error:
            raise DataError(f"{root / 'Chat' / 'Chat_meta.json'}, uniq_id {record['uniq_id']}: {error}") from None
        audio["sampling_rate"] = settings.audio_sample_rate or ARRAY_RATE
        docs.append({**record, "category": CATEGORY[task_name], "audio": audio})
    _report(task_name, settings, records, docs, left_out)
    return docs, dict(left_out)


def fetch(settings: AirBenchSettings, task_names: Iterable[str]) -> Path:
    """The folder that holds ``Chat/``: the local one, or the hub's copy with only the folders of these tasks.

    Raises:
        DataError: there is no such folder, or the hub cannot deliver; says what to do.
    """
    if settings.local_path is not None:
        root = SAMPLE if settings.local_path == "sample" else Path(settings.local_path).expanduser().absolute()
        if root.name == "Chat" and (root / "Chat_meta.json").is_file():
            root = root.parent
        if not (root / "Chat" / "Chat_meta.json").is_file():
            raise DataError(
                f"local_path={settings.local_path}: no Chat/Chat_meta.json in {root}. Pass the folder that contains "
                "Chat/, or leave local_path out to download the data."
            )
        return root
    return hub.download(settings.source, settings.revision, task_names)


def read_metadata(path: Path) -> list[dict[str, str]]:
    """All records of a metadata file, every field checked and a string.

    Raises:
        DataError: names the file, the record and the field that is wrong.
    """
    stat = path.stat()
    return _read_metadata(path, stat.st_size, stat.st_mtime_ns)


def forget_metadata() -> None:
    """Free the records of ``read_metadata``, which it keeps for the next of eight tasks."""
    _read_metadata.cache_clear()


@lru_cache(maxsize=2)  # eight tasks read the same file; size and time tell whether it is still the same
def _read_metadata(path: Path, _size: int, _mtime_ns: int) -> list[dict[str, str]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        with path.open("rb") as file:
            if file.read(len(LFS_POINTER)) == LFS_POINTER:
                raise DataError(f"{path} is a Git LFS pointer: run `git lfs pull` in its folder.") from None
        raise DataError(f"{path} is damaged or not complete ({error}). Download it again.") from None
    if not isinstance(found, list):
        raise DataError(f"{path} must hold one JSON list of records, not {type(found).__name__}.")
    records = [_checked(record, f"{path}, record {index}") for index, record in enumerate(found)]
    counts = Counter((record["task_name"], record["uniq_id"]) for record in records)
    twice = [f"{task} {uniq_id}" for (task, uniq_id), count in counts.items() if count > 1]
    if twice:
        raise DataError(f"{path}: uniq_id occurs more than once: {_some(twice)}. Remove the repeated records.")
    return records


def _checked(record: Any, where: str) -> dict[str, str]:
    if not isinstance(record, dict):
        raise DataError(f"{where} is {type(record).__name__}, not an object.")
    for field in FIELDS:
        value = record.get(field)
        if value is None:
            raise DataError(f"{where} has no field {field!r}.")
        kinds = (str, int) if field == "uniq_id" else (str, dict, list) if field == "meta_info" else (str,)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise DataError(f"{where}: {field} is {type(value).__name__}, not a string.")
    for field in ("path", "question", "answer_gt", "dataset_name"):
        if not record[field].strip():
            raise DataError(f"{where}: {field} is empty.")
    if record["task_name"] not in CATEGORY:
        raise DataError(f"{where}: unknown task_name {record['task_name']!r}. Valid: {', '.join(CATEGORY)}.")
    texts = {field: str(record[field]) for field in FIELDS}
    texts |= {field: sys.intern(texts[field]) for field in ("task_name", "dataset_name")}  # the same few in all records
    for field, text in texts.items():
        if not text.isascii() and text.encode("utf-8", "replace") != text.encode("utf-8", "surrogatepass"):
            raise DataError(f"{where}: {field} holds half of a surrogate pair, which is no character.")
    return texts


def _report(
    task_name: str,
    settings: AirBenchSettings,
    records: list[dict[str, str]],
    docs: list[dict[str, Any]],
    left_out: dict[str, list[str]],
) -> None:
    """Say what there is, what there should be and what was left out, with counts and causes."""
    usable = Counter(doc["dataset_name"] for doc in docs)
    sources = ", ".join(
        f"{name} {usable[name]} of {n}" for name, n in Counter(r["dataset_name"] for r in records).items()
    )
    log.info("%s: %d docs with usable audio (%s)", task_name, len(docs), sources or "no records")
    if len(records) != RECORDS[task_name] and settings.local_path != "sample":
        log.warning(
            "%s: the metadata has %d records where the official release has %d; scores are not comparable with it.",
            task_name,
            len(records),
            RECORDS[task_name],
        )
    causes = [f"{cause}: {len(names)} ({_some(names)})" for cause, names in left_out.items()]
    if causes and settings.on_bad_audio == "error":
        raise DataError(f"{task_name}: bad audio and on_bad_audio=error: {'; '.join(causes)}.")
    if causes:
        log.warning("%s: LEFT OUT OF ALL NUMBERS for bad audio: %s", task_name, "; ".join(causes))
    if not docs:
        raise NoDocs(
            f"{task_name}: no doc with usable audio ({'; '.join(causes) or 'no record in the metadata'}). Get its "
            "folder, or leave the task out with tasks=..."
        )
    long = [doc for doc in docs if doc["audio"]["seconds"] > LONG_CLIP]
    if long:
        log.warning(
            "%s: %d of %d clips are longer than %g s, which many models cut.",
            task_name,
            len(long),
            len(docs),
            LONG_CLIP,
        )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
