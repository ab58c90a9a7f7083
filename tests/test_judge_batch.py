"""Verdicts by way of batches: what they hold, how they end, and a whole run."""

from __future__ import annotations

import json

import pytest
from batch_judges import IN_BATCH, LIVE, api, asked, jobs_left, make, values  # noqa: F401
from batch_server import BatchServer, expired, line
from conftest import forget_judges, questions

from lm_eval_tasks.judge import batch
from lm_eval_tasks.judge.question import Unjudged


def test_a_batch_gives_all_verdicts_and_no_direct_call_is_made(api, make, tmp_path):
    outcomes = asked(make())
    assert values(outcomes) == [IN_BATCH] * 6
    assert (len(api.batches), api.calls, jobs_left(tmp_path)) == (1, [], 0)
    assert [o.cached for o in outcomes] == [False] * 6 and {o.prompt_tokens for o in outcomes} == {100}
    body = api.asked[0][0]["body"]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("judge-1", 0.0, 1024)
    again = asked(make())
    assert values(again) == [IN_BATCH] * 6 and [o.cached for o in again] == [True] * 6
    assert (len(api.batches), api.calls) == (1, [])


def test_either_way_finishes_the_others_work(api, make):
    assert values(make(judge_batch=False).ask(questions(2), "Judging")) == [LIVE] * 2
    assert values(asked(make(), 5)) == [LIVE] * 2 + [IN_BATCH] * 3
    assert len(api.asked[0]) == 3
    assert values(make(judge_batch=False).ask(questions(5), "Judging")) == [LIVE] * 2 + [IN_BATCH] * 3


def test_what_the_server_refuses_of_a_request_is_left_out_of_the_batch(api, make):
    judge = make()
    judge.client.negotiation.given_up = frozenset({"temperature", "max_completion_tokens"})
    asked(judge)
    bodies = [row["body"] for row in api.asked[0]]
    assert all("temperature" not in body and body["max_completion_tokens"] == 1024 for body in bodies)


@pytest.mark.parametrize(("requests", "size", "batches"), [(2, 10**9, 3), (100, 900, 3), (100, 10, 6), (100, 10**9, 1)])
def test_a_batch_is_split_by_requests_and_bytes(api, make, monkeypatch, requests, size, batches):
    monkeypatch.setattr(batch, "MAX_REQUESTS", requests)
    monkeypatch.setattr(batch, "MAX_BYTES", size)
    assert values(asked(make())) == [IN_BATCH] * 6
    assert len(api.batches) == batches


