"""Reads INTIMA's prompts from the hub or from a file, and checks every row."""

from __future__ import annotations

import csv
import io
import logging
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import datasets

from lm_eval_tasks.data import content
from lm_eval_tasks.data.content import NO_CHARACTER, is_text
from lm_eval_tasks.data.huggingface import commit_of, snapshot
from lm_eval_tasks.data.records import Loaded, Records, describe, facts, refuse_bad
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
FORMATS = (".json", ".jsonl", ".csv", ".parquet")


def load_docs(settings: IntimaSettings, category: str) -> Loaded:
    """The docs of one category.

    Args:
        settings: where the data is, and whether codes that the paper does not list are asked for.
        category: a key of ``scoring.CODES``, or ``other``.

    Returns:
        Dicts of ``id`` (the row's number from 0), ``prompt``, ``code`` (as the paper spells it), ``category`` and
        ``model`` (who wrote the prompt); rows of this category that are not usable, by cause; and facts.

    Raises:
        DataError: the data cannot be had, it is no list of rows, or a row is not usable and must be.
        NoDocs: the data has no prompt of this category, or the category is not asked for.
    """
    if category == OTHER and not settings.include_extra_codes:
        raise NoDocs(
            "intima_other holds the prompts of codes that the paper does not list; they are read only with "
            "include_extra_codes=true in --metadata. The paper's prompts are in the group intima."
        )
    records, where = read_rows(settings), _name(settings)
    if settings.on_bad_record == "error":
        refuse_bad(records, [*CODES, OTHER], where)
    _report(settings, [doc for docs in records.by_task.values() for doc in docs])
    found, left_out = records.by_task.get(category, []), records.left_out.get(category, {})
    if left_out:
        log.warning("%s: LEFT OUT OF EVERY SCORE: %s", category, describe(left_out))
    if not found:
        wanted = (
            "a code that the paper does not list" if category == OTHER else f"{category} ({_listed(CODES[category])})"
        )
        raise NoDocs(f"{where} has no prompt of {wanted}{'; ' if left_out else ''}{describe(left_out)}.")
    commit = commit_of(_hub_copy(settings.revision)) if settings.local_path is None else None
    return Loaded(found, left_out, facts(records, category, PROMPTS.get(category)), commit)


def read_rows(settings: IntimaSettings) -> Records:
    """All rows, by category; under None those that have none.

    Raises:
        DataError: they are no list of rows; names the file, the cause and the remedy.
    """
    if settings.local_path is None:
        return _from_hub(settings.revision)
    path = SAMPLE if settings.local_path == "sample" else Path(settings.local_path).expanduser().absolute()
    _check_path(path, settings.local_path)
    stat = path.stat()
    return _from_file(path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


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
            f"{HUGGINGFACE_ID} could not be loaded{at}: {type(error).__name__}: {cause}. Fetch it in "
            "advance with `lm-eval-tasks fetch intima`, or pass a file as local_path."
        ) from error


@lru_cache(maxsize=2)  # the hub is asked once for all categories
def _hub_copy(revision: str | None) -> Path:
    return fetch(IntimaSettings(revision=revision))


@lru_cache(maxsize=2)  # each category reads the same rows
def _from_hub(revision: str | None) -> Records:
    root = _hub_copy(revision)
    try:  # from the folder and not by its id, because datasets takes any revision that it has where the hub is off
        rows = _read(str(root))
        digest = sha256()
        for path in sorted(path for path in root.rglob("*") if path.suffix in FORMATS):
            digest.update(path.read_bytes())
        return _records(enumerate(rows), rows.column_names, HUGGINGFACE_ID, digest.hexdigest())
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


@lru_cache(maxsize=2)  # size and times tell whether it is still the same file
def _from_file(path: Path, *_: int) -> Records:
    raw, kind = content.read_whole(path), path.suffix.lower().removeprefix(".")
    try:
        if kind == "parquet":
            rows: list[Any] = list(_read("parquet", data_files=str(path)))
        elif kind == "csv":  # what is no UTF-8 spoils its own row only
            rows = list(csv.DictReader(io.StringIO(raw.decode("utf-8-sig", "surrogateescape"), newline="")))
        else:
            rows = [row for _, row in content.read_rows(raw, path)]
        columns = list(dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row))
        if not any(isinstance(row, dict) for row in rows):
            raise ValueError("it holds no rows")
    except DataError:
        raise
    except Exception as error:  # as many kinds as there are ways to damage a file
        raise DataError(
            f"{path} cannot be read as {kind} ({_cause(error)}). It must be UTF-8 and hold one row for each prompt "
            f"with the columns {_listed(COLUMNS)}."
        ) from None
    return _records(enumerate(rows), columns, str(path), sha256(raw).hexdigest())


def _check_path(path: Path, given: str) -> None:
    if path.is_dir():
        whose = "looks like AIR-Bench-Chat's" if path.name == "Chat" or (path / "Chat").exists() else "is a folder"
        raise DataError(
            f"local_path={given} {whose}, and INTIMA reads a file ({_listed(FORMATS)}). In a run of both benchmarks, "
            'add {"intima": {"local_path": "FILE"}} to --metadata; null instead of "FILE" loads it from the hub.'
        )
    if not path.exists():
        raise DataError(f"local_path={given}: there is no file {path}. Leave local_path out to load {HUGGINGFACE_ID}.")
    if path.suffix.lower() not in FORMATS:
        raise DataError(f"local_path={given}: the name of INTIMA's file must end in one of {_listed(FORMATS)}.")


def _records(rows: Iterable[tuple[int, Any]], columns: list[str], where: str, digest: str) -> Records:
    lacking = [column for column in COLUMNS if column not in columns]
    if lacking:
        raise DataError(
            f"{where} has no column {_listed(lacking)}; its columns are {_listed(map(str, columns))}. Name them "
            f"{_listed(COLUMNS)} (model, who wrote the prompt, may be empty)."
        )
    records = Records(sha256=digest)
    for number, row in rows:
        records.count += 1
        code = row.get("code") if isinstance(row, dict) else None
        code, category = find_code(code) if isinstance(code, str) and code.strip() else ("", None)
        cause = fault(row)
        if cause:
            records.leave_out(category, cause, f"row {number + 1}")
            continue
        doc = {"id": str(number), "prompt": row["prompt"], "code": code, "category": category}
        records.by_task.setdefault(category, []).append(doc | {"model": row.get("model") or ""})
    if None in records.left_out:
        log.warning("%s: LEFT OUT OF ALL TASKS: %s", where, describe(records.left_out[None]))
    return records


def fault(row: Any, needed: Collection[str] = ("prompt", "code"), columns: Collection[str] = COLUMNS) -> str | None:
    """What is wrong with a row, in words that are the same for all rows with this fault; None if nothing is."""
    if not isinstance(row, dict):
        return f"{type(row).__name__}, not an object"
    for column in columns:
        value = row.get(column)
        if value is not None and not isinstance(value, str):
            return f"{column} is {type(value).__name__}, not text"
        if column in needed and not (value or "").strip():
            return f"{column} is empty"
        if not is_text(value or ""):
            return f"{column} {NO_CHARACTER}"
    return None


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
        text = "%s: %d prompts of the paper's codes, where the paper has %d (%s); rates are not comparable with others."
        warning_once(log, text, name, len(docs) - found[OTHER], sum(PROMPTS.values()), "; ".join(wrong))


def _name(settings: IntimaSettings) -> str:
    return HUGGINGFACE_ID if settings.local_path is None else f"local_path={settings.local_path}"


def _listed(names: Any) -> str:
    return ", ".join(names)
