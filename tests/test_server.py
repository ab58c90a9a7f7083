"""What servers do: each kind of response, tried on the model and on the judge against a real HTTP server."""

from __future__ import annotations

import itertools
import time
import uuid

import pytest
from conftest import QUESTION, questions
from server_roles import both
from servers import DROP, Answer, busy, completion, refused, said

from lm_eval_tasks.judge.question import Verdict
from lm_eval_tasks.runs.answers import Answer as Answered
from lm_eval_tasks.server import client


def in_flight(role, count):
    return {"judge_concurrency" if role == "judge" else "num_concurrent": count}


@both
def test_filters_that_refuse_everything_end_the_run_too(server, ask, role):
    server.script(role, refused(400, "x", code="content_filter"))
    assert ask(role, 60, **in_flight(role, 2)) == [None] * 60
    assert server.calls(role) <= 34


# What follows, on both sides


@both
@pytest.mark.parametrize("finish", ["MAX_TOKENS", "abort", "STOP", None])
def test_a_reply_that_is_not_whole_is_no_verdict(server, ask, role, finish, tmp_path):
    server.script(role, completion("9 1", finish))
    (got,) = ask(role, **({"judge_cache": str(tmp_path / "v.sqlite")} if role == "judge" else {}))
    if finish in ("STOP", None):
        assert got == "9 1"
    elif role == "judge":
        assert got is None and not ask.judge.knows(questions(1)[0])
    elif finish == "abort":
        assert got is None
    else:
        assert got == "9 1" and ask.outcomes[0].finish == "length" and ask.outcomes[0].cut


@pytest.mark.parametrize(
    "begins", ["<think>", "<thinking>", "<seed:think>", "<|channel|>analysis<|message|>", "[THINK]"]
)
def test_half_a_thought_is_kept_and_flagged(server, ask, begins):
    server.script("model", f"{begins}hm, a dog")
    assert ask("model") == [f"{begins}hm, a dog"] and ask.outcomes[0].finish == "thinking"


@both
def test_thinking_is_left_out_of_parts_and_a_reply_of_reasoning_alone_names_the_parser(server, ask, role):
    parts = [{"type": "thinking", "thinking": "1 1"}, {"type": "text", "text": "8 "}, {"type": "text", "text": "6"}]
    server.script(role, completion(parts))
    assert ask(role) == ["8 6"]
    server.script(role, said(None, reasoning_content="8 6"))
    assert ask(role) == [None]
    told = ask.outcomes[0].reason if role == "judge" else str(ask.outcomes[0])
    assert "reasoning parser" in told


