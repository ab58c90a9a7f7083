"""Tiny data sets of AIR-Bench Foundation, and whole runs of it in this process; the scripted server plays the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import servers
from conftest import forget_judges, write_tone
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

import lm_eval_tasks.models  # noqa: F401 - registers the pack's model
from lm_eval_tasks import INCLUDE_PATH, cli

ALL = "air_bench_foundation"
CHOICES = {"choice_a": "rain", "choice_b": "a bell", "choice_c": "wind", "choice_d": "a dog"}
ONE_A_CATEGORY = ("Speech_Grounding", "Sound_AQA", "Music_AQA")


def record(task: str, number: int, **other: Any) -> dict[str, Any]:
    """A record whose right answer is B; a value of None takes a field out."""
    found = {
        "path": f"clip {number}.wav",
        "question": f"{task} question {number}?",
        **CHOICES,
        "answer_gt": "a bell",
        "task_name": task,
        "dataset_name": "source",
        "uniq_id": number,
        **other,
    }
    return {key: value for key, value in found.items() if value is not None}


def make(root: Path, *records: dict[str, Any]) -> Path:
    """Write a data set with a clip for every record."""
    for number, one in enumerate(records):
        folder = root / "Foundation" / f"{one['task_name']}_{one['dataset_name']}"
        write_tone(folder / one["path"], 200 + 10 * number)
    (root / "Foundation" / "Foundation_meta.json").write_text(json.dumps(records), encoding="utf-8")
    return root


def run(
    server: servers.Server,
    root: Path | str,
    *tasks: str,
    model: str = "local-chat-completions",
    options: dict[str, Any] | None = None,
    include: Path | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """What ``simple_evaluate`` returns; ``tasks`` are names as the data spells them, the whole track by default.

    ``include`` is a folder with tasks of a user's own.
    """
    forget_judges()
    metadata = {"local_path": str(root), **settings}
    manager = TaskManager(
        include_path=[str(INCLUDE_PATH), *([str(include)] if include else [])],
        include_defaults=False,
        metadata=metadata,
    )
    arguments = {"model": "m", "base_url": f"{server.url('model')}/chat/completions", "num_concurrent": 4}
    arguments |= {"patience": 2} if model == "audio-chat-completions" else {"max_retries": 1}
    given = {"apply_chat_template": True, "bootstrap_iters": 100, **(options or {})}
    names = [f"{ALL}_{name}" for name in tasks] or [ALL]
    return simple_evaluate(model, arguments, tasks=names, task_manager=manager, **given)


def row(results: dict[str, Any], name: str = "") -> dict[str, Any]:
    """A task's or group's metrics by their bare names."""
    full = f"{ALL}_{name}" if name else ALL
    return {key.removesuffix(",none"): value for key, value in results["results"].get(full, {}).items()}


def scoring(results: dict[str, Any], task: str) -> dict[str, Any]:
    """The summary that goes into the results file."""
    return results["configs"][f"{ALL}_{task}"]["metadata"]["scoring"]


def command_line(server: servers.Server, root: Path, out: Path, *tasks: str, ends: int = 0, **settings: Any) -> Path:
    """A run by the command, with its samples; returns the folder of its results."""
    address = f"{server.url('model')}/chat/completions"
    command = ["run", "--model", "local-chat-completions", "--apply_chat_template", "--tasks", ",".join(tasks)]
    command += ["--model_args", f"model=m,base_url={address},num_concurrent=4,max_retries=1"]
    command += ["--metadata", json.dumps({"local_path": str(root), **settings})]
    forget_judges()
    assert cli.main([*command, "--output_path", str(out), "--log_samples"]) == ends
    return out
