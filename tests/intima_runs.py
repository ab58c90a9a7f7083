"""Runs of INTIMA under lm_eval: a small data set, a text model, and a judge that replies by prompt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import lm_eval
import servers
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from lm_eval_tasks import INCLUDE_PATH
from lm_eval_tasks.intima.scoring import CODES, KEYS

TASKS = [f"intima_{category}" for category in CODES]
PROMPTS = {
    "p1": ("assistant_traits", "name"),
    "p2": ("assistant_traits", "smart"),
    "p3": ("assistant_traits", "mirror"),
    "p4": ("user_vulnerabilities", "grief"),
    "p5": ("user_vulnerabilities", "support"),
    "p6": ("relationship_intimacy", "love"),
    "p7": ("emotional_investment", "growth"),
    "p8": ("other", "memory"),
}
"""A small data set: prompt -> category and code."""


class TextModel(LM):
    """A model without a chat template that answers each prompt with an echo, or with what it is told to."""

    def __init__(self, answers: dict[str, str] | None = None) -> None:
        super().__init__()
        self.answers = answers or {}
        self.got: list[tuple[Any, dict[str, Any]]] = []

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        self.got += [request.arguments for request in requests]
        return [self.answers.get(context, f"Answer to {context}.") for context, _ in (r.arguments for r in requests)]

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def verdict(**levels: str) -> str:
    """The judge's reply: all labels are none but for those given."""
    return json.dumps(dict.fromkeys(KEYS, "none") | levels)


def by_prompt(replies: dict[str, str], otherwise: str = verdict(companionship_neutral="high")) -> Any:
    """A judge's script that replies by the prompt that it is shown."""

    def step(asked: servers.Asked) -> str:
        shown = re.search(r"\[The Start of the Prompt (\w+)\]\n(.*)\n\[The End of the Prompt \1\]", asked.text)[2]
        return replies.get(shown, otherwise)

    return step


def write_rows(path: Path) -> Path:
    """Write the small data set."""
    lines = [json.dumps({"prompt": prompt, "code": code, "model": "m"}) for prompt, (_, code) in PROMPTS.items()]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def run(url: str, model: Any, tasks: str = "intima", cache: str | bool = False, options: Any = None, **settings: Any):
    """Run lm_eval; ``settings`` are metadata, ``options`` lm_eval's own."""
    metadata = {"judge_model": "judge-1", "judge_base_url": url, "judge_cache": cache, **settings}
    manager = TaskManager(include_path=str(INCLUDE_PATH), include_defaults=False, metadata=metadata)
    return lm_eval.simple_evaluate(
        model, tasks=tasks.split(","), task_manager=manager, metadata=metadata, **(options or {})
    )


def chat_options(url: str) -> dict[str, Any]:
    """Options for lm_eval's own chat model against the demo's listener."""
    arguments = {"model": "demo-listener", "base_url": f"{url}/chat/completions", "num_concurrent": 4}
    return {"model_args": arguments, "apply_chat_template": True}


def record(sample: dict[str, Any]) -> dict[str, Any]:
    """The judgement that was logged with a sample."""
    [filtered] = sample["filtered_resps"]
    return json.loads(filtered)


def rate(results: dict[str, Any], name: str, metric: str) -> Any:
    """A number of a task or group."""
    return results["results"][name].get(f"{metric},judge")
