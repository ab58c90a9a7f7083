"""The records of a data set's metadata, each checked on its own: an odd one costs itself, never the run."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_tasks.data.content import NO_CHARACTER, is_text, parse_json, read_whole
from lm_eval_tasks.errors import DataError

log = logging.getLogger(f"lm_eval.{__name__}")

BAD_RECORD = "bad record: "
"""How the cause of a record that was left out begins."""

LeftOut = dict[str, list[str]]
"""Cause -> names of what was left out for it."""


class Loaded(NamedTuple):
    """The docs of a task.

    Attributes:
        docs: in the order of the data.
        left_out: what is not among them.
        facts: what the results say of the data.
        commit: of the data, where the hub or a folder tells it.
    """

    docs: list[dict[str, Any]]
    left_out: LeftOut
    facts: dict[str, Any]
    commit: str | None = None


_LISTED = 5


@dataclass(frozen=True, eq=False)
class Track:
    """What the tracks of a data set differ in.

    A track lies in a folder of the data set: one JSON list of records, and for each record a clip in the folder
    ``{task_name}_{dataset_name}``.

    Attributes:
        name: the benchmark's name, as ``lm-eval-tasks fetch`` takes it.
        folder: the track's folder below the data set's root.
        metadata: the name of its list of records.
        sample: the bundled folder that ``local_path=sample`` stands for.
        tasks: task name -> records in the official release.
        category: task name -> category, which every doc gets.
        required: fields that a record must have beside ``path``, ``task_name``, ``dataset_name`` and ``uniq_id``;
            they are text that is not empty.
        structured: those of them that may also be an object or a list, or empty.
        optional: fields that are kept where a record has them; text.
        values: those of either kind that may also be a number, true, false, an object or a list; they are kept as text,
            as Python writes it.
        check: says what else is wrong with a record whose fields are right, or None.
        locate: other names that a record's clip may have, the likeliest first.
    """

    name: str
    folder: str
    metadata: str
    sample: Path
    tasks: Mapping[str, int]
    category: Mapping[str, str]
    required: tuple[str, ...]
    structured: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    check: Callable[[dict[str, str]], str | None] = lambda record: None
    locate: Callable[[dict[str, str]], tuple[str, ...]] = lambda record: ()

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields that every record must have."""
        return ("path", *self.required, "task_name", "dataset_name", "uniq_id")

    @property
    def file(self) -> str:
        """The list of records, as a path below the data set's root."""
        return f"{self.folder}/{self.metadata}"

    def check_tasks(self, names: Iterable[str]) -> None:
        """Raise a ValueError that lists the valid names if one is unknown."""
        for name in names:
            if name not in self.tasks:
                valid = ", ".join(self.tasks)
                raise ValueError(f"{self.name}: tasks: unknown task {name!r}. Valid names: {valid}.")


@dataclass
class Records:
    """What a list of records holds.

    Attributes:
        by_task: task name -> its good records, every field a string.
        left_out: task name -> what was left out of it; under None what belongs to no task.
        repeated: task name -> the ids that records got instead of one that another record has.
        sha256: of the file.
        count: records in the file, good and bad.
    """

    by_task: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    left_out: dict[str | None, LeftOut] = field(default_factory=dict)
    repeated: dict[str, list[str]] = field(default_factory=dict)
    sha256: str = ""
    count: int = 0

    def leave_out(self, task: str | None, cause: str, name: str) -> None:
        """Note what is wrong with a record."""
        self.left_out.setdefault(task, {}).setdefault(BAD_RECORD + cause, []).append(name)


