"""What judging will cost, said before, and caps that no run passes."""

from __future__ import annotations

import batch_server
import pytest
from conftest import questions
from servers import Answer, said
from stored_runs import judging, results

from lm_eval_tasks.harness import together
from lm_eval_tasks.judge.budget import estimate, prompt_tokens
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Unjudged, Verdict
from lm_eval_tasks.settings import JudgeSettings, read_settings


def judged(outcomes: list[Verdict | Unjudged]) -> int:
    return sum(isinstance(outcome, Verdict) for outcome in outcomes)


def reasons(outcomes: list[Verdict | Unjudged]) -> set[str]:
    return {outcome.reason for outcome in outcomes if isinstance(outcome, Unjudged)}


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("cap", [1, 5, 19, 20, 21])
def test_no_more_calls_than_the_cap(server, make_judge, cap, concurrency):
    server.script("judge", said("8 6", delay=0.01))
    judge = make_judge(judge_max_calls=cap, judge_concurrency=concurrency)
    outcomes = judge.ask(questions(20), "Judging")
    assert server.calls() == judged(outcomes) == min(cap, 20)
    assert reasons(outcomes) == ({f"judge_max_calls={cap} reached"} if cap < 20 else set())
    assert judge.stopped == (f"judge_max_calls={cap} reached" if cap < 20 else None)


# A reply has 104 tokens by the server's count; a call holds 6 to 10 tokens of its prompt and 100 of room
@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize(("cap", "most"), [(50, 0), (150, 1), (1000, 9), (5000, 20)])
def test_no_more_tokens_than_the_cap_and_all_of_it_is_used(server, make_judge, cap, most, concurrency):
    server.script("judge", said("8 6", delay=0.01))
    judge = make_judge(judge_max_tokens_total=cap, judge_concurrency=concurrency, judge_max_tokens=100)
    outcomes = judge.ask(questions(20), "Judging")
    assert server.calls() == judged(outcomes) == most
    assert reasons(outcomes) == ({f"judge_max_tokens_total={cap} reached"} if most < 20 else set())


def test_calls_that_wait_for_others_under_a_cap_are_made_in_their_order(server, make_judge):
    server.script("judge", said("8 6", delay=0.01))
    judge = make_judge(judge_max_tokens_total=1000, judge_concurrency=4, judge_max_tokens=400)
    outcomes = judge.ask(questions(20), "Judging")
    made = [isinstance(outcome, Verdict) for outcome in outcomes]
    assert 3 < sum(made) < 20 and made == sorted(made, reverse=True)


def test_a_second_attempt_is_a_call_too(server, make_judge):
    server.script("judge", "hm")
    outcomes = make_judge(judge_max_calls=4, judge_concurrency=1).ask(questions(3), "Judging")
    assert server.calls() == 4
    assert [outcome.attempts for outcome in outcomes] == [3, 1, 0]
    assert reasons(outcomes[1:]) == {"judge_max_calls=4 reached"}


def test_a_server_that_counts_no_tokens_is_held_to_what_was_expected(server, make_judge):
    server.script("judge", said("8 6", usage=False))
    outcomes = make_judge(judge_max_tokens_total=350, judge_max_tokens=100).ask(questions(20), "Judging")
    assert judged(outcomes) == 3


def test_calls_without_an_answer_use_no_tokens(server, make_judge):
    server.script("judge", Answer(400, {"error": {"message": "x", "code": "content_filter"}}))
    outcomes = make_judge(judge_max_tokens_total=200, judge_max_tokens=100).ask(questions(6), "Judging")
    assert server.calls() == 6 and len(reasons(outcomes)) == 1 and "reached" not in str(reasons(outcomes))


def test_a_run_that_reached_its_cap_goes_on_with_the_same_command(runs, monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(together.log, "warning", lambda text, *values: lines.append(text % values))
    out = runs.run("out", ends=3, judge_max_calls=5, judge_early=False)
    assert runs.server.calls("judge") == 5
    told = next(line for line in lines if "UNJUDGED" in line)
    assert "judge_max_calls=5 reached" in told and "To finish: run the same command again" in told
    summaries = [judging(results(out), name) for name in ("speech_QA", "sound_QA")]
    assert sum(summary["judged"] for summary in summaries) == 2  # one call was the trial
    assert {reason for summary in summaries for reason in summary["unjudged"]} == {"judge_max_calls=5 reached"}
    runs.run("out", judge_max_calls=500, judge_early=False)
    assert len(runs.judged()) == 6


def test_the_cap_holds_for_a_batch(tmp_path):
    with batch_server.running() as api:
        settings = {"judge_model": "judge-1", "judge_base_url": api.url, "judge_batch": True, "judge_batch_poll": 0.01}
        judge = Judge(JudgeSettings(**settings, judge_cache=str(tmp_path / "cache.sqlite"), judge_max_calls=4))
        wanted = questions(6)
        judge.fill(lambda: iter(wanted))
        outcomes = judge.ask(wanted, "Judging")
        judge.close()
        assert judged(outcomes) == 4 and [len(rows) for rows in api.asked] == [4]
        assert reasons(outcomes) == {"judge_max_calls=4 reached"} and api.calls == []


# The line before


@pytest.mark.parametrize(
    ("price", "batch", "told"),
    [
        (None, False, "(judge_price=IN,OUT of a million tokens tells the money)"),
        ((2.0, 8.0), False, "about 2.04 by judge_price"),
        ((2.0, 8.0), True, "about 1.02 in a batch by judge_price"),
    ],
)
def test_the_estimate_in_one_line(price, batch, told):
    line = estimate(4400, 1_000_000, 5000, price, batch)
    assert line.startswith("4400 calls to the judge, about 1000000 prompt and 5000 completion tokens")
    assert line.endswith(told)


def test_tokens_of_a_prompt_are_a_quarter_of_its_bytes():
    assert prompt_tokens([{"role": "user", "content": "a" * 400}]) == 101
    assert prompt_tokens([{"role": "user", "content": "\u732b" * 400}]) == 301


@pytest.mark.parametrize("price", [[0.4, 1.6], "0.4,1.6", "[0.4, 1.6]", "0.4/1.6"])
def test_a_price_is_two_numbers(price):
    assert read_settings("intima", {"judge_price": price}).judge_price == (0.4, 1.6)


@pytest.mark.parametrize("price", [5, "5", [1, 2, 3], "a,b", [-1, 2], [float("nan"), 1]])
def test_what_is_no_price_is_refused(price):
    with pytest.raises(ValueError, match="judge_price="):
        read_settings("intima", {"judge_price": price})


@pytest.mark.parametrize("again", ["the same", "rejudge"])
def test_the_cost_is_told_once_before_the_judging_and_only_for_what_is_not_known(runs, monkeypatch, again):
    lines: list[str] = []
    monkeypatch.setattr(together.log, "info", lambda text, *values: lines.append(text % values))

    def told():
        found = [line for line in lines if line.startswith("Expected: ")]
        lines.clear()
        return found

    out = runs.run("out", judge_early=False, judge_price=[1000, 0])
    sent = sum(
        prompt_tokens(asked.body["messages"]) for asked in runs.server.asked["judge"] if "QA question" in asked.text
    )
    (line,) = told()
    assert "10 calls to the judge" in line
    assert f"about {sent} prompt and 40 completion tokens, about {sent / 1000:.2f} by judge_price" in line
    runs.rejudge(out, *(["--metadata", "judge_temperature=1"] if again == "rejudge" else []))
    assert len(told()) == (again == "rejudge")
