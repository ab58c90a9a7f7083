"""What servers do: each kind of response, tried on the model and on the judge against a real HTTP server."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from dataclasses import replace

import pytest
from conftest import QUESTION, questions
from lm_eval.api.instance import Instance
from lm_eval.models.api_models import JsonChatStr
from servers import DROP, Answer, busy, completion, refused, said

from lm_eval_tasks.errors import ModelUnavailable
from lm_eval_tasks.judge.question import Verdict
from lm_eval_tasks.models.api import AudioChatCompletions
from lm_eval_tasks.runs.answers import Answer as Answered
from lm_eval_tasks.runs.answers import Unanswered
from lm_eval_tasks.server import client, pace


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(pace, "_LONGEST_PAUSE", 0.05)


def requests(count):
    chats = [JsonChatStr(json.dumps([{"role": "user", "content": f"question {n}"}])) for n in range(count)]
    made = [Instance("generate_until", {}, (c, {"until": ["END."]}), 0, ("t", n, 1)) for n, c in enumerate(chats)]
    for request in made:
        vars(request)["may_stay_unanswered"] = True
    return made


@pytest.fixture
def ask(server, make_judge):
    """A function that asks the model or the judge about some docs: what each got, as text, or None."""

    def call(role, count=1, **options):
        if role == "judge":
            call.judge = make_judge(**options)
            call.outcomes = call.judge.ask(questions(count), "Judging")
            return [found.reply if isinstance(found, Verdict) else None for found in call.outcomes]
        model = {"patience": 3, "num_concurrent": 4, "max_retries": 2, "timeout": 5, **options}
        address = f"{server.url('model')}/chat/completions"
        try:
            call.outcomes = AudioChatCompletions(base_url=address, model="m", **model).generate_until(requests(count))
        except ModelUnavailable as error:
            call.outcomes = [error]
            return [None] * count
        return [None if isinstance(found, Unanswered) else str(found) for found in call.outcomes]

    return call


both = pytest.mark.parametrize("role", ["judge", "model"])


@both
def test_filters_that_refuse_everything_end_the_run_too(server, ask, role):
    server.script(role, refused(400, "x", code="content_filter"))
    assert ask(role, 60, **({"judge_concurrency": 2} if role == "judge" else {"num_concurrent": 2})) == [None] * 60
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


def test_half_a_thought_is_kept_and_flagged(server, ask):
    server.script("model", "<think>hm, a dog")
    assert ask("model") == ["<think>hm, a dog"] and ask.outcomes[0].finish == "thinking"


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
def test_a_fault_that_passes_costs_one_more_call(server, ask, role, fault, quick):
    server.script(role, fault, then="8 6")
    assert ask(role) == ["8 6"] and server.calls(role) == 2


@both
def test_retry_after_is_waited_for(server, ask, role):
    server.script(role, *[refused(429, "busy", headers={"Retry-After": "0.7"})] * 4, then="8 6")
    begun = time.monotonic()
    assert ask(role, 12) == ["8 6"] * 12
    assert time.monotonic() - begun >= 0.7


@both
def test_rate_limits_never_look_like_death(server, ask, role, quick):
    begun = time.monotonic()
    server.script(role, lambda asked: busy(429) if time.monotonic() < begun + 1.2 else "8 6")
    options = {"judge_patience": 30} if role == "judge" else {"patience": 30}
    assert ask(role, 60, **options) == ["8 6"] * 60


@both
def test_a_request_that_is_always_rate_limited_costs_itself(server, ask, role, quick, monkeypatch):
    monkeypatch.setattr(client, "OUTRUN", 4)
    server.script(
        role, lambda asked: busy(429, 5) if asked.text.rstrip("?").endswith(" 3") else said("8 6", delay=0.02)
    )
    options = {"judge_concurrency": 2} if role == "judge" else {"num_concurrent": 2}
    got = ask(role, 60, **options)
    assert got.count(None) == 1 and server.calls(role) < 59 + 60
    assert got[3] is None


@both
def test_one_403_or_404_among_successes_concerns_that_doc_alone(server, ask, role, quick):
    for status in (403, 404):
        server.forget()
        server.script(role, "8 6", refused(status, "not this one"), then="8 6")
        got = ask(role, 6)
        assert sorted(got, key=str) == ["8 6"] * 5 + [None]
        (missing,) = [one for one, text in zip(ask.outcomes, got, strict=True) if text is None]
        assert "not this one" in (missing.why if role == "judge" else missing.detail)


@both
def test_equal_refusals_end_the_run_after_the_first_eight_and_those_in_flight(server, ask, role):
    server.script(role, refused(400, "At most 0 audio(s) may be provided in one prompt."))
    assert ask(role, 100, **({"judge_concurrency": 4} if role == "judge" else {})) == [None] * 100
    assert server.calls(role) <= 8 + 4 + 4  # the last: one refusal is tried with fewer fields
    told = ask.judge.stopped if role == "judge" else str(ask.outcomes[0])
    assert "At most 0 audio(s)" in told


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
    [
        "blocked: 'my account has insufficient funds'",
        "\u5145\u503c",
        "cannot process 'an invalid API key was used'",
    ],
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


@both
def test_a_fault_of_the_server_that_names_a_field_and_passes_teaches_nothing(server, ask, role, quick):
    server.script(role, refused(500, "worker lost (temperature sensor)"), then="8 6")
    assert ask(role, 3, **({"judge_concurrency": 1} if role == "judge" else {"num_concurrent": 1})) == ["8 6"] * 3
    assert "temperature" in server.asked[role][-1].body


def refusing(field, status=400, words="Unrecognized request argument supplied: {}"):
    def answer(asked):
        return refused(status, words.format(field)) if field in asked.body else "8 6"

    return answer


@both
@pytest.mark.parametrize(
    ("field", "status", "words"),
    [
        ("temperature", 400, "Unsupported value: '{}' does not support 0 with this model."),
        ("temperature", 422, "nope"),
        ("seed", 400, "Unrecognized request argument supplied: {}"),
        ("stop", 500, "Internal Server Error"),
        ("stop", 400, "unexpected keyword"),
        ("max_tokens", 400, "Unsupported parameter: '{}'. Use 'max_completion_tokens' instead."),
    ],
)
def test_a_field_that_is_refused_is_left_out_from_then_on(server, ask, role, field, status, words, quick):
    if role == "judge" and field in ("seed", "stop"):
        pytest.skip("the judge is not sent these")
    server.script(role, refusing(field, status, words))
    assert ask(role, 20) == ["8 6"] * 20
    assert server.calls(role) <= 20 + (20 if role == "judge" else 4) + 6 and field not in server.asked[role][-1].body
    without = ask.outcomes[-1].dialect if role == "judge" else ask.outcomes[-1].without
    assert ("max_completion_tokens" if field == "max_tokens" else field) in without


def test_a_refusal_that_quotes_a_prompt_teaches_nothing(server, ask):
    def answer(asked):
        return refused(400, "cannot process: 'which temperature and seed?'") if asked.text == "question 3" else "8 6"

    server.script("model", answer)
    assert ask("model", 6) == ["8 6"] * 3 + [None] + ["8 6"] * 2
    (last,) = [asked.body for asked in server.asked["model"] if asked.text == "question 5"]
    assert {"temperature", "seed"} <= last.keys() and ask.outcomes[-1].without == ()


@both
@pytest.mark.parametrize(
    "words", ["valid range of max_tokens is [1, 64]", "max_tokens is too large: this model supports at most 64 tokens"]
)
def test_a_named_limit_caps_that_call_alone(server, ask, role, words):
    server.script(role, lambda asked: refused(400, words) if asked.body["max_tokens"] > 64 else "8 6")
    assert ask(role, 2) == ["8 6"] * 2
    assert {asked.body["max_tokens"] for asked in server.asked[role]} == {64, 1024 if role == "judge" else 256}
    assert (ask.outcomes[0].dialect if role == "judge" else ask.outcomes[0].without) in ([], ())


def test_a_number_beside_a_refused_field_is_no_limit(server, ask):
    """A date or a status in the server's words would cut every answer."""
    words = "Unsupported parameter: 'max_tokens' in api 2024-12-01 (see 37). Use 'max_completion_tokens' instead."
    server.script("model", refusing("max_tokens", 400, words))
    assert ask("model", 3) == ["8 6"] * 3
    assert {a.body.get("max_completion_tokens") for a in server.asked["model"]} == {None, 256}


