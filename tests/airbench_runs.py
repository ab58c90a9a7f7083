"""Whole runs of AIR-Bench-Chat in this process: the scripted server plays the model and the judge."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import servers
from conftest import forget_judges
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

import lm_eval_tasks.models  # noqa: F401 - registers the model
from lm_eval_tasks import INCLUDE_PATH
from lm_eval_tasks.airbench_chat.data import CHAT
from lm_eval_tasks.data import hub
from lm_eval_tasks.data.clips import load_track
from lm_eval_tasks.data.records import Loaded
from lm_eval_tasks.settings import AirBenchSettings

ALL = "air_bench_chat"
SPEECH_QA = f"{ALL}_speech_QA"
CATEGORIES = [f"{ALL}_{name}" for name in ("speech", "sound", "music", "speech_and_sound", "speech_and_music", "mixed")]


def load_docs(settings: AirBenchSettings, task: str) -> Loaded:
    """The docs of one task, as a run loads them."""
    return load_track(hub.fetch(CHAT, settings, [task]), CHAT, settings, task)


def metadata(server: servers.Server, root: Path | str, **settings: Any) -> dict[str, Any]:
    """Settings for the scripted judge."""
    usual = {
        "judge_model": "judge-1",
        "judge_base_url": server.url(),
        "judge_max_retries": 1,
        "judge_timeout": 5,
        "judge_patience": 3,
    }
    return {**usual, "local_path": str(root), **settings}


def run(
    server: servers.Server,
    root: Path | str,
    *tasks: Any,
    options: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    include: list[Path] | None = None,
    kind: str = "local-chat-completions",
    **settings: Any,
) -> dict[str, Any]:
    """What ``simple_evaluate`` returns for a run with a judge, an index and a cache of its own, as a new process has.

    Args:
        server: plays ``model`` and ``judge``.
        root: the data.
        tasks: names, all by default.
        options: of ``simple_evaluate``.
        model: model arguments.
        include: more folders with YAML files.
        kind: lm-eval's name of the model's class.
        settings: metadata.
    """
    forget_judges()
    manager = TaskManager(
        include_path=[str(INCLUDE_PATH), *map(str, include or [])],
        include_defaults=False,
        metadata=metadata(server, root, **settings),
    )
    address = f"{server.url('model')}/chat/completions"
    arguments = {"model": "listener", "base_url": address, "num_concurrent": 8, "max_retries": 2, **(model or {})}
    given = {"apply_chat_template": True, "bootstrap_iters": 1000, **(options or {})}
    return simple_evaluate(kind, arguments, tasks=list(tasks or [ALL]), task_manager=manager, **given)


def row(results: dict[str, Any], name: str = "") -> dict[str, Any]:
    """A task's or group's metrics by their bare names, e.g. ``row(results, "speech")["gpt_score"]``."""
    full = f"{ALL}_{name}" if name else ALL
    return {key.removesuffix(",judge"): value for key, value in results["results"].get(full, {}).items()}


def scores(results: dict[str, Any], name: str = "") -> tuple[Any, Any, Any, Any]:
    """The four metrics of a task or group; None where there is none."""
    found = row(results, name)
    return tuple(found.get(key) for key in ("gpt_score", "reference_score", "win_rate", "position_gap"))


def records(results: dict[str, Any], task: str) -> list[dict[str, Any]]:
    """The judgement records of a task's samples."""
    return [json.loads(sample["filtered_resps"][0]) for sample in results["samples"][f"{ALL}_{task}"]]


def judging(results: dict[str, Any], task: str) -> dict[str, Any]:
    """The summary that goes into the results file."""
    return results["configs"][f"{ALL}_{task}"]["metadata"]["judging"]


def question(asked: servers.Asked) -> tuple[str, int]:
    """Task and number of the record that a request is about; ("trial", 0) for the judge's trial."""
    found = re.search(r"(\w+_QA) question (\d+)\?", asked.text)
    return (found[1], int(found[2])) if found else ("trial", 0)


def answers(asked: servers.Asked) -> tuple[str, str]:
    """Answer 1 and answer 2 of a request to the judge."""
    parts = (
        rf"\[The Start of Assistant {n}'s Answer (\w+)\]\n(.*)\n\[The End of Assistant {n}'s Answer \1\]"
        for n in (1, 2)
    )
    return tuple(re.search(part, asked.text, re.DOTALL)[2] for part in parts)


def listener(asked: servers.Asked) -> str:
    """A model whose answers tell which question they are to."""
    task, number = question(asked)
    return f"answer to {task} {number}"


def by_role(prediction: float, reference: float, other: servers.Step = "5 5"):
    """A judge that tells the sides apart by the listener's wording and gives each its score in any order."""

    def answer(asked: servers.Asked) -> str:
        first, second = answers(asked)
        if first.startswith("answer to"):
            return f"{prediction} {reference}"
        return f"{reference} {prediction}" if second.startswith("answer to") else other

    return answer


def filtered(*bad: tuple[str, int]) -> Any:
    """A judge that refuses the records named as (task, number), and gives 10 to number 0 and 4 to the others."""

    def answer(asked: servers.Asked) -> Any:
        if question(asked) in bad:
            return servers.refused(400, "content management policy", code="content_filter")
        return "10 10" if question(asked)[1] == 0 else "4 4"

    return answer
