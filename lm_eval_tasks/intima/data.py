"""Reads INTIMA's prompts from the hub or from a file, and checks every row."""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import datasets

from lm_eval_tasks.data.huggingface import commit_of, snapshot
from lm_eval_tasks.errors import DataError, NoDocs
from lm_eval_tasks.harness.compat import warning_once
from lm_eval_tasks.intima.scoring import CODES, OTHER, PROMPTS, find_code
from lm_eval_tasks.settings import IntimaSettings

log = logging.getLogger(f"lm_eval.{__name__}")

SAMPLE = Path(__file__).with_name("sample.jsonl")
HUGGINGFACE_ID = "AI-companionship/INTIMA"
COLUMNS = ("prompt", "code", "model")
PATTERNS = ["README.md", "*.csv", "*.json", "*.jsonl", "*.parquet", "*.arrow"]
"""The hub's files that are rows, or say which are."""
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    ".json": ("json", {}),
    ".jsonl": ("json", {}),
    ".csv": ("csv", {"keep_default_na": False, "encoding": "utf-8-sig"}),  # "None" and "NA" are words here
    ".parquet": ("parquet", {}),
}
"""A file's ending -> how ``datasets`` is to read it."""


def load_docs(settings: IntimaSettings, category: str) -> list[dict[str, str]]:
    """The docs of one category, in the order of the data.

    Args:
        settings: where the data is, and whether codes that the paper does not list are asked for.
        category: a key of ``scoring.CODES``, or ``other``.

    Returns:
        Dicts of ``id`` (the row's number from 0), ``prompt``, ``code`` (as the paper spells it), ``category`` and
        ``model`` (who wrote the prompt).

    Raises:
        DataError: the data cannot be had or a row is not usable.
        NoDocs: the data has no prompt of this category, or the category is not asked for.
    """
    if category == OTHER and not settings.include_extra_codes:
        raise NoDocs(
            "intima_other holds the prompts of codes that the paper does not list; they are read only with "
            "include_extra_codes=true in --metadata. The paper's prompts are in the group intima."
        )
    docs = read_docs(settings)
    _report(settings, docs)
    found = [doc for doc in docs if doc["category"] == category]
    if not found:
        wanted = (
            "a code that the paper does not list" if category == OTHER else f"{category} ({_listed(CODES[category])})"
        )
        raise NoDocs(f"{_name(settings)} has no prompt of {wanted}.")
    return found


def read_docs(settings: IntimaSettings) -> list[dict[str, str]]:
    """All rows as docs, those of codes that the paper does not list under the category ``other``.

    Raises:
        DataError: names the file, the row, the column and the remedy.
    """
    if settings.local_path is None:
        return _from_hub(settings.revision)
    path = SAMPLE if settings.local_path == "sample" else Path(settings.local_path).expanduser().absolute()
    _check_path(path, settings.local_path)
    stat = path.stat()
    return _from_file(path, stat.st_size, stat.st_mtime_ns)


def fetch(settings: IntimaSettings) -> Path:
    """Download the hub's copy, so that a later run needs no network.

    Returns:
        The folder that holds it.

    Raises:
        DataError: the hub cannot deliver.
    """
    try:
        return snapshot(HUGGINGFACE_ID, settings.revision, PATTERNS)
    except Exception as error:  # the client raises a dozen kinds, all of which mean the same here
        revision = settings.revision
        undo = '(--model_args revision=... counts too; {"intima": {"revision": null}} in --metadata undoes it)'
        at = f" at revision {revision!r} {undo}" if revision else ""
        cause = " ".join(str(error).split())[:300]
        raise DataError(
            f"{HUGGINGFACE_ID} could not be loaded{at}: {type(error).__name__}: {cause}. Fetch it ahead "
            "with `lm-eval-tasks fetch intima` where there is a network, or pass a file as local_path."
        ) from error


def data_revision(settings: IntimaSettings) -> str | None:
    """The commit of the hub's copy that is read, or None where it is a file."""
    return commit_of(_hub_copy(settings.revision)) if settings.local_path is None else None


@lru_cache(maxsize=2)  # the hub is asked once for all categories
def _hub_copy(revision: str | None) -> Path:
    return fetch(IntimaSettings(revision=revision))


@lru_cache(maxsize=2)  # each category reads the same rows
def _from_hub(revision: str | None) -> list[dict[str, str]]:
    root = _hub_copy(revision)
    try:  # from the folder and not by its id, because datasets takes any revision that it has where the hub is off
        return _docs(_read(str(root)), HUGGINGFACE_ID)
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{HUGGINGFACE_ID} in {root} cannot be read ({_cause(error)}). Remove that folder to download it again."
        ) from error


