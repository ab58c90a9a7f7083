"""Many questions at once: order, limit, asking again, giving up, and what is said about who answered."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from conftest import QUESTION, questions
from servers import DROP, Answer, busy, refused, said

from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Unjudged, Verdict
from lm_eval_tasks.settings import JudgeSettings, read_settings


def reasons(outcomes):
    return [outcome.reason if isinstance(outcome, Unjudged) else None for outcome in outcomes]


def number(asked):
    """Which of ``questions`` this is."""
    return int(asked.text.split("Question ")[1].split("?")[0])


def test_outcomes_come_in_the_order_of_the_questions(server, make_judge):
    server.script("judge", lambda asked: said(f"{number(asked) + 1} 1", delay=0.02 * (9 - number(asked))))
    outcomes = make_judge().ask(questions(9), "Judging")
    assert [outcome.value for outcome in outcomes] == [(float(n + 1), 1.0) for n in range(9)]


def test_no_more_calls_are_in_flight_than_judge_concurrency(server, make_judge):
    server.script("judge", said("8 6", delay=0.03))
    judge = make_judge(judge_concurrency=3)
    threads = [threading.Thread(target=judge.ask, args=(questions(9), "Judging")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.peak["judge"] == 3


# Asked again


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("eight", "no pair of scores where the reply begins"),
        ("  \n", "empty reply"),
        ("11 6", "scores outside 0 to 10"),
        ("8 6\n7 5", "ambiguous: more than one pair of scores"),
        (said("8 6", finish="length"), "cut short"),
        (said("8 6", refusal="no"), "refused by the judge"),
        (said(None), "empty reply"),
    ],
)
def test_a_reply_that_is_no_verdict_is_asked_for_again_with_the_form_restated_and_given_up_after_three(
    server, make_judge, bad, reason
):
    server.script("judge", bad, then="8 6")
    (verdict,) = make_judge().ask([QUESTION], "Judging")
    assert isinstance(verdict, Verdict) and verdict.value == (8, 6) and verdict.attempts == 2
    assert [text.count(QUESTION.form) for text in server.texts()] == [0, 1]
    limits = [asked.body["max_tokens"] for asked in server.asked["judge"]]
    assert limits == ([1024, 2048] if reason == "cut short" else [1024, 1024])
    server.script("judge", bad)
    (outcome,) = make_judge().ask([QUESTION], "Judging")
    assert isinstance(outcome, Unjudged) and (outcome.reason, outcome.attempts) == (reason, 3)
    assert server.calls() == 2 + 3


def test_a_reply_cut_short_gets_double_the_room_each_time(server, make_judge):
    server.script("judge", said("8", finish="length"), said("8 6", finish="length"), then="8 6")
    (verdict,) = make_judge(judge_max_tokens=100).ask([QUESTION], "Judging")
    assert [asked.body["max_tokens"] for asked in server.asked["judge"]] == [100, 200, 400]
    assert verdict.value == (8, 6) and verdict.attempts == 3


def test_tokens_are_summed_over_all_attempts(server, make_judge):
    server.script("judge", "eight", said("eight", usage=False), then="8 6")
    (verdict,) = make_judge().ask([QUESTION], "Judging")
    assert (verdict.prompt_tokens, verdict.completion_tokens) == (200, 8)


def test_where_double_the_room_is_refused_the_reply_was_cut_short(server, make_judge):
    too_long = refused(400, "'max_tokens' is too large. This model's maximum context length is 150 tokens.")
    server.script("judge", said("8 6", finish="length"), then=too_long)
    (outcome,) = make_judge(judge_max_tokens=100).ask([QUESTION], "Judging")
    assert (outcome.reason, outcome.attempts, outcome.reply, outcome.prompt_tokens) == ("cut short", 2, "8 6", 100)


# One question's faults are its own


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (refused(400, "content management policy", code="content_filter"), "content filter"),
        (refused(400, "This model's maximum context length is 10 tokens"), "context too long"),
        (refused(413, "too big"), "request refused (HTTP 413)"),
    ],
)
def test_a_question_that_fails_for_good_costs_one_call_and_the_rest_finish(server, make_judge, fault, reason):
    server.script("judge", lambda asked: fault if number(asked) == 2 else "8 6")
    outcomes = make_judge().ask(questions(6), "Judging")
    assert reasons(outcomes) == [None, None, reason, None, None, None] and server.calls() == 6


def test_many_that_are_never_answered_among_others_that_are_do_not_end_judging(server, make_judge):
    server.script("judge", lambda asked: busy(500) if number(asked) % 2 else "8 6")
    judge = make_judge(judge_max_retries=0, judge_concurrency=1)
    assert reasons(judge.ask(questions(40), "Judging")).count(None) == 20 and judge.stopped is None


# The judge goes


def test_a_server_that_dies_half_way_ends_judging_in_bounded_time(server, make_judge, caplog):
    server.script("judge", *["8 6"] * 20, then=DROP)
    judge = make_judge(judge_max_retries=0, judge_concurrency=4, judge_patience=1)
    start = time.monotonic()
    outcomes = judge.ask(questions(100), "Judging")
    assert time.monotonic() - start < 6
    counts = [reasons(outcomes).count(reason) for reason in (None, "judge unreachable", "judge unavailable")]
    assert counts[0] == 20 and 1 <= counts[1] <= 8 and sum(counts) == 100
    assert "stopped answering" in judge.stopped
    assert sum("stopped answering" in record.message for record in caplog.records) == 1


def test_an_outage_costs_no_verdict(server, make_judge):
    begun = time.monotonic()
    server.script("judge", lambda asked: DROP if 0.2 < time.monotonic() - begun < 1.0 else said("8 6", delay=0.1))
    outcomes = make_judge(judge_max_retries=2, judge_concurrency=4, judge_patience=60).ask(questions(20), "Judging")
    assert reasons(outcomes) == [None] * 20


@pytest.mark.parametrize("status", [401, 402])
def test_a_permanent_fault_half_way_stops_all_but_the_calls_in_flight_until_a_new_run(server, make_judge, status):
    server.script("judge", *["8 6"] * 10, then=refused(status, "no"))
    judge = make_judge(judge_concurrency=2)
    outcomes = judge.ask(questions(50), "Judging")
    assert reasons(outcomes).count(None) == 10 and reasons(outcomes).count("judge unavailable") == 40
    judge.ask(questions(3), "Judging")
    assert server.calls() <= 12
    server.script("judge", "8 6")
    judge.begin_run()
    judge.check(QUESTION)
    assert reasons(judge.ask([QUESTION], "Judging")) == [None]


# The trial


def test_the_trial_is_one_call_for_all_tasks_of_a_run(server, make_judge):
    server.script("judge", "8 6")
    judge = make_judge()
    for _ in range(8):
        judge.begin_run()
        judge.check(QUESTION)
    assert server.calls() == 1


@pytest.mark.parametrize(
    ("step", "named", "calls"),
    [
        (refused(401, "no"), "JUDGE_API_KEY", 1),
        (refused(403, "no"), "JUDGE_API_KEY", 1),
        (refused(404, "no"), "judge_model", 1),
        (Answer(404, "<html>"), "judge_base_url", 1),
        (refused(400, "I don't take this"), "I don't take this", None),
        (Answer(body="<html>", headers={"Content-Type": "text/html"}), "judge_base_url", None),
        (Answer(502, "<html>bad gateway"), "bad gateway", None),
        (busy(503), "HTTP 503", None),
        ("I'd rather chat", "judge_check=warn", 3),
        (said("8 6", finish="length"), "cut short", 3),
    ],
)
def test_a_judge_without_a_verdict_ends_the_trial(server, make_judge, step, named, calls):
    server.script("judge", step)
    with pytest.raises(ValueError, match=named):
        make_judge(judge_max_retries=1, judge_patience=0.5).check(QUESTION)
    assert calls in (None, server.calls())


def test_a_dead_address_ends_the_trial_within_seconds(make_judge):
    start = time.monotonic()
    with pytest.raises(ValueError, match="judge_base_url"):
        make_judge(judge_base_url="http://127.0.0.1:9/v1", judge_max_retries=6).check(QUESTION)
    assert time.monotonic() - start < 5


def test_a_judge_that_thinks_for_long_passes_the_trial_within_judge_timeout(server, make_judge):
    server.script("judge", said("8 6", delay=0.4))
    make_judge(judge_timeout=2).check(QUESTION)
    with pytest.raises(ValueError, match="judge_timeout"):
        make_judge(judge_timeout=0.2, judge_max_retries=0).check(QUESTION)


@pytest.mark.parametrize(("step", "options"), [(busy(429), {}), ("I'd rather chat", {"judge_check": "warn"})])
def test_a_busy_or_talkative_judge_passes_the_trial_with_a_warning(server, make_judge, step, options, caplog):
    server.script("judge", step)
    make_judge(judge_patience=0.5, **options).check(QUESTION)
    assert any(record.levelno == logging.WARNING for record in caplog.records)


def test_the_trials_verdict_is_not_stored(server, make_judge, tmp_path):
    server.script("judge", "8 6")
    judge = make_judge(judge_cache=str(tmp_path / "c.sqlite"))
    judge.check(QUESTION)
    (verdict,) = judge.ask([QUESTION], "Judging")
    assert not verdict.cached and server.calls() == 2


# Who answered


def test_another_model_than_asked_is_warned_of_once_and_kept(server, make_judge, caplog):
    server.script("judge", "8 6", "8 6", said("8 6", model="judge-1-mini"))
    make_judge().ask(questions(2), "Judging")
    assert not caplog.records
    outcomes = make_judge().ask(questions(5), "Judging")
    assert {outcome.judge for outcome in outcomes} == {"judge-1-mini"}
    assert len([r for r in caplog.records if "judge-1-mini" in r.getMessage()]) == 1


@pytest.mark.parametrize("stored", [False, True])
def test_two_models_in_one_run_are_an_error_in_the_log(server, make_judge, tmp_path, caplog, stored):
    server.script("judge", said("8 6", model="judge-1"), then=said("8 6", model="judge-2"))
    cache = stored and str(tmp_path / "c.sqlite")
    judge = make_judge(judge_cache=cache)
    judge.ask(questions(1), "Judging")
    judge = make_judge(judge_cache=cache) if stored else judge
    judge.ask(questions(2), "Judging")
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert "MORE THAN ONE JUDGE" in record.message and judge.answered_by == {"judge-1", "judge-2"}


# The same question twice


def test_the_same_question_at_once_is_asked_once_where_there_is_a_cache(server, make_judge, tmp_path):
    server.script("judge", said("8 6", delay=0.05), then=said("7 5", delay=0.05))
    outcomes = make_judge(judge_cache=str(tmp_path / "c.sqlite")).ask([QUESTION, QUESTION], "Judging")
    assert [outcome.value for outcome in outcomes] == [(8, 6), (8, 6)] and server.calls() == 1


def test_one_judge_serves_all_tasks_with_the_same_judge_settings(server, monkeypatch):
    metadata = {"judge_base_url": server.url(), "judge_cache": False}
    one = Judge.of(read_settings("air_bench_chat", metadata | {"do_swap": False}))
    two = Judge.of(read_settings("intima", metadata))
    assert one is two
    monkeypatch.setenv("JUDGE_API_KEY", "another")
    assert Judge.of(JudgeSettings(**metadata)) is not one