@both
def test_a_fault_that_passes_by_itself_teaches_nothing(server, ask, role, quick):
    server.script(role, *[refused(500, "starting")] * 4, then="8 6")
    options = {"judge_concurrency": 1, "judge_max_retries": 6} if role == "judge" else {"num_concurrent": 1}
    assert ask(role, 3, **options) == ["8 6"] * 3
    assert "temperature" in server.asked[role][-1].body
    assert (ask.outcomes[-1].dialect if role == "judge" else ask.outcomes[-1].without) in ([], ())


def test_a_user_and_password_in_an_address_are_sent_and_not_shown(server, ask, caplog):
    server.script("model", refused(401, "no"))
    address = f"{server.url('model')}/chat/completions".replace("//", "//me:secret-word@")
    with pytest.raises(ModelUnavailable) as raised:
        AudioChatCompletions(base_url=address, model="m").generate_until(requests(1))
    assert server.asked["model"][0].headers["Authorization"] == "Basic bWU6c2VjcmV0LXdvcmQ="
    assert "HTTP 401" in str(raised.value) and "secret-word" not in str(raised.value) + caplog.text


def test_a_refusal_for_want_of_room_gets_more_room(server, make_judge):
    words = "Could not finish the message because max_tokens or model output limit was reached."
    server.script("judge", lambda asked: refused(400, words) if asked.body["max_tokens"] < 4000 else "8 6")
    judge = make_judge(judge_max_tokens=1024)
    judge.check(QUESTION)
    assert isinstance(judge.ask([QUESTION], "Judging")[0], Verdict)


