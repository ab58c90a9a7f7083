"""Whether files that others write are whole: lm-eval's results and samples after a run, its answers before one."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from lm_eval_tasks.harness import compat
from lm_eval_tasks.runs.plain import mapping, number


def what_lacks(output: str | Path, since: float, samples: bool) -> str | None:
    """What of a run's files is not there or not whole; None where nothing lacks. lm-eval logs a full disk and goes on.

    Args:
        output: the run's ``--output_path``.
        since: when the run began, in seconds since 1970.
        samples: whether they had to be written as well.
    """
    path = Path(output)
    folder, start = (path.parent, path.stem) if path.suffix == ".json" else (path, "results")
    files = [file for file in folder.rglob(f"{start}_*.json") if file.stat().st_mtime >= since - 2]
    if not files:
        return f"there are no new results in {folder}"
    newest = max(files, key=lambda file: file.stat().st_mtime)
    try:
        results = mapping(json.loads(newest.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return f"{newest} is not whole"
    date = newest.stem.removeprefix(f"{start}_")
    for task, counts in mapping(results.get("n-samples")).items() if samples else ():
        file, docs = newest.parent / f"samples_{task}_{date}.jsonl", number(mapping(counts).get("effective")) or 0
        if docs and not _has_lines(file, docs):
            return f"{file} is missing or not whole"
    return None


def _has_lines(path: Path, least: float) -> bool:
    count, last = 0, b""
    try:
        with path.open("rb") as file:
            for last in file:  # noqa: B007 - the last one is looked at
                count += 1
    except OSError:
        return False
    return count >= least and last.endswith(b"\n")


def check_output(output: str) -> None:
    """Refuse an ``--output_path`` that cannot be written, which else would be found when all has been paid for.

    Raises:
        ValueError: names the folder and the cause.
    """
    path = Path(output)
    _check_folder("--output_path", path.parent if path.suffix == ".json" else path)


def _check_folder(option: str, folder: Path) -> None:
    folder = folder.absolute()
    while not os.path.lexists(folder):  # the rest can be made where this one can be written
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError as error:
        raise ValueError(f"{option}: {folder} cannot be written ({error.strerror}); name another") from None


def check_answers(use_cache: str) -> str:
    """Refuse a database of answers that is damaged or cannot be made: it would end the run in the middle of lm-eval.

    Args:
        use_cache: the option's value, to which lm-eval adds the rank.

    Returns:
        A name of this rank's file that is the same whatever the working directory.

    Raises:
        ValueError: names the file and the remedy.
    """
    rank = os.environ.get("RANK", "0")
    path = Path(compat.answers_file(use_cache, rank)).absolute()
    if not path.exists():
        _check_folder("--use_cache", path.parent)
        return str(path)
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)) as db:
            said = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if said == "ok" and db.execute("SELECT 1 FROM sqlite_master WHERE name = 'unnamed'").fetchone():
                db.execute("SELECT key, value FROM unnamed LIMIT 1").fetchone()
    except sqlite3.Error as error:
        said = str(error)
    if said != "ok":
        said = " ".join(said.split())[:100]
        raise ValueError(f"--use_cache: {path} is damaged ({said}). Move it away, or name another file.")
    return str(path)
