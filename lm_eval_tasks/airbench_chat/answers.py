"""Answers to AIR-Bench-Chat that any program made, each with its record.

Two forms: the official one (the metadata's fields and ``response``), which needs nothing else, and a short one
(``task_name``, ``uniq_id``, ``response``), whose records come from the metadata. The clips are never needed.
"""

from __future__ import annotations

from typing import Any

from lm_eval_tasks.airbench_chat.data import CHAT, fetch
from lm_eval_tasks.airbench_chat.scoring import CATEGORY, RECORDS
from lm_eval_tasks.data.records import Records, facts, fault, read_records, some
from lm_eval_tasks.runs.files import NOT_THERE, Answers, Row, one_each
from lm_eval_tasks.settings import AirBenchSettings

Key = tuple[str, str]
"""A record's task and its ``uniq_id``."""

_NONE = (None, None)
_KEY_FIELDS = ("task_name", "uniq_id")
_SAID_OF_DATA = ("local_path", "source", "revision")


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
    records = read_records(fetch(settings, []) / CHAT.file, CHAT) if named or not whole else None
    known = _by_key(records)
    answers = Answers("air_bench_chat")
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
            cause = _contradiction(fields, known.get(key))
        if cause:
            answers.leave_out(cause, row, task and _name(task))
        else:
            keyed.append((row, key))
    found = one_each(answers, keyed, lambda key: _name(key[0]))
    for task in CATEGORY:
        if records is None:
            docs = [(_record(row.fields), text) for (name, _), (row, text) in found.items() if name == task]
        else:
            docs = [(one, found.get((task, one["uniq_id"]), _NONE)[1]) for one in records.by_task.get(task, ())]
        if any(text is not None for _, text in docs):
            answers.left_out_of_data(_name(task), records.left_out.get(task, {}) if records else {})
            answers.docs[_name(task)] = [({**doc, "category": CATEGORY[task]}, text) for doc, text in docs]
    _note_lacking(answers, records)
    _note_groups(answers)
    about = {_name(t): facts(records, t, RECORDS[t]) for t in CATEGORY if _name(t) in answers.docs} if records else {}
    return answers, about


def _name(task: str) -> str:
    return f"air_bench_chat_{task}"


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


def _record(fields: dict[str, Any]) -> dict[str, str]:
    return {name: str(fields[name]) for name in CHAT.fields}


def _by_key(records: Records | None) -> dict[Key, dict[str, str]]:
    every = records.by_task.items() if records else ()
    return {(task, record["uniq_id"]): record for task, found in every for record in found}


def _note_lacking(answers: Answers, records: Records | None) -> None:
    """Note the tasks that have fewer answers than docs: in the data, or without it officially."""
    for name, docs in answers.docs.items():
        there = sum(text is not None for _, text in docs)
        due = len(docs) if records else RECORDS[name.removeprefix("air_bench_chat_")]
        if there < due:
            lost = [f"uniq_id {doc['uniq_id']}" for doc, text in docs if text is None]
            answers.lacking[name] = f"answers to {there} of {due} docs{f', {NOT_THERE}: {some(lost)}' if lost else ''}"


def _note_groups(answers: Answers) -> None:
    """A category has its row, and the average is made, only where nothing lacks."""
    whole = {
        category: [_name(task) for task in CATEGORY if CATEGORY[task] == category]
        for category in dict.fromkeys(CATEGORY.values())
    }
    there = answers.docs.keys() - answers.lacking.keys()
    for category, tasks in whole.items():
        if there.issuperset(tasks):
            answers.groups[_name(category)] = tasks
    mixed = [_name("speech_and_sound"), _name("speech_and_music")]
    if all(name in answers.groups for name in mixed):
        answers.groups[_name("mixed")] = mixed
    if len(answers.groups) == len(whole) + 1:
        answers.groups["air_bench_chat"] = [_name(name) for name in ("speech", "sound", "music", "mixed")]