@pytest.mark.parametrize(
    "refusal", [refused(400, "grammar is not allowed"), refused(400, "response_schema: no"), refused(500, "oops")]
)
def test_a_judge_that_refuses_a_schema_in_any_words_is_asked_without(server, make_judge, refusal, quick):
    server.script("judge", lambda asked: refusal if "response_format" in asked.body else "8 6")
    (verdict,) = make_judge().ask([replace(QUESTION, schema={"type": "object"})], "Judging")
    assert verdict.value == (8, 6) and verdict.dialect == ["response_format"]


def test_a_long_call_is_limited_as_a_whole(server, ask):
    server.script("judge", said("8 6", delay=3))
    begun = time.monotonic()
    assert ask("judge", judge_timeout=0.3, judge_max_retries=0, judge_patience=1) == [None]
    assert time.monotonic() - begun < 2.5


@both
def test_a_proxy_does_not_stand_before_a_loopback_address(server, ask, role, monkeypatch):
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    server.script(role, "8 6")
    assert ask(role) == ["8 6"]


def test_fields_of_ones_own_are_sent_with_each_call_and_make_another_cache_entry(server, ask, make_judge):
    server.script("judge", "8 6")
    ask("judge", judge_extra_body={"enable_thinking": False})
    assert server.asked["judge"][0].body["enable_thinking"] is False
    assert ask.judge.key(QUESTION) != make_judge().key(QUESTION)


def test_azure_is_asked_with_its_version_and_its_header(server, make_judge, monkeypatch):
    monkeypatch.setenv("JUDGE_API_KEY", "azure-key-1")
    server.script("judge", "8 6")
    judge = make_judge(judge_base_url=f"{server.url()}?api-version=2024-10-21")
    assert isinstance(judge.ask([QUESTION], "Judging")[0], Verdict)
    assert server.asked["judge"][0].headers["api-key"] == "azure-key-1"


def test_a_short_key_is_not_looked_for_in_replies(server, make_judge, monkeypatch):
    monkeypatch.setenv("JUDGE_API_KEY", "1")
    server.script("judge", "1 6")
    (verdict,) = make_judge().ask([QUESTION], "Judging")
    assert verdict.value == (1, 6) and verdict.reply == "1 6"


def test_answers_tell_what_the_server_said_of_them(server, ask):
    server.script("model", said("yes", model="m-2026"))
    ask("model")
    (answer,) = ask.outcomes
    assert isinstance(answer, Answered)
    assert (answer.finish, answer.model, answer.prompt_tokens, answer.completion_tokens) == ("stop", "m-2026", 100, 4)


# Bodies without an end, and what headers say beside an error in a 200


@both
@pytest.mark.parametrize("status", [200, 500])
def test_a_body_of_any_size_fills_no_memory(server, ask, quick, role, status):
    packed = gzip.compress(b" " * (200 << 20))
    floods = [
        replace(said("8 6"), status=status, flood=1 << 30),
        Answer(status, packed, {"Content-Encoding": "gzip"}),
    ]
    server.script(role, *floods, then=said("8 6"))
    tracemalloc.start()
    try:
        got = ask(role, **({"judge_max_retries": 5} if role == "judge" else {"max_retries": 5}))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert got == ["8 6"]
    assert peak < 64 << 20 and server.flooded < 64 << 20


def test_a_long_reply_is_still_read(server, ask):
    text = "8 6" + " " * (1 << 20)
    server.script("model", said(text))
    assert ask("model") == [text]


@both
@pytest.mark.parametrize("error", [{"code": 429, "message": "slow down"}, {"code": "rate_limit_exceeded"}])
def test_a_pause_that_is_asked_for_beside_an_error_in_a_200_is_kept(server, ask, role, error):
    busy = Answer(200, {"error": error}, {"Retry-After": "1"})
    server.script(role, busy, then=said("8 6"))
    begun = time.monotonic()
    assert ask(role) == ["8 6"]
    assert 0.9 < time.monotonic() - begun < 2.5 and server.calls(role) == 2
