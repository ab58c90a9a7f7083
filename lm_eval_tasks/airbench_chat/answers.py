"""Answers to AIR-Bench-Chat that any program made, each with its record.

Two forms: the official one (the metadata's fields and ``response``), which needs nothing else, and a short one
(``task_name``, ``uniq_id``, ``response``), whose records come from the metadata. The clips are never needed.
"""

from __future__ import annotations

from typing import Any

from lm_eval_tasks.airbench_chat.data import CHAT
from lm_eval_tasks.airbench_chat.scoring import CATEGORY, RECORDS
from lm_eval_tasks.data import hub
from lm_eval_tasks.data.records import fault, read_records
from lm_eval_tasks.runs.files import Answers, Row, join
from lm_eval_tasks.settings import AirBenchSettings

Key = tuple[str, str]
"""A record's task and its ``uniq_id``."""

_KEY_FIELDS = ("task_name", "uniq_id")
_SAID_OF_DATA = ("local_path", "source", "revision")
_MEANS = {
    "air_bench_chat_mixed": ["air_bench_chat_speech_and_sound", "air_bench_chat_speech_and_music"],
    "air_bench_chat": [f"air_bench_chat_{name}" for name in ("speech", "sound", "music", "mixed")],
}
"""Groups that are means of others: each has a value only where nothing lacks."""


def match(rows: list[Row], settings: AirBenchSettings) -> tuple[Answers, dict[str, Any]]:
    """Find the record of each answer, and what lacks.

    The metadata is read where the settings name it, or where no row holds a whole record. Then a row's own question,
    reference and description must be the record's, and a doc without a row is known to lack its answer. Without it,
    a task is complete when it has as many answers as the official release has records.

    Returns:
        The answers, and task -> what is known of its data.

    Raises:
        DataError: the metadata is needed and cannot be had.
        ValueError: ``tasks`` names an unknown one.
    """
    CHAT.check_tasks(settings.tasks or ())
    named = any(name in settings.model_fields_set for name in _SAID_OF_DATA)
    whole = any(_is_whole(row.fields) for row in rows)
    records = read_records(hub.fetch(CHAT, settings, []) / CHAT.file, CHAT) if named or not whole else None
    docs: dict[str, dict[Key, dict[str, str]]] = {task: {} for task in CATEGORY}
    for task, found in records.by_task.items() if records else ():
        docs[task] = {(task, one["uniq_id"]): {**one, "category": CATEGORY[task]} for one in found}
    answers = Answers(CHAT.name)
    keyed: list[tuple[Row, Key]] = []
    for row in rows:
        fields = row.fields if isinstance(row.fields, dict) else {}
        task = fields.get("task_name")
        task = task if isinstance(task, str) and task in CATEGORY else None
        if task and settings.tasks and task not in settings.tasks:
            answers.leave_out("of a task that is not in tasks", row, lost=False)
            continue
        cause = row.fault or _fault(fields, needs_record=records is None)
        key = (str(task), str(fields.get("uniq_id")))
        if cause is None and records:
            cause = _contradiction(fields, docs[key[0]].get(key))
        if cause:
            answers.leave_out(cause, row, task and answers.name(task))
            continue
        keyed.append((row, key))
        if records is None:
            record = {name: str(fields[name]) for name in CHAT.fields}
            docs[key[0]].setdefault(key, {**record, "category": CATEGORY[key[0]]})
    about = join(answers, keyed, docs, RECORDS, records, lambda doc: f"uniq_id {doc['uniq_id']}")
    whole_ones = answers.docs.keys() - answers.lacking.keys()
    for category in dict.fromkeys(CATEGORY.values()):
        tasks = [answers.name(task) for task in CATEGORY if CATEGORY[task] == category]
        if whole_ones.issuperset(tasks):
            answers.groups[answers.name(category)] = tasks
    for group, members in _MEANS.items():
        if answers.groups.keys() >= set(members):
            answers.groups[group] = members
    return answers, about


def _is_whole(fields: Any) -> bool:
    return isinstance(fields, dict) and all(name in fields for name in CHAT.fields)


def _fault(fields: dict[str, Any], needs_record: bool) -> str | None:
    """What is wrong with a row besides its answer."""
    if needs_record or _is_whole(fields):
        return fault(fields, CHAT)
    for name in _KEY_FIELDS:
        value = fields.get(name)
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            return f"no field {name!r}" if value is None else f"{name} is {type(value).__name__}, not a string"
    return None if fields["task_name"] in CATEGORY else f"unknown task_name {str(fields['task_name'])[:60]!r}"


def _contradiction(fields: dict[str, Any], record: dict[str, str] | None) -> str | None:
    """What keeps a row from being an answer to the record of its id."""
    if record is None:
        return "unknown id: the metadata has no such record of this task"
    other = [name for name in CHAT.required if name in fields and str(fields[name]) != record[name]]
    return f"{other[0]} is another one than the metadata has for this id" if other else None
