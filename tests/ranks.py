"""Several ranks, one after the other in this process: what each does, and what rank 0 makes of it."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from lm_eval.evaluator_utils import _process_results
from lm_eval.models.api_models import JsonChatStr
from lm_eval.tasks import TaskManager


def on_rank(
    manager: TaskManager, name: str, rank: int, ranks: int, answer: Callable[[dict[str, Any]], str]
) -> tuple[Any, dict[str, dict[tuple[str, str], list[Any]]]]:
    """Build, answer, filter and score the docs of one rank, as ``lm_eval.evaluator.evaluate`` does.

    Returns:
        What the manager loaded, and for each task (metric, filter) -> a value for each doc.
    """
    loaded = manager.load([name])
    raw: dict[str, dict] = {task: defaultdict(list) for task in loaded["tasks"]}
    for task in loaded["tasks"].values():
        task.build_all_requests(
            rank=rank,
            world_size=ranks,
            apply_chat_template=True,
            chat_template=lambda chat, add_generation_prompt=True: JsonChatStr(json.dumps(chat)),
        )
    for task in loaded["tasks"].values():
        for instance in task.instances:
            instance.resps.append(answer(instance.doc))
    for name, task in loaded["tasks"].items():
        task.apply_filters()
        by_id = {instance.doc_id: instance for instance in task.instances}
        for doc_id, doc in task.doc_iterator(rank=rank, limit=None, world_size=ranks, samples=None):
            ((chosen, filtered),) = by_id[doc_id].filtered_resps.items()
            for metric, value in task.process_results(doc, [filtered]).items():
                raw[name][metric, chosen].append(value)
    return loaded, raw


def merged(each: list[tuple[Any, dict[str, dict]]]) -> dict[str, Any]:
    """The results that rank 0 would write: metrics are gathered under the keys that rank 0 has."""
    loaded, first = each[0]
    gathered = [{name: dict(metrics) for name, metrics in raw.items()} for _, raw in each]
    accumulated = {}
    for name, task in loaded["tasks"].items():
        for key in first[name]:
            first[name][key] = list(itertools.chain.from_iterable(one[name][key] for one in gathered))
        accumulated[name] = {"task": task, "raw_metrics": first[name], "logged_samples": []}
    return _process_results(accumulated, loaded["groups"], 1000)._to_eval_results()
