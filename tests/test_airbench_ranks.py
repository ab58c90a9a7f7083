"""Several ranks: each judges its own docs, and lm-eval's way of merging them gives the numbers of one rank."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict

import pytest
from airbench_runs import ALL, answers, listener, metadata, question, run, scores
from conftest import FOLDERS, forget_judges
from lm_eval.tasks import TaskManager
from ranks import merged, on_rank
from servers import Asked, refused

from lm_eval_tasks import INCLUDE_PATH

TASKS = tuple(FOLDERS)


def each_rank(server, root, ranks=2, **settings):
    """What each rank found, as a process of its own; see ``ranks.on_rank``."""
    for rank in range(ranks):
        forget_judges()
        given = metadata(server, root, **settings)
        manager = TaskManager(include_path=str(INCLUDE_PATH), include_defaults=False, metadata=given)
        yield on_rank(manager, ALL, rank, ranks, lambda doc: listener(Asked("model", text_of(doc), {}, 0.0)))


def text_of(doc):
    return {"messages": [{"role": "user", "content": doc["question"]}]}


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
    together = merged(list(each_rank(server, root, do_swap=do_swap, judge_cache=False)))
    assert together["n-samples"] == alone["n-samples"]
    for name in ["", "speech", "sound", "music", "mixed", *TASKS]:
        assert scores(together, name) == pytest.approx(scores(alone, name)), name
        key, full = "gpt_score_stderr,judge", f"{ALL}_{name}" if name else ALL
        assert together["results"][full].get(key) == pytest.approx(alone["results"][full].get(key))
    assert server.calls() == calls + 1, "one trial more, and every doc judged once"


def test_with_everything_unjudged_on_both_ranks_there_is_no_score(server, make_data):
    server.script("judge", judge(lambda task, number: True))
    together = merged(list(each_rank(server, make_data(**dict.fromkeys(TASKS, 2)))))
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
    gathered[0], one_by_one = [], each_rank(server, root, **options)
    next(one_by_one)
    now[0], gathered[1] = 1, []
    loaded, _ = next(one_by_one)
    for name, task in loaded["tasks"].items():
        found, expected = (one["metadata"]["judging"] for one in (task.dump_config(), alone["configs"][name]))
        for key in ("judge_sd", "stderr_with_judge_noise", "stderr_without_judge_noise", "stderr_of_judge_noise"):
            assert found[key] == pytest.approx(expected[key]), (name, key)
        for key in ("docs", "judged", "calls", "failed_repeats", "unjudged", "judge_answered"):
            assert found[key] == expected[key], (name, key)