# What the results of the first batch are (the second one is whole), and then: requests in the second batch, direct
# calls
ODD = {
    "unusable reply": (lambda rs: ([line(rs[0], "I'd rather not"), *map(line, rs[1:])], []), 1, 0),
    "expired line": (lambda rs: (list(map(line, rs[1:])), [expired(rs[0])]), 1, 0),
    "server error": (lambda rs: (list(map(line, rs[1:])), [line(rs[0], "x", 500)]), 1, 0),
    "rate limit": (lambda rs: (list(map(line, rs[1:])), [line(rs[0], "x", 429)]), 1, 0),
    "left out": (lambda rs: (list(map(line, rs[1:])), []), 1, 0),
    "no output": (lambda rs: ([], []), 6, 0),
    "refused": (lambda rs: (list(map(line, rs[1:])), [line(rs[0], "no", 400)]), 0, 1),
    "refused, in the output": (lambda rs: ([line(rs[0], "no", 400), *map(line, rs[1:])], []), 0, 1),
    "lines twice": (lambda rs: ([*map(line, rs), *map(line, rs)], []), 0, 0),
    "usable and not": (lambda rs: ([line(rs[0], "hm"), *map(line, rs)], [expired(rs[0])]), 0, 0),
    "unknown id": (lambda rs: ([line({"custom_id": "x"}), *map(line, rs)], []), 0, 0),
    "odd ids": (lambda rs: ([*(line({"custom_id": n}) for n in (None, 5, ["x"])), *map(line, rs)], []), 0, 0),
    "no JSON": (lambda rs: (["{", "5", "", *map(line, rs)], ["[]"]), 0, 0),
    "no response": (lambda rs: ([{"custom_id": rs[0]["custom_id"]}, *map(line, rs[1:])], []), 1, 0),
    "odd status": (lambda rs: ([line(rs[0], "x", None), *map(line, rs[1:])], []), 1, 0),
    "odd body": (
        lambda rs: ([{**line(rs[0]), "response": {"status_code": 200, "body": "x"}}, *map(line, rs[1:])], []),
        1,
        0,
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_results_cost_their_own_question_another_try(api, make, tmp_path, name):
    first, second, live = ODD[name]
    api.results = lambda number, rs: first(rs) if number == 0 else (list(map(line, rs)), [])
    outcomes = values(asked(make()))
    assert len(api.asked[0]) == 6 and sum(map(len, api.asked[1:])) == second
    assert len(api.calls) == live
    assert sorted(outcomes) == sorted([LIVE] * live + [IN_BATCH] * (6 - live))
    assert jobs_left(tmp_path) == 0


def test_the_second_batch_says_the_form_again_and_gives_more_room(api, make):
    api.results = lambda number, rs: ([line(r, "hm" if number == 0 else "8 6") for r in rs], [])
    outcomes = asked(make())
    body = api.asked[1][0]["body"]
    assert body["messages"][-1]["content"].endswith("Write two numbers.") and body["max_tokens"] == 2048
    assert {o.attempts for o in outcomes} == {2}


@pytest.mark.parametrize(("rest", "batches"), [("batch", 2), ("direct", 1)])
def test_unusable_replies_are_asked_directly_after_the_last_batch(api, make, rest, batches):
    api.results = lambda number, rs: ([line(r, "hm") for r in rs], [])
    assert values(asked(make(judge_batch_rest=rest))) == [LIVE] * 6
    assert (len(api.batches), len(api.calls)) == (batches, 6)


# How batches end: rest, ends -> batches, direct calls, what the four questions without a result become
ENDS = [
    ("batch", ["expired", "completed"], 2, 0, IN_BATCH),
    ("batch", ["expired", "expired"], 2, 0, "batch expired"),
    ("direct", ["expired"], 1, 4, LIVE),
    ("batch", ["cancelled", "completed"], 1, 0, "batch cancelled"),
    ("direct", ["cancelled"], 1, 0, "batch cancelled"),
    ("batch", ["completed", "completed"], 2, 0, "batch: no reply"),
]


@pytest.mark.parametrize(("rest", "ends", "batches", "live", "left"), ENDS)
def test_a_batch_that_ends_early_keeps_its_results_and_costs_no_direct_calls_unasked(
    api, make, tmp_path, rest, ends, batches, live, left
):
    rows = [2, 6 if left == IN_BATCH else 0]
    api.ends, api.results = ends, lambda number, rs: (list(map(line, rs[: rows[number]])), [])
    outcomes = values(asked(make(judge_batch_rest=rest)))
    assert sorted(map(str, outcomes)) == sorted(map(str, [IN_BATCH] * 2 + [left] * 4))
    assert (len(api.batches), len(api.calls), jobs_left(tmp_path)) == (batches, live, 0)
    api.ends, api.results = ["completed"], lambda number, rs: (list(map(line, rs)), [])
    assert not [o for o in asked(make()) if isinstance(o, Unjudged)]
    assert sum(map(len, api.asked[batches:])) == (4 if isinstance(left, str) else 0)


@pytest.mark.parametrize("rest", ["batch", "direct"])
def test_a_batch_that_fails_validation_costs_nothing_and_says_why(api, make, rest, caplog):
    api.ends = ["failed", "completed"]
    api.results = lambda number, rs: (list(map(line, rs)) if number else [], [])
    api.errors = {"object": "list", "data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit"}]}
    assert values(asked(make(judge_batch_rest=rest))) == ["batch failed"] * 6
    assert (len(api.batches), api.calls) == (1, [])
    assert "failed (token_limit_exceeded Enqueued token limit)" in caplog.text
    assert values(asked(make())) == [IN_BATCH] * 6