def _read(source: str, **options: Any) -> datasets.Dataset:
    """Let ``datasets`` read a folder or, with ``data_files``, a file, and keep no copy of it."""
    with tempfile.TemporaryDirectory() as scratch:
        return datasets.load_dataset(source, split="train", cache_dir=scratch, keep_in_memory=True, **options)


def _cause(error: Exception) -> str:
    cause = error.__cause__ or error
    return str(cause)[:300].rstrip(".") or type(cause).__name__


@lru_cache(maxsize=2)  # size and time tell whether it is still the same file
def _from_file(path: Path, _size: int, _mtime_ns: int) -> list[dict[str, str]]:
    kind, options = FORMATS[path.suffix.lower()]
    try:
        rows = _read(kind, data_files=str(path), **options)
    except Exception as error:  # as many kinds as there are ways to damage a file
        raise DataError(
            f"{path} cannot be read as {kind} ({_cause(error)}). It must be UTF-8 and hold one row for each prompt "
            f"with the columns {_listed(COLUMNS)}."
        ) from None
    return _docs(rows, str(path))


def _check_path(path: Path, given: str) -> None:
    if path.is_dir():
        whose = "looks like AIR-Bench-Chat's" if path.name == "Chat" or (path / "Chat").exists() else "is a folder"
        raise DataError(
            f"local_path={given} {whose}, and INTIMA reads a file ({_listed(FORMATS)}). In a run of both benchmarks, "
            'add {"intima": {"local_path": "FILE"}} to --metadata; null instead of "FILE" loads it from the hub.'
        )
    if not path.is_file():
        raise DataError(f"local_path={given}: there is no file {path}. Leave local_path out to load {HUGGINGFACE_ID}.")
    if path.suffix.lower() not in FORMATS:
        raise DataError(f"local_path={given}: the name of INTIMA's file must end in one of {_listed(FORMATS)}.")


def _docs(rows: datasets.Dataset, where: str) -> list[dict[str, str]]:
    lacking = [column for column in COLUMNS if column not in rows.column_names]
    if lacking:
        raise DataError(
            f"{where} has no column {_listed(lacking)}; its columns are {_listed(rows.column_names)}. Name them "
            f"{_listed(COLUMNS)} (model, who wrote the prompt, may be empty)."
        )
    return [_doc(row, number, where) for number, row in enumerate(rows.select_columns(list(COLUMNS)))]


def _doc(row: dict[str, Any], number: int, where: str) -> dict[str, str]:
    for column, value in row.items():
        if column == "model" and value is None:
            continue
        if value is not None and not isinstance(value, str):
            raise DataError(
                f"{where}, row {number + 1}: {column} is {type(value).__name__}, not text. Put it in quotes."
            )
        if column != "model" and not (value or "").strip():
            raise DataError(f"{where}, row {number + 1}: {column} is empty. Fill it in, or remove the row.")
    code, category = find_code(row["code"])
    return {
        "id": str(number),
        "prompt": row["prompt"],
        "code": code,
        "category": category,
        "model": row["model"] or "",
    }


def _report(settings: IntimaSettings, docs: list[dict[str, str]]) -> None:
    """Say once how the rows differ from the paper's, with their numbers."""
    name, found = _name(settings), Counter(doc["category"] for doc in docs)
    others = Counter(doc["code"] for doc in docs if doc["category"] == OTHER)
    if others:
        fate = (
            "They run as intima_other, outside the group's numbers."
            if settings.include_extra_codes
            else "They are left out; include_extra_codes=true runs them as intima_other, outside the group's numbers."
        )
        codes = ", ".join(f"{code} ({count})" for code, count in others.items())
        text = "%s: %d of its %d rows have a code that the paper does not list: %s. %s"
        warning_once(log, text, name, found[OTHER], len(docs), codes, fate)
    wrong = [
        f"{category} {found[category]}, not {count}" for category, count in PROMPTS.items() if found[category] != count
    ]
    if wrong and settings.local_path != "sample":
        text = (
            "%s: %d prompts of the paper's codes, where the paper has %d (%s). Do not compare rates with other runs'."
        )
        warning_once(log, text, name, len(docs) - found[OTHER], sum(PROMPTS.values()), "; ".join(wrong))


def _name(settings: IntimaSettings) -> str:
    return HUGGINGFACE_ID if settings.local_path is None else f"local_path={settings.local_path}"


def _listed(names: Any) -> str:
    return ", ".join(names)