def read_records(path: Path, track: Track) -> Records:
    """Read a track's list of records; kept until ``forget_records`` or a change of the file.

    Raises:
        DataError: it is no list of records; names the file, the cause and the remedy.
    """
    try:
        stat = path.stat()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    return _read_records(path, track, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@lru_cache(maxsize=2)  # all tasks of a track read the same file
def _read_records(path: Path, track: Track, *_: int) -> Records:
    content = read_whole(path)
    found = parse_json(content, path)
    if not isinstance(found, list):
        raise DataError(f"{path} must hold one JSON list of records, not {type(found).__name__}.")
    records = Records(sha256=hashlib.sha256(content).hexdigest(), count=len(found))
    taken: set[tuple[str, str]] = set()
    for index, record in enumerate(found):
        cause = fault(record, track)
        if cause:
            known = isinstance(record, dict) and isinstance(record.get("task_name"), str)
            task = record["task_name"] if known and record["task_name"] in track.tasks else None
            records.leave_out(task, cause, _name(record, index))
            continue
        texts = {name: str(record[name]) for name in track.fields}
        texts |= {name: str(record[name]) for name in track.optional if record.get(name) is not None}
        texts |= {name: sys.intern(texts[name]) for name in ("task_name", "dataset_name")}  # few in many records
        task = texts["task_name"]
        texts["uniq_id"] = _free_id(texts["uniq_id"], task, taken, records)
        records.by_task.setdefault(task, []).append(texts)
    if None in records.left_out:
        log.warning("%s: LEFT OUT OF ALL TASKS: %s", path, describe(records.left_out[None]))
    return records


forget_records = _read_records.cache_clear


def _free_id(uniq_id: str, task: str, taken: set[tuple[str, str]], records: Records) -> str:
    """The id itself, or ``id#2``, ``id#3`` and so on where another record of the task has it."""
    free, number = uniq_id, 1
    while (task, free) in taken:
        number += 1
        free = f"{uniq_id}#{number}"
    taken.add((task, free))
    if number > 1:
        records.repeated.setdefault(task, []).append(free)
    return free


def fault(record: Any, track: Track) -> str | None:
    """What is wrong with a record, in words that are the same for all records with this fault; None if nothing is."""
    if not isinstance(record, dict):
        return f"{type(record).__name__}, not an object"
    for name in (*track.fields, *track.optional):
        value = record.get(name)
        if value is None:
            if name in track.optional:
                continue
            return f"no field {name!r}"
        kinds = (str, int) if name == "uniq_id" else (str, dict, list) if name in track.structured else (str,)
        if name not in track.values and (not isinstance(value, kinds) or isinstance(value, bool)):
            return f"{name} is {type(value).__name__}, not a string"
        text = str(value)
        if not is_text(text):
            return f"{name} {NO_CHARACTER}"
        if name not in (*track.structured, *track.optional) and not text.strip():
            return f"{name} is empty"
    if record["task_name"] not in track.tasks:
        return f"unknown task_name {record['task_name'][:60]!r}"
    return track.check(record)


def _name(record: Any, index: int) -> str:
    uniq_id = record.get("uniq_id") if isinstance(record, dict) else None
    shown = str(uniq_id)[:60].encode("ascii", "backslashreplace").decode()
    known = isinstance(uniq_id, (str, int)) and not isinstance(uniq_id, bool) and shown.strip()
    return f"record {index} (uniq_id {shown})" if known else f"record {index}"


def describe(left_out: LeftOut) -> str:
    """Causes with counts and some names."""
    return "; ".join(f"{cause}: {len(names)} ({some(names)})" for cause, names in left_out.items())


def some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return ", ".join(listed[:_LISTED]) + more


def refuse_bad(records: Records, tasks: Iterable[str], where: str | Path) -> None:
    """Raise what ``on_bad_record=error`` asks for: DataError if a record of these tasks, or of none, is odd."""
    for task in (None, *tasks):
        found = describe(records.left_out.get(task, {}))
        twice = some(records.repeated.get(task, ())) if task else ""
        said = "; ".join(part for part in (found, twice and f"uniq_id occurs more than once: {twice}") if part)
        if said:
            raise DataError(f"{where}: on_bad_record=error: {said}.")


def facts(records: Records, task: str, official: int | None) -> dict[str, Any]:
    """What the results say of the data of one task.

    Keys: ``metadata_sha256``, ``records`` (of the task in the file, good and bad), ``official_records``,
    ``repeated_ids``, and where there are any ``left_out_of_all_tasks``: records of no known task, by cause.
    """
    bad = sum(map(len, records.left_out.get(task, {}).values()))
    found = {
        "metadata_sha256": records.sha256,
        "records": len(records.by_task.get(task, ())) + bad,
        "official_records": official,
        "repeated_ids": records.repeated.get(task, []),
    }
    lost = records.left_out.get(None)
    return found | ({"left_out_of_all_tasks": lost} if lost else {})
