"""Answers to INTIMA's prompts that any program made, each with its prompt.

A row has ``response`` and ``prompt``, ``code``, or both. Both together need nothing else; a prompt alone is found in
the data by its text, and a code alone where the data has one prompt of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from lm_eval_tasks.intima import data
from lm_eval_tasks.intima.scoring import CODES, OTHER, PROMPTS, find_code
from lm_eval_tasks.runs.files import Answers, Row, join
from lm_eval_tasks.settings import IntimaSettings

_FIELDS = ("prompt", "code")


def match(rows: list[Row], settings: IntimaSettings) -> tuple[Answers, dict[str, Any]]:
    """Find the prompt of each answer, and what lacks.

    The data is read where the settings name it, or where no row holds both prompt and code. A prompt that the data has
    several times takes as many rows, in their order. Without the data, a category is complete when it has as many
    answers as the paper has prompts.

    Returns:
        The answers, and task -> what is known of its data.

    Raises:
        DataError: the data is needed and cannot be had.
    """
    named = any(name in settings.model_fields_set for name in ("local_path", "revision"))
    whole = any(data.fault(row.fields, _FIELDS, _FIELDS) is None for row in rows)
    records = data.read_rows(settings) if named or not whole else None
    needed = () if records else _FIELDS
    docs = [doc for found in records.by_task.values() for doc in found] if records else list(_of_rows(rows))
    wanted = [*CODES, *([OTHER] if settings.include_extra_codes else [])]
    answers, places = Answers("intima"), _Places(docs)
    keyed: list[tuple[Row, str]] = []
    for row in rows:
        cause = row.fault or data.fault(row.fields, needed, _FIELDS)
        doc = None if cause else places.find(row.fields)
        if not cause and doc is None:
            prompt, code = ((row.fields.get(name) or "").strip() for name in _FIELDS)
            cause = "unknown prompt: the data has none such" if prompt else "a code of several prompts"
            cause = cause if prompt or code else "neither prompt nor code"
        if not cause and doc["category"] not in wanted:
            cause = "a code that the paper does not list (include_extra_codes=true takes it)"
        if cause:
            answers.leave_out(cause, row)
        else:
            keyed.append((row, doc["id"]))
    by_category = {one: {doc["id"]: doc for doc in docs if doc["category"] == one} for one in wanted}
    about = join(answers, keyed, by_category, PROMPTS, records, lambda doc: doc["prompt"][:40])
    if all(answers.name(category) in answers.docs for category in CODES) and not answers.lacking:
        answers.groups["intima"] = list(answers.docs)
    return answers, about


class _Places:
    """Finds docs by what a row says of them; one that has a twin in the data is given once, then its twin."""

    def __init__(self, docs: list[dict[str, str]]) -> None:
        self._docs: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
        for doc in docs:
            prompt, code = doc["prompt"].strip(), doc["code"]
            for said in ((prompt, code), (prompt, ""), ("", code)):
                self._docs[said].append(doc)
        self._given: Counter[tuple[str, str]] = Counter()

    def find(self, fields: dict[str, Any]) -> dict[str, str] | None:
        said = (fields.get("prompt") or "").strip(), find_code(fields.get("code") or "")[0]
        same = self._docs.get(said, [])
        if len({doc["code"] for doc in same}) != 1 or (len(same) > 1 and not said[0]):
            return None
        which = said[0], same[0]["code"]
        self._given[which] += 1
        return same[min(self._given[which], len(same)) - 1]


def _of_rows(rows: list[Row]) -> Iterable[dict[str, str]]:
    """A doc for each prompt of the file, in the order of the file."""
    docs: dict[tuple[str, str], dict[str, str]] = {}
    for number, row in enumerate(rows):
        if row.fault or data.fault(row.fields, _FIELDS, _FIELDS):
            continue
        code, category = find_code(row.fields["code"])
        doc = {"id": str(number), "prompt": row.fields["prompt"], "code": code, "category": category, "model": ""}
        docs.setdefault((doc["prompt"].strip(), code), doc)
    return docs.values()