@both
@pytest.mark.parametrize(
    "fault",
    [
        busy(429),
        busy(503),
        refused(502, "x"),
        refused(408, "x"),
        DROP,
        Answer(drop=b"\x16\x03\x01 no HTTP\r\n\r\n"),
        Answer(drop=b"HTTP/1.1 200 OK\r\n" + b"X-Header: x\r\n" * 500),
        Answer(drop=b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"choices": [{'),
        Answer(body=b"8 6", headers={"Content-Encoding": "gzip"}),
        Answer(body="not JSON"),
        Answer(body={"error": {"code": 429, "message": "slow"}}),
        Answer(body={"choices": None}),
        completion("", "error"),
    ],
)
def test_a_fault_that_passes_costs_one_more_call(server, ask, role, fault):
    server.script(role, fault, then="8 6")
    assert ask(role) == ["8 6"] and server.calls(role) == 2


@both
def test_retry_after_is_waited_for(server, ask, role):
    server.script(role, *[refused(429, "busy", headers={"Retry-After": "0.7"})] * 4, then="8 6")
    begun = time.monotonic()
    assert ask(role, 12) == ["8 6"] * 12
    assert time.monotonic() - begun >= 0.7


@both
def test_rate_limits_never_look_like_death(server, ask, role):
    begun = time.monotonic()
    server.script(role, lambda asked: busy(429) if time.monotonic() < begun + 1.2 else "8 6")
    options = {"judge_patience": 30} if role == "judge" else {"patience": 30}
    assert ask(role, 60, **options) == ["8 6"] * 60


@both
def test_a_request_that_is_always_rate_limited_costs_itself(server, ask, role, monkeypatch):
    monkeypatch.setattr(client, "OUTRUN", 4)
    server.script(
        role, lambda asked: busy(429, 5) if asked.text.rstrip("?").endswith(" 3") else said("8 6", delay=0.02)
    )
    options = {"judge_concurrency": 2} if role == "judge" else {"num_concurrent": 2}
    got = ask(role, 60, **options)
    assert got.count(None) == 1 and server.calls(role) < 59 + 60
    assert got[3] is None


@both
def test_one_403_or_404_among_successes_concerns_that_doc_alone(server, ask, role):
    for status in (403, 404):
        server.forget()
        server.script(role, "8 6", refused(status, "not this one"), then="8 6")
        got = ask(role, 6)
        assert sorted(got, key=str) == ["8 6"] * 5 + [None]
        (missing,) = [one for one, text in zip(ask.outcomes, got, strict=True) if text is None]
        assert "not this one" in (missing.why if role == "judge" else missing.detail)


@both
@pytest.mark.parametrize("named", ["", "{uuid}: ", "[req_{uuid}] "])
def test_equal_refusals_end_the_run_after_the_first_eight_and_those_in_flight(server, ask, role, named):
    words = named + "At most 0 audio(s) may be provided in one prompt."
    server.script(role, lambda asked: refused(400, words.replace("{uuid}", str(uuid.uuid4()))))
    assert ask(role, 100, **({"judge_concurrency": 4} if role == "judge" else {})) == [None] * 100
    assert server.calls(role) <= 8 + 4 + 4  # the last: one refusal is tried with fewer fields
    told = ask.judge.stopped if role == "judge" else str(ask.outcomes[0])
    assert "At most 0 audio(s)" in told


@both
def test_refusals_of_everything_end_the_run_though_no_two_are_alike(server, ask, role):
    words = iter("".join(letters) for letters in itertools.product("abcdefgh", repeat=4))
    server.script(role, lambda asked: refused(400, next(words)))
    assert ask(role, 200, **in_flight(role, 2)) == [None] * 200
    assert server.calls(role) <= 4 * (32 + 2)  # each is tried with fewer fields


@both
def test_refusals_of_many_do_not_end_the_run_while_those_in_flight_had_no_time_to_be_answered(server, ask, role):
    words = iter("".join(letters) for letters in itertools.product("abcdefgh", repeat=4))
    turn, late = itertools.count(), said("8 6", delay=0.5)
    server.script(role, lambda asked: refused(413, next(words)) if next(turn) % 3 < 2 else late)
    assert len(list(filter(None, ask(role, 120, **in_flight(role, 60))))) == 40


@both
@pytest.mark.parametrize(
    "step", [refused(400, "x", code="budget_exceeded"), refused(403, "your balance is insufficient")]
)
def test_no_credit_stops_at_once(server, ask, role, step):
    server.script(role, step)
    assert ask(role, 40, **({"judge_concurrency": 2} if role == "judge" else {"num_concurrent": 2})) == [None] * 40
    assert server.calls(role) <= (2 if step.status == 400 else 4)  # words alone are believed when they come again
    told = ask.judge.stopped if role == "judge" else str(ask.outcomes[0])
    assert "no credit" in told


@both
@pytest.mark.parametrize(
    "words",
    ["blocked: 'my account has insufficient funds'", "\u5145\u503c", "cannot process 'an invalid API key was used'"],
)
@pytest.mark.parametrize("status", [400, 403])
def test_a_refusal_that_quotes_a_prompt_never_ends_the_run(server, ask, role, status, words):
    server.script(role, lambda asked: refused(status, words) if asked.text.rstrip("?").endswith(" 3") else "8 6")
    got = ask(role, 12)
    assert got.count(None) == 1 and got[3] is None
    why = ask.outcomes[3].why if role == "judge" else ask.outcomes[3].detail
    assert words in why


def test_a_limit_of_tokens_that_no_request_meets_ends_the_run(server, ask):
    server.script("model", refused(400, "max_tokens is too low: use a higher one"))
    assert ask("model", 60, num_concurrent=2) == [None] * 60
    assert server.calls("model") <= 34 and "too low" in str(ask.outcomes[0])


def test_a_refusal_for_want_of_room_gets_more_room(server, make_judge):
    words = "Could not finish the message because max_tokens or model output limit was reached."
    server.script("judge", lambda asked: refused(400, words) if asked.body["max_tokens"] < 4000 else "8 6")
    judge = make_judge(judge_max_tokens=1024)
    judge.check(QUESTION)
    assert isinstance(judge.ask([QUESTION], "Judging")[0], Verdict)


def test_fields_of_ones_own_are_sent_with_each_call_and_make_another_cache_entry(server, ask, make_judge):
    server.script("judge", "8 6")
    ask("judge", judge_extra_body={"enable_thinking": False})
    assert server.asked["judge"][0].body["enable_thinking"] is False
    assert ask.judge.key(QUESTION) != make_judge().key(QUESTION)


def test_answers_tell_what_the_server_said_of_them(server, ask):
    server.script("model", said("yes", model="m-2026"))
    ask("model")
    (answer,) = ask.outcomes
    assert isinstance(answer, Answered)
    assert (answer.finish, answer.model, answer.prompt_tokens, answer.completion_tokens) == ("stop", "m-2026", 100, 4)


@both
@pytest.mark.parametrize("error", [{"code": 429, "message": "slow down"}, {"code": "rate_limit_exceeded"}])
def test_a_pause_that_is_asked_for_beside_an_error_in_a_200_is_kept(server, ask, role, error):
    busy = Answer(200, {"error": error}, {"Retry-After": "1"})
    server.script(role, busy, then=said("8 6"))
    begun = time.monotonic()
    assert ask(role) == ["8 6"]
    assert 0.9 < time.monotonic() - begun < 2.5 and server.calls(role) == 2
