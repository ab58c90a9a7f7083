"""Answers in waiting: written to disk before they are judged, and removed when all of the run's are judged and written.

lm-eval writes samples at the very end and keeps answers only with ``--use_cache``; a crash while judging would lose
what the model was paid for. The files have the form of lm-eval's own files, so that one reader reads both.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from lm_eval_tasks.harness.compat import handle_non_serializable, hash_string, info_once
from lm_eval_tasks.judge.cache import cache_folder
from lm_eval_tasks.runs.answers import Answer, Unanswered
from lm_eval_tasks.runs.plain import mapping
from lm_eval_tasks.server.keys import without_keys

log = logging.getLogger(f"lm_eval.{__name__}")


_command: dict[str, Any] = {}
"""What the command of this process said of the model; empty where lm-eval's own command or Python is used."""

_judged: list[Path] = []
"""Folders of runs that are judged, and whose results lm-eval has still to write."""

_unfinished: dict[Path, set[str]] = {}
"""Of each folder that this process wrote: the tasks that are not judged yet. All files stay until the last one is."""


def folder_of_answers() -> Path:
    """Where answers wait. Only this user's own runs write there."""
    return cache_folder() / "answers"


def note_command(config: dict[str, Any]) -> None:
    """Remember how lm-eval was called, under the names that its results have for it (``model_args``, ...)."""
    _command.clear()
    _command.update(config)


def save(tasks: Iterable[Any]) -> None:
    """Write the answers of a run's judged tasks that are not on disk yet, in a folder; a full disk is a warning."""
    now = datetime.now().isoformat(timespec="microseconds").replace(":", "-")  # as lm-eval writes it
    new = folder_of_answers() / f"{now}.{os.getpid()}"
    waiting = [task for task in tasks if not getattr(task, "answers_file", None)]
    for task in waiting:
        task.answers_folder = getattr(task, "answers_folder", new)  # another attempt goes beside the run's other tasks
        _unfinished.setdefault(task.answers_folder, set()).add(task.task_name)
    for task in waiting:
        folder = task.answers_folder
        path = folder / f"samples_{task.task_name}_{folder.name}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _note_run(folder, [other for other in waiting if other.answers_folder == folder])
            part = path.with_suffix(".part")
            with part.open("w", encoding="utf-8", errors="replace") as file:
                for instance in task.instances:
                    sample = json.dumps(_sample(instance), ensure_ascii=False, default=handle_non_serializable)
                    file.write(f"{without_keys(sample)}\n")
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


def forget(task: Any) -> None:
    """Note that a task's answers are all judged; with the last task of its run, the files of all of them may go.

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
        if not _judged:
            atexit.register(_at_exit)
        _judged.append(folder)


def remove_judged() -> None:
    """Remove the files of runs that are judged, now that lm-eval has written what it writes of them."""
    for folder in _judged:
        shutil.rmtree(folder, ignore_errors=True)
    _judged.clear()


def keep_judged() -> list[Path]:
    """Let the files of runs that are judged stay, because their results are not written; returns the folders."""
    kept = list(_judged)
    _judged.clear()
    return kept


def _at_exit() -> None:
    """lm-eval's own command tells nobody that it has written; an error that nobody caught says that it has not."""
    if getattr(sys, "last_value", None) is None:
        remove_judged()


def _sample(instance: Any) -> dict[str, Any]:
    """A request and its answers, in the form of a logged sample."""
    request = instance.args[:2]  # audio for models of this machine is the third
    sample = {
        "doc_id": instance.doc_id,
        "doc": instance.doc,
        "arguments": {"gen_args_0": {f"arg_{place}": part for place, part in enumerate(request)}},
        "prompt_hash": hash_string(request[0]),
        "resps": [instance.resps],
        "finish_reasons": [answer.finish if isinstance(answer, Answer) else None for answer in instance.resps],
    }
    missing = [answer.reason for answer in instance.resps if isinstance(answer, Unanswered)]
    return sample | ({"unanswered": missing[0]} if missing else {})


def _note_run(folder: Path, tasks: Iterable[Any]) -> None:
    """Put what is known of a run where a finished run has it, so that judging later needs no option again.

    All tasks are named before the first one's answers are written, so that one that is missing is missed.
    """
    file = folder / f"results_{folder.name}.json"
    run = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"configs": {}, "date": time.time()}
    for task in tasks:
        noted = task.noted()
        if task.task_name in run["configs"]:
            continue
        run["configs"][task.task_name] = noted["config"]
        run.setdefault("n-samples", {})[task.task_name] = {"original": noted["docs"], "limit": noted["limit"]}
        run |= {key: noted[key] for key in ("model_name", "system_instruction", "fewshot_as_multiturn")}
        run |= {key: noted[key] for key in ("rank", "ranks")}
        run["config"] = {"model": noted["model"], "limit": _most(run["n-samples"]), **_command}
    part = file.with_suffix(".part")
    text = json.dumps(run, ensure_ascii=False, default=handle_non_serializable)
    part.write_text(without_keys(text), encoding="utf-8")
    part.replace(file)


def _most(counts: dict[str, Any]) -> int | None:
    """The limit of the tasks; the largest one where a share was asked for, which only the command can tell."""
    limits = [limit for count in counts.values() if (limit := mapping(count).get("limit")) is not None]
    return max(limits, default=None)
