"""Several ranks: each judges its own docs, and lm-eval's way of merging them gives the numbers of one rank."""

from __future__ import annotations

import itertools
import json
import math
import re
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


def moody(times):
    """A judge whose verdicts on the same prompt differ, by how often it was asked, in an order of its own."""
    seen = defaultdict(int)

    def answer(asked):
        task, number = question(asked)
        prompt = json.dumps([message["content"] for message in asked.body["messages"]])
        prompt = re.sub(r"(Answer|Question) \w+\]", "", prompt)  # the word in the marks
        seen[prompt] += 1
        if task == "speech_QA" and number == 1 and seen[prompt] % times == 1:
            return refused(400, "content management policy", code="content_filter")
        return f"{(number * 3 + seen[prompt]) % 5 + 2} {(number + 2 * seen[prompt]) % 7 + 1}"

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


def test_the_judges_noise_is_that_of_the_docs_of_all_ranks(server, make_data, monkeypatch):
    root = make_data(**dict.fromkeys(TASKS, 4))
    server.script("model", listener)
    server.script("judge", moody(3))
    options = {"judge_repeats": 3, "judge_temperature": 1, "judge_cache": False}
    alone = run(server, root, **options)
    gathered = {}

    def gather(value, ranks):
        """What ``ranks.of_all_ranks`` does where each rank is a process; here the ranks come one after the other."""
        place = len(gathered[now[0]])
        gathered[now[0]].append(value)
        return [gathered[rank][place] for rank in range(now[0] + 1)]

    now = [0]
    monkeypatch.setattr("lm_eval_tasks.harness.ranks.of_all_ranks", gather)
    monkeypatch.setattr("lm_eval_tasks.harness.notes.of_all_ranks", gather)
    server.script("judge", moody(3))
    for rank in range(2):
        now[0], gathered[rank] = rank, []
        tasks, _, _ = on_rank(server, root, rank, 2, **options)
    for name, task in tasks.items():
        found, expected = (one["metadata"]["judging"] for one in (task.dump_config(), alone["configs"][name]))
        for key in ("judge_sd", "stderr_with_judge_noise", "stderr_without_judge_noise", "stderr_of_judge_noise"):
            assert found[key] == pytest.approx(expected[key]), (name, key)
        for key in ("docs", "judged", "calls", "failed_repeats", "unjudged", "judge_answered"):
            assert found[key] == expected[key], (name, key)
