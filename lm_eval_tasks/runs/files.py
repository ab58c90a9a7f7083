"""Files of answers that any program made: their rows, and the stored run that they become, ready to be judged."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from lm_eval_tasks.data import content
from lm_eval_tasks.data.content import NO_CHARACTER, is_text
from lm_eval_tasks.data.records import Records, facts, some
from lm_eval_tasks.errors import DataError

NOT_THERE = "not in the file"
"""Why a doc has no answer that the file does not speak of."""

NOT_KNOWN = ("audio_part", "audio_sample_rate", "max_audio_seconds")
"""Settings of how audio was sent, which a file of answers does not tell."""


_TWICE = object()
"""What a row is read as in which a field has two values."""


@dataclass(frozen=True)
class Row:
    """One answer of a file, not looked at yet.

    Attributes:
        place: where it stands: ``line 3``, or ``item 3`` of a list.
        fields: what the file has there; anything that JSON can hold.
    """

    place: str
    fields: Any

    @property
    def fault(self) -> str | None:
        """What is wrong with the answer itself, in words that are the same for all rows with this fault."""
        if self.fields is _TWICE:
            return "a field twice, with different values"
        if not isinstance(self.fields, dict):
            return "no JSON object"
        if "response" not in self.fields:
            return "no field 'response'"
        answer = self.fields["response"]
        if not isinstance(answer, str):
            return f"response is {type(answer).__name__}, not text"
        return None if is_text(answer) else f"response {NO_CHARACTER}"


@dataclass
class Answers:
    """The answers of a file, each with its doc.

    Attributes:
        benchmark: ``air_bench_chat`` or ``intima``.
        docs: task (lm-eval's name) -> its docs in their order, each with its answer, or None where there is none.
        unusable: what is wrong -> the places of rows that count nowhere, or that say nothing new.
        left_out: task -> what is wrong -> places; the part of ``unusable`` that belongs to a task.
        lacking: task -> in a few words what keeps it from being complete.
        groups: group -> its tasks, for the groups of which everything is there.
        lost: how many rows hold an answer that counts nowhere, though it should.
    """

    benchmark: str
    docs: dict[str, list[tuple[dict[str, Any], str | None]]] = field(default_factory=dict)
    unusable: dict[str, list[str]] = field(default_factory=dict)
    left_out: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    lost: int = 0

    def leave_out(self, cause: str, row: Row, task: str | None = None, lost: bool = True) -> None:
        """Note that a row counts nowhere; with its task, that the task lacks it."""
        self.lost += lost
        self.unusable.setdefault(cause, []).append(row.place)
        if task:
            self.left_out.setdefault(task, {}).setdefault(cause, []).append(row.place)

    def name(self, task: str) -> str:
        """lm-eval's name of what the data calls a task or category."""
        return f"{self.benchmark}_{task}"

    def problems(self) -> list[str]:
        """Everything that is wrong, one line each, with counts and places."""
        rows = [f"{cause}: {len(places)} ({some(places)})" for cause, places in self.unusable.items()]
        return rows + [f"{task} is not complete: {what}" for task, what in self.lacking.items()]


def read_rows(path: Path) -> list[Row]:
    """The rows of a file: one JSON object a line, or one JSON list.

    Raises:
        DataError: it cannot be read, or holds no row.
    """
    rows = [Row(place, fields) for place, fields in content.read_rows(content.read_whole(path), path, _fields)]
    if not any(isinstance(row.fields, dict) for row in rows):
        raise DataError(f"{path} holds no answers: it must be one JSON object a line, or one JSON list of objects.")
    return rows


def _fields(pairs: list[tuple[str, Any]]) -> Any:
    """A JSON object's fields, each of which must have one value."""
    found = dict(pairs)
    return found if all(found[name] is value or found[name] == value for name, value in pairs) else _TWICE


def model_of(row: Row, fields: Iterable[str]) -> str:
    """The model that a row says it is of, by the first of these fields that says so; "" where none does."""
    found = row.fields if isinstance(row.fields, dict) else {}
    return next((found[name].strip() for name in fields if isinstance(found.get(name), str)), "")


def join(
    answers: Answers,
    rows: Iterable[tuple[Row, Any]],
    docs: Mapping[str, Mapping[Any, dict[str, Any]]],
    official: Mapping[str, int],
    data: Records | None,
    named: Callable[[dict[str, Any]], str],
) -> dict[str, Any]:
    """Put each answer beside its doc. What is said twice counts once, and contradictions count not at all.

    Args:
        answers: gets the docs, and notes what is left out and what lacks.
        rows: each with the key of its doc.
        docs: task, as the data names it -> key -> doc; from the data, or else from the rows themselves.
        official: task -> docs in the official release, by which it is complete where the data is not there.
        data: the data, where it is there.
        named: a doc in a few words.

    Returns:
        Task (lm-eval's name) -> what the results say of its data.
    """
    task_of = {key: answers.name(task) for task, its in docs.items() for key in its}
    by_key: dict[Any, list[Row]] = defaultdict(list)
    for row, key in rows:
        by_key[key].append(row)
    found: dict[Any, str] = {}
    for key, (first, *others) in by_key.items():
        if any(row.fields["response"] != first.fields["response"] for row in others):
            for row in (first, *others):
                answers.leave_out("an id twice, with different answers", row, task_of[key])
            continue
        found[key] = first.fields["response"]
        for row in others:
            answers.leave_out("an id twice, with the same answer, which counts once", row, lost=False)
    about = {}
    for task, its in docs.items():
        name, here = answers.name(task), [(doc, found.get(key)) for key, doc in its.items() if data or key in found]
        there = sum(text is not None for _, text in here)
        if not there:
            continue
        answers.docs[name] = here
        due = len(here) if data else max(len(here), official.get(task, 0))
        if there < due:
            lost = [named(doc) for doc, text in here if text is None]
            answers.lacking[name] = f"answers to {there} of {due} docs{f', {NOT_THERE}: {some(lost)}' if lost else ''}"
        if data:
            about[name] = facts(data, task, official.get(task))
            for cause, names in data.left_out.get(task, {}).items():
                answers.left_out.setdefault(name, {}).setdefault(cause, []).extend(names)
    return about


def store(answers: Answers, folder: Path, model: str, about: dict[str, Any]) -> Path:
    """Write answers as lm-eval stores a run, so that they can be judged as those of any run.

    Args:
        answers: what to write.
        folder: where; it must be there.
        model: the name of the model that answered.
        about: task -> what the results say of its data.

    Returns:
        The results file, as ``runs.stored.load_run`` takes it.
    """
    date = datetime.now().isoformat(timespec="microseconds").replace(":", "-")  # as lm-eval names its files
    run: dict[str, Any] = {"results": {}, "configs": {}, "n-samples": {}, "model_name": model}
    run["group_subtasks"] = answers.groups
    run["config"], run["not_known"] = {"model": "a file of answers"}, NOT_KNOWN
    for task, docs in answers.docs.items():
        noted = {"left_out": answers.left_out[task]} if task in answers.left_out else {}
        metadata = {"benchmark": answers.benchmark, "data": about.get(task, {}), **noted}
        run["configs"][task] = {"task": task, "metadata": metadata}
        run["n-samples"][task] = {"original": len(docs), "effective": len(docs)}
        with (folder / f"samples_{task}_{date}.jsonl").open("w", encoding="utf-8") as file:
            for number, (doc, answer) in enumerate(docs):
                sample = {"doc_id": number, "doc": doc, "resps": [[answer or ""]]}
                sample |= {"unanswered": NOT_THERE} if answer is None else {}
                file.write(json.dumps(sample, ensure_ascii=False) + "\n")
    results = folder / f"results_{date}.json"
    results.write_text(json.dumps(run, ensure_ascii=False), encoding="utf-8")
    return results


def as_name(text: str) -> str:
    """A text as the name of a file or folder."""
    return re.sub(r"[^\w.+-]+", "_", text).lstrip(".")[:100] or "run"
