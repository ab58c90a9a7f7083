"""Answers in waiting: written to disk before they are judged, and removed when they have been.

lm-eval writes samples at the very end and keeps answers only with ``--use_cache``; a crash while judging would lose
what the model was paid for. The files have the form of lm-eval's own sample files, so that ``rejudge`` reads both.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval.utils import info_once

from lm_eval_tasks.judge.cache import cache_folder
from lm_eval_tasks.unanswered import Unanswered

if TYPE_CHECKING:
    from lm_eval_tasks.task import JudgedTask

log = logging.getLogger(f"lm_eval.{__name__}")


def save(tasks: Iterable[JudgedTask]) -> None:
    """Write the answers of each task that are not on disk yet, in a folder of their own; a full disk is a warning."""
    now = datetime.now().isoformat(timespec="microseconds").replace(":", "-")  # as lm-eval writes it
    folder = cache_folder() / "answers" / f"{now}.{os.getpid()}"
    for task in tasks:
        if path_of(task):
            continue
        path = folder / f"samples_{task.task_name}_{folder.name}.jsonl"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _note_settings(path.parent, task)
            part = path.with_suffix(".part")
            with part.open("w", encoding="utf-8", errors="replace") as file:
                for instance in task.instances:
                    sample = {"doc_id": instance.doc_id, "doc": instance.doc, "resps": [instance.resps]}
                    missing = [answer.reason for answer in instance.resps if isinstance(answer, Unanswered)]
                    sample |= {"unanswered": missing[0]} if missing else {}
                    file.write(json.dumps(sample, ensure_ascii=False, default=str) + "\n")
            part.replace(path)  # whole or not at all
        except OSError as error:
            log.warning(
                "The answers of %s could not be kept aside (%s); an interruption now would lose them.",
                task.task_name,
                error,
            )
            continue
        task.answers_file = path
        info_once(log, "Answers are kept in %s until they are judged.", path.parent)


def path_of(task: JudgedTask) -> Path | None:
    """The file that holds a task's answers, if there is one."""
    return getattr(task, "answers_file", None)


def forget(task: JudgedTask) -> None:
    """Remove the file of a task whose answers are all judged."""
    path = path_of(task)
    if path:
        path.unlink(missing_ok=True)
        task.answers_file = None
        if not any(path.parent.glob("*.jsonl")):
            _settings_file(path.parent).unlink(missing_ok=True)
            path.parent.rmdir()


def _settings_file(folder: Path) -> Path:
    return folder / f"results_{folder.name}.json"


def _note_settings(folder: Path, task: JudgedTask) -> None:
    """Put a task's settings where a finished run has them, so that judging later needs no option again."""
    file = _settings_file(folder)
    noted = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"configs": {}}
    noted["configs"][task.task_name] = {"metadata": task.config.metadata}
    part = file.with_suffix(".part")
    part.write_text(json.dumps(noted, ensure_ascii=False, default=str), encoding="utf-8")
    part.replace(file)
