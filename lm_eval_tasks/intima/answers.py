"""Answers to INTIMA's prompts that any program made, each with its prompt.

A row has ``response`` and ``prompt``, ``code``, or both. Both together need nothing else; a prompt alone is found in
the data by its text, and a code alone where the data has one prompt of it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lm_eval_tasks.data.records import NO_CHARACTER, Records, facts, is_text, some
from lm_eval_tasks.intima.data import read_rows as read_prompts
from lm_eval_tasks.intima.scoring import CODES, OTHER, PROMPTS, find_code
from lm_eval_tasks.runs.files import NOT_THERE, Answers, Row, one_each
from lm_eval_tasks.settings import IntimaSettings

_GROUP = "intima"
_NONE = (None, None)


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
    whole = any(isinstance(r.fields, dict) and _text(r.fields, "prompt") and _text(r.fields, "code") for r in rows)
    records = read_prompts(settings) if named or not whole else None
    answers, wanted = Answers("intima"), [*CODES, *([OTHER] if settings.include_extra_codes else [])]
    docs = _of_data(records) if records else _of_rows(rows)
    places = _Places(docs)
    keyed: list[tuple[Row, str]] = []
    for row in rows:
        cause = row.fault or _fault(row.fields, needs_both=records is None)
        doc = None if cause else places.find(row.fields)
        if not cause and doc is None:
            cause = "unknown prompt: the data has none such" if "prompt" in row.fields else "a code of several prompts"
        if not cause and doc["category"] not in wanted:
            cause = "a code that the paper does not list (include_extra_codes=true takes it)"
        if cause:
            answers.leave_out(cause, row)
        else:
            keyed.append((row, doc["id"]))
    by_id = {doc["id"]: doc for doc in docs}
    found = one_each(answers, keyed, lambda key: _name(by_id[key]["category"]))
    for category in wanted:
        here = [(doc, found.get(doc["id"], _NONE)[1]) for doc in docs if doc["category"] == category]
        if any(text is not None for _, text in here):
            answers.docs[_name(category)] = here
            answers.left_out_of_data(_name(category), records.left_out.get(category, {}) if records else {})
            _note_lacking(answers, category, here, records)
    if all(_name(category) in answers.docs for category in CODES) and not answers.lacking:
        answers.groups[_GROUP] = list(answers.docs)
    about = {_name(c): facts(records, c, PROMPTS.get(c)) for c in wanted if _name(c) in answers.docs} if records else {}
    return answers, about


def _note_lacking(answers: Answers, category: str, docs: list[tuple[Any, str | None]], records: Records | None) -> None:
    """Note a category that has fewer answers than there are prompts: in the data, or without it in the paper."""
    there = sum(text is not None for _, text in docs)
    due = len(docs) if records else max(len(docs), PROMPTS.get(category, 0))
    if there < due:
        lost = [doc["prompt"][:40] for doc, text in docs if text is None]
        answers.lacking[_name(category)] = (
            f"answers to {there} of {due} prompts{f', {NOT_THERE}: {some(lost)}' if lost else ''}"
        )


class _Places:
    """Finds docs by what a row says of them; one that has a twin in the data is given once, then its twin."""

    def __init__(self, docs: list[dict[str, str]]) -> None:
        self._by_both: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
        self._by_prompt: dict[str, list[dict[str, str]]] = defaultdict(list)
        self._by_code: dict[str, list[dict[str, str]]] = defaultdict(list)
        for doc in docs:
            self._by_both[doc["prompt"].strip(), doc["code"]].append(doc)
            self._by_prompt[doc["prompt"].strip()].append(doc)
            self._by_code[doc["code"]].append(doc)
        self._given: dict[int, int] = defaultdict(int)

    def find(self, fields: dict[str, Any]) -> dict[str, str] | None:
        prompt, code = _text(fields, "prompt"), _text(fields, "code")
        if not prompt:
            same = self._by_code.get(find_code(code)[0], [])
            return same[0] if len(same) == 1 else None
        same = (self._by_both.get((prompt, find_code(code)[0])) if code else self._by_prompt.get(prompt)) or []
        if len({doc["code"] for doc in same}) > 1:
            return None
        given = self._given[id(same)]
        self._given[id(same)] += 1
        return same[min(given, len(same) - 1)] if same else None


def _of_data(records: Records) -> list[dict[str, str]]:
    return sorted((doc for docs in records.by_task.values() for doc in docs), key=lambda doc: int(doc["id"]))


def _of_rows(rows: list[Row]) -> list[dict[str, str]]:
    """A doc for each prompt of the file, in the order of the file."""
    docs: dict[tuple[str, str], dict[str, str]] = {}
    for number, row in enumerate(rows):
        if row.fault or _fault(row.fields, needs_both=True):
            continue
        code, category = find_code(row.fields["code"])
        doc = {"id": str(number), "prompt": row.fields["prompt"], "code": code, "category": category, "model": ""}
        docs.setdefault((doc["prompt"].strip(), code), doc)
    return list(docs.values())


def _fault(fields: dict[str, Any], needs_both: bool) -> str | None:
    """What is wrong with a row besides its answer."""
    for name in ("prompt", "code"):
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            return f"{name} is {type(value).__name__}, not text"
        if value and not is_text(value):
            return f"{name} {NO_CHARACTER}"
        if needs_both and not (value or "").strip():
            return f"no field {name!r}" if value is None else f"{name} is empty"
    return None if _text(fields, "prompt") or _text(fields, "code") else "neither prompt nor code"


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value.strip() if isinstance(value, str) else ""


def _name(category: str) -> str:
    return f"{_GROUP}_{category}"
