"""Several ranks: each judges its own docs, and lm-eval's way of merging them gives the numbers of one rank."""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict

import pytest
from airbench_runs import ALL, answers, listener, metadata, question, run, scores
from conftest import FOLDERS, forget_judges
from lm_eval.evaluator_utils import _process_results
from lm_eval.models.api_models import JsonChatStr
from lm_eval.tasks import TaskManager
from servers import Asked, refused

from lm_eval_tasks import INCLUDE_PATH

TASKS = tuple(FOLDERS)


def build(server, root, **settings):
    forget_judges()
    manager = TaskManager(
        include_path=str(INCLUDE_PATH), include_defaults=False, metadata=metadata(server, root, **settings)
    )
    loaded = manager.load([ALL])
    return loaded["tasks"], loaded["groups"]


def on_rank(server, root, rank, ranks, **settings):
    """What one rank does: build, answer, filter and score its docs, as ``lm_eval.evaluator.evaluate`` does."""
    tasks, groups = build(server, root, **settings)
    raw = {name: defaultdict(list) for name in tasks}
    for task in tasks.values():
        task.build_all_requests(
            rank=rank,
            world_size=ranks,
            limit=None,
            samples=None,
            cache_requests=False,
            rewrite_requests_cache=False,
            system_instruction=None,
            apply_chat_template=True,
            fewshot_as_multiturn=False,
            chat_template=lambda chat, add_generation_prompt=True: JsonChatStr(json.dumps(chat)),
            tokenizer_name="",
        )
    for task in tasks.values():
        for instance in task.instances:
            text = instance.doc["question"]
            body = {"messages": [{"role": "user", "content": text}]}
            instance.resps.append(listener(Asked("model", body, {}, 0.0)))
    for name, task in tasks.items():
        task.apply_filters()
        instances = defaultdict(list)
        for instance in task.instances:
            instances[instance.doc_id].append(instance)
        for doc_id, doc in task.doc_iterator(rank=rank, limit=None, world_size=ranks, samples=None):
            found = task.process_results(doc, [one.filtered_resps["judge"] for one in instances[doc_id]])
            for metric, value in found.items():
                raw[name][metric, "judge"].append(value)
    return tasks, groups, raw


def merged(server, root, ranks=2, **settings):
    """The results that rank 0 would write: metrics are gathered under the keys that rank 0 has."""
    each = [on_rank(server, root, rank, ranks, **settings) for rank in range(ranks)]
    tasks, groups, first = each[0]
    gathered = [{name: dict(metrics) for name, metrics in raw.items()} for _, _, raw in each]
    accumulated = {}
    for name, task in tasks.items():
        metrics = first[name]
        for key in metrics:
            metrics[key] = list(itertools.chain.from_iterable(one[name][key] for one in gathered))
        accumulated[name] = {"task": task, "raw_metrics": metrics, "logged_samples": []}
    return _process_results(accumulated, groups, 1000)._to_eval_results()


def judge(*refusals):
    """Scores that differ from doc to doc; the records for which a refusal is true are filtered."""

    def answer(asked):
        task, number = question(asked)
        if task != "trial" and any(refuses(task, number) for refuses in refusals):
            return refused(400, "content management policy", code="content_filter")
        high = answers(asked)[0].startswith("answer")
        return f"{(number * 3 + high) % 10 + 1} {(number * 7 + 2) % 10 + 1}" if task != "trial" else "5 5"

    return answer


CASES = {
    "some unjudged": judge(lambda task, number: number == 2),
    "rank 0 all unjudged": judge(lambda task, number: number % 2 == 0),
    "rank 1 all unjudged": judge(lambda task, number: number % 2 == 1),
    "rank 0 all unjudged in one task": judge(lambda task, number: number % 2 == 0 and task == "speech_QA"),
}


@pytest.mark.parametrize(("case", "do_swap"), [*((case, True) for case in CASES), ("some unjudged", False)])
def test_two_ranks_give_the_numbers_of_one(server, make_data, case, do_swap):
    root = make_data(**dict.fromkeys(TASKS, 3))
    server.script("model", listener)
    server.script("judge", CASES[case])
    alone = run(server, root, do_swap=do_swap, judge_cache=False)
    calls = server.calls()
    server.forget()
    together = merged(server, root, do_swap=do_swap, judge_cache=False)
    assert together["n-samples"] == alone["n-samples"]
    for name in ["", "speech", "sound", "music", "mixed", *TASKS]:
        assert scores(together, name) == pytest.approx(scores(alone, name)), name
        key, full = "gpt_score_stderr,judge", f"{ALL}_{name}" if name else ALL
        assert together["results"][full].get(key) == pytest.approx(alone["results"][full].get(key))
    assert server.calls() == calls + 1, "one trial more, and every doc judged once"


def test_with_everything_unjudged_on_both_ranks_there_is_no_score(server, make_data):
    server.script("judge", judge(lambda task, number: True))
    together = merged(server, make_data(**dict.fromkeys(TASKS, 2)))
    for name in ["", "speech", "mixed"]:
        assert scores(together, name) == (None,) * 4
    for name in TASKS:
        assert all(value is None or math.isnan(value) for value in scores(together, name))
        assert together["n-samples"][f"{ALL}_{name}"]["effective"] == 0