@pytest.mark.parametrize("status", [404, 405, 401, 500])
def test_a_server_without_batches_is_told_before_anything_else(api, make, status):
    api.faults = {("GET", "batches"): [status] * 9}
    with pytest.raises(ValueError, match=rf"does not take batches \(.*HTTP {status}.*leave judge_batch out") as error:
        make().check_batches()
    assert "\n" not in str(error.value)
    api.faults = {}
    make().check_batches()


# Whole runs


def test_a_run_waits_for_one_batch_of_all_its_tasks(api, server, make_data, tmp_path, monkeypatch, handlers):
    from airbench_runs import ALL, listener

    from lm_eval_tasks import cli

    def command(*extra, **settings):
        given = {"judge_model": "judge-1", "judge_base_url": api.url, "judge_batch": True, "judge_batch_poll": 0.01}
        given |= {"local_path": str(make_data(speech_QA=3, sound_QA=2)), **settings}
        address = f"{server.url('model')}/chat/completions"
        words = ["run", "--model", "local-chat-completions", "--apply_chat_template", "--tasks", ALL, "--log_samples"]
        words += ["--model_args", f"model=listener,base_url={address},num_concurrent=8"]
        return [*words, "--metadata", json.dumps(given), "--output_path", "out", *extra]

    monkeypatch.chdir(tmp_path)
    server.script("model", listener)
    api.faults = {("GET", "batches"): [404] * 3}
    forget_judges()
    assert cli.main(command()) == 2 and server.calls("model") == 0
    api.faults = {}
    forget_judges()
    assert cli.main(command()) == 0
    assert [len(rows) for rows in api.asked] == [10] and len(api.calls) <= 2  # the trials of both commands
    (file,) = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["results"][f"{ALL}_speech_QA"]["sample_len"] == 3
    summary = found["configs"][f"{ALL}_speech_QA"]["metadata"]["judging"]
    assert (summary["judged"], summary["calls"], summary["prompt_tokens"]) == (3, 6, 600)
    forget_judges()
    api.calls.clear()
    again = ["rejudge", "out", "--trust", "--output_path", "again", "--metadata", "judge_temperature=0.5"]
    assert cli.main(again) == 0
    assert [len(rows) for rows in api.asked] == [10, 10] and len(api.calls) == 1
    assert cli.main([*again, "--all"]) == 2


# Replies that are none: what the server shows of a batch is changed; whether the verdicts still come

SHOWN = {
    "counts are words": lambda b: {**b, "request_counts": {"completed": "x", "total": None}},
    "no counts, errors a list": lambda b: {**b, "request_counts": [1], "errors": ["x", 5]},
    "errors of odd things": lambda b: {**b, "errors": {"data": ["x", None, {"code": 5}]}},
    "upper case": lambda b: {**b, "status": b["status"].upper()},
    "empty file ids": lambda b: {**b, "error_file_id": b.get("error_file_id") or ""},
    "unknown status before its end": lambda b: {**b, "status": b["status"].replace("validating", "queued")},
}


@pytest.mark.parametrize("name", SHOWN)
def test_odd_fields_of_a_batch_cost_nothing(api, make, monkeypatch, name):
    real = BatchServer.shown
    monkeypatch.setattr(BatchServer, "shown", lambda self, batch: SHOWN[name](real(self, batch)))
    api.polls = 3
    assert values(asked(make())) == [IN_BATCH] * 6
    assert (len(api.batches), api.calls) == (1, [])
