"""Answers in waiting: written to disk before they are judged, and removed when all of the run's are judged.

lm-eval writes samples at the very end and keeps answers only with ``--use_cache``; a crash while judging would lose
what the model was paid for. The files have the form of lm-eval's own sample files, so that ``rejudge`` reads both.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_tasks.harness.compat import info_once
from lm_eval_tasks.judge.cache import cache_folder
from lm_eval_tasks.runs.answers import Unanswered

if TYPE_CHECKING:
    from lm_eval_tasks.harness.task import JudgedTask

log = logging.getLogger(f"lm_eval.{__name__}")


_unfinished: dict[Path, set[str]] = {}
"""Of each folder that this process wrote: the tasks that are not judged yet. All files stay until the last one is."""


def save(tasks: Iterable[JudgedTask]) -> None:
    """Write the answers of the tasks of a run that are not on disk yet, in a folder; a full disk is a warning."""
    now = datetime.now().isoformat(timespec="microseconds").replace(":", "-")  # as lm-eval writes it
    new = cache_folder() / "answers" / f"{now}.{os.getpid()}"
    waiting = [task for task in tasks if not path_of(task)]
    for task in waiting:
        task.answers_folder = getattr(task, "answers_folder", new)  # another attempt goes beside the run's other tasks
        _unfinished.setdefault(task.answers_folder, set()).add(task.task_name)
    for task in waiting:
        folder = task.answers_folder
        path = folder / f"samples_{task.task_name}_{folder.name}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _note_settings(folder, [other for other in waiting if other.answers_folder == folder])
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
        info_once(log, "Answers are kept in %s until they are judged.", folder)


def path_of(task: JudgedTask) -> Path | None:
    """The file that holds a task's answers, if there is one."""
    return getattr(task, "answers_file", None)


def forget(task: JudgedTask) -> None:
    """Note that a task's answers are all judged; with the last task of its run, the files of all of them go.

    Until then they stay, because an average of what is left would not be the run's. What is judged already costs
    nothing the second time: its verdicts are in the cache.
    """
    folder = getattr(task, "answers_folder", None)
    if folder is None:
        return
    task.answers_file = None
    unfinished = _unfinished.get(folder, set())
    unfinished.discard(task.task_name)
    if not unfinished:
        _unfinished.pop(folder, None)
        shutil.rmtree(folder, ignore_errors=True)


def _note_settings(folder: Path, tasks: Iterable[JudgedTask]) -> None:
    """Put the settings of a run's tasks where a finished run has them, so that judging later needs no option again.

    All tasks are named before the first one's answers are written, so that one that is missing is missed.
    """
    file = folder / f"results_{folder.name}.json"
    noted = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"configs": {}}
    for task in tasks:
        known = {"metadata": task.config.metadata, "settings": task.settings_in_results()}
        noted["configs"].setdefault(task.task_name, known)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(noted, ensure_ascii=False, default=str), encoding="utf-8")
    part.replace(file)
