"""The docs of one task of a track: its good records whose clips can be sent."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lm_eval_tasks.audio.clips import ARRAY_RATE, inspect_audio
from lm_eval_tasks.audio.find import find_audio
from lm_eval_tasks.data.huggingface import commit_of
from lm_eval_tasks.data.records import (
    BAD_RECORD,
    LeftOut,
    Loaded,
    Records,
    Track,
    describe,
    facts,
    read_records,
    refuse_bad,
    some,
)
from lm_eval_tasks.errors import BadAudio, DataError, NoDocs
from lm_eval_tasks.settings import TrackSettings

log = logging.getLogger(f"lm_eval.{__name__}")

LONG_CLIP = 30.0
"""Seconds; many models hear no more than this (the window of Whisper's encoder)."""


def find_clip(root: Path, track: Track, record: dict[str, str]) -> str:
    """Where a record's clip lies.

    Raises:
        BadAudio: it is missing or ambiguous.
        ValueError: its path leaves the folder.
    """
    return find_audio(root / track.folder, clip_folder(record), *track.locate(record), record["path"])


def clip_folder(record: dict[str, str]) -> str:
    """The folder of a record's clip, below the track's."""
    return f"{record['task_name']}_{record['dataset_name']}"


def load_track(root: Path, track: Track, settings: TrackSettings, task: str) -> Loaded:
    """The docs of one task whose clips can be sent.

    Args:
        root: the folder that holds the track's.
        track: which track.
        settings: what to do about bad audio and odd records.
        task: one of the track's.

    Raises:
        DataError: the metadata is no list of records, or something is bad and must not be.
        NoDocs: no doc of this task is usable.
    """
    path = root / track.file
    records = read_records(path, track)
    if settings.on_bad_record == "error":
        refuse_bad(records, [task], path)
    found = records.by_task.get(task, [])
    left_out: LeftOut = {cause: list(names) for cause, names in records.left_out.get(task, {}).items()}
    docs = []
    for record, audio in zip(found, _checked(root, track, found, settings.max_audio_seconds, task), strict=True):
        if isinstance(audio, dict):
            audio["sampling_rate"] = settings.audio_sample_rate or ARRAY_RATE
            docs.append({**record, "category": track.category[task], "audio": audio})
        elif isinstance(audio, BadAudio):
            left_out.setdefault(str(audio), []).append(f"{clip_folder(record)}/{record['path']}")
        else:
            if settings.on_bad_record == "error":
                raise DataError(f"{path}: on_bad_record=error: uniq_id {record['uniq_id']}: {audio}")
            cause = f"{BAD_RECORD}path leaves the data folder"
            left_out.setdefault(cause, []).append(f"uniq_id {record['uniq_id']}")
    _report(task, settings, records, docs, left_out, track)
    return Loaded(docs, left_out, facts(records, task, track.tasks[task]), commit_of(root))


def _checked(
    root: Path, track: Track, records: list[dict[str, str]], max_seconds: float, task: str
) -> Iterator[dict[str, Any] | ValueError]:
    """What each record's clip is, or what is wrong with it; several at a time, in the order of the records."""

    def check(record: dict[str, str]) -> dict[str, Any] | ValueError:
        try:
            return inspect_audio(find_clip(root, track, record), max_seconds)
        except ValueError as error:  # BadAudio, or a path that leaves the folder
            return error

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1), "check-audio") as pool:
        found = pool.map(check, records)
        yield from tqdm(found, f"Checking audio of {task}", len(records), unit="clip", leave=False)


def _report(
    task: str,
    settings: TrackSettings,
    records: Records,
    docs: list[dict[str, Any]],
    left_out: LeftOut,
    track: Track,
) -> None:
    """Say what there is, what there should be and what was left out, with counts and causes."""
    good = records.by_task.get(task, [])
    usable, known = (Counter(one["dataset_name"] for one in several) for several in (docs, good))
    sources = ", ".join(f"{name} {usable[name]} of {count}" for name, count in known.items())
    log.info("%s: %d docs with usable audio (%s)", task, len(docs), sources or "no records")
    bad = {cause: names for cause, names in left_out.items() if cause.startswith(BAD_RECORD)}
    clips = {cause: names for cause, names in left_out.items() if cause not in bad}
    there = len(good) + sum(len(names) for names in records.left_out.get(task, {}).values())
    if there != track.tasks[task] and settings.local_path != "sample":
        text = "%s: the metadata has %d records where the official release has %d; scores are not comparable with it."
        log.warning(text, task, there, track.tasks[task])
    if records.repeated.get(task):
        text, repeated = "%s: %d records repeat an id and are kept under a new one: %s", records.repeated[task]
        log.warning(text, task, len(repeated), some(repeated))
    if clips and settings.on_bad_audio == "error":
        raise DataError(f"{task}: bad audio and on_bad_audio=error: {describe(clips)}.")
    if clips:
        log.warning("%s: LEFT OUT OF EVERY SCORE for bad audio: %s", task, describe(clips))
    if bad:
        log.warning("%s: LEFT OUT OF EVERY SCORE: %s", task, describe(bad))
    if not docs:
        raise NoDocs(
            f"{task}: no doc with usable audio ({describe(left_out) or 'no record in the metadata'}). Get its "
            "folder, or leave the task out with tasks=..."
        )
    long = sum(doc["audio"]["seconds"] > LONG_CLIP for doc in docs)
    if long:
        text = "%s: %d of %d clips are longer than %g s, which many models cut."
        log.warning(text, task, long, len(docs), LONG_CLIP)
