"""One call to the judge's server: its faults, its dialects and what it must not give away."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from conftest import QUESTION
from servers import DROP, Answer, busy, refused, said

from lm_eval_tasks.judge.endpoint import CallFailed, Endpoint, Stopped, Unreachable
from lm_eval_tasks.settings import JudgeSettings

SCHEMA = {"type": "object"}


@pytest.fixture
def ask(server):
    """A function that sends one chat to the scripted server and returns the reply; ``ask.endpoint`` is the last one."""

    def call(schema=None, times=1, together=1, **options):
        usual = {"judge_model": "judge-1", "judge_base_url": server.url(), "judge_max_retries": 2, "judge_timeout": 5}
        endpoint = call.endpoint = Endpoint(JudgeSettings(**{**usual, **options}))

        async def work():
            try:
                for _ in range(times):
                    chats = [endpoint.ask(QUESTION.messages, 64, schema) for _ in range(together)]
                    replies = await asyncio.gather(*chats)
                return replies[-1]
            finally:
                await endpoint.close()

        return asyncio.run(work())

    return call


def sent(server, index=-1):
    return server.asked["judge"][index].body


def test_a_plain_call_sends_model_messages_temperature_and_room(server, ask):
    server.script("judge", said("8 6"))
    reply = ask()
    assert (reply.text, reply.finish, reply.model) == ("8 6", "stop", "judge-1")
    assert (reply.prompt_tokens, reply.completion_tokens) == (100, 4)
    assert sent(server) == {
        "model": "judge-1",
        "messages": list(QUESTION.messages),
        "max_tokens": 64,
        "temperature": 0.0,
    }


# Faults that pass


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504])
def test_a_passing_fault_is_tried_again(server, ask, status):
    server.script("judge", busy(status), busy(status), then=said("8 6"))
    assert ask().text == "8 6" and server.calls() == 3


def test_retry_after_is_waited_for(server, ask):
    server.script("judge", refused(429, "slow down", headers={"Retry-After": "1"}), then=said("8 6"))
    assert ask().text == "8 6"
    first, second = server.asked["judge"]
    assert 0.95 < second.at - first.at < 2


def test_a_dropped_connection_is_tried_again(server, ask):
    server.script("judge", DROP, then=said("8 6"))
    assert ask().text == "8 6" and server.calls() == 2


def test_a_time_out_is_tried_again(server, ask):
    server.script("judge", said("1 1", delay=3), then=said("8 6"))
    assert ask(judge_timeout=0.3).text == "8 6" and server.calls() == 2


@pytest.mark.parametrize(
    ("step", "cause"),
    [
        (busy(429), "rate limit"),
        (busy(500), "HTTP 500"),
        (busy(503), "HTTP 503"),
        (DROP, "no connection"),
        (said("1 1", delay=3), "no answer within judge_timeout=0.3 s"),
    ],
)
def test_a_fault_that_stays_is_unreachable_after_the_retries(server, ask, step, cause):
    server.script("judge", step)
    with pytest.raises(Unreachable, match=cause):
        ask(judge_max_retries=1, judge_timeout=0.3)
    assert server.calls() == 2


def test_an_address_where_nobody_listens_is_unreachable(ask):
    with pytest.raises(Unreachable, match="no connection"):
        ask(judge_base_url="http://127.0.0.1:9/v1", judge_max_retries=0)


# Faults that stay


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405])
def test_a_permanent_fault_stops_after_one_call(server, ask, status):
    server.script("judge", refused(status, "no"))
    with pytest.raises(Stopped, match=f"HTTP {status}"):
        ask()
    assert server.calls() == 1


def test_a_wrong_key_names_the_variable_to_set(server, ask, monkeypatch):
    server.script("judge", refused(401, "no"))
    with pytest.raises(Stopped, match="JUDGE_API_KEY"):
        ask()
    monkeypatch.setenv("MY_KEY", "k")
    with pytest.raises(Stopped, match="MY_KEY"):
        ask(judge_api_key_env="MY_KEY")


def test_an_unknown_model_names_the_option_to_set(server, ask):
    server.script("judge", refused(404, "The model `judge-1` does not exist", code="model_not_found"))
    with pytest.raises(Stopped, match=r"'judge-1'.*judge_model.*judge_base_url"):
        ask()


def test_a_used_up_quota_stops(server, ask):
    server.script("judge", refused(429, "You exceeded your current quota", code="insufficient_quota"))
    with pytest.raises(Stopped, match="quota"):
        ask(judge_max_retries=0)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "'max_tokens' or 'max_completion_tokens' is too large: 1024. This model's maximum context length is 4096 "
        "tokens and your request has 4000 input tokens (1024 > 4096 - 4000).",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "the request exceeds the available context size. try increasing the context size",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ],
)
def test_a_context_that_is_too_long_fails_that_question_after_one_call(server, ask, message):
    server.script("judge", refused(400, message))
    with pytest.raises(CallFailed, match="context too long"):
        ask()
    assert server.calls() == 1 and not ask.endpoint.learnt


@pytest.mark.parametrize(
    "answer",
    [
        refused(
            400, "The response was filtered due to Azure OpenAI's content management policy.", code="content_filter"
        ),
        refused(403, "Your chosen model requires moderation and your input was flagged for violence"),
        said(None, finish="content_filter"),
    ],
)
def test_a_content_filter_fails_that_question_after_one_call(server, ask, answer):
    server.script("judge", answer)
    with pytest.raises(CallFailed, match="content filter"):
        ask()
    assert server.calls() == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_another_refusal_fails_that_question_after_one_call(server, ask, status):
    server.script("judge", refused(status, "I don't like it"))
    with pytest.raises(CallFailed, match=f"HTTP {status}"):
        ask()
    assert server.calls() == 1


# Dialects

ROOM = refused(
    400,
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    code="unsupported_parameter",
    param="max_tokens",
)
TEMPERATURE = refused(
    400,
    "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is supported.",
    code="unsupported_value",
    param="temperature",
)
FORMAT = refused(400, "'response_format' of type 'json_schema' is not supported with this model.", param=None)
ROLE = refused(400, "System role not supported")
DIALECTS = {
    "max_completion_tokens": (ROOM, lambda body: "max_tokens" in body),
    "no_temperature": (TEMPERATURE, lambda body: "temperature" in body),
    "no_schema": (FORMAT, lambda body: "response_format" in body),
    "no_system": (ROLE, lambda body: body["messages"][0]["role"] == "system"),
}


def picky(*names):
    """A server that refuses what the named dialects leave out, the first one first."""

    def answer(asked):
        return next((DIALECTS[name][0] for name in names if DIALECTS[name][1](asked.body)), said("8 6"))

    return answer


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_is_learnt_from_the_refusal_once(server, ask, name, caplog):
    server.script("judge", picky(name))
    with caplog.at_level(logging.WARNING, "lm_eval"):
        assert ask(SCHEMA, times=3).text == "8 6"
    assert server.calls() == 4 and ask.endpoint.learnt == {name} and ask.endpoint.calls == 4
    assert len(caplog.records) == 1


def test_all_dialects_are_learnt_one_after_the_other(server, ask):
    server.script("judge", picky(*DIALECTS))
    assert ask(SCHEMA, times=2).text == "8 6"
    assert server.calls() == 4 + 2 and ask.endpoint.learnt == set(DIALECTS)
    body = sent(server)
    assert body == {
        "model": "judge-1",
        "messages": [{"role": "user", "content": "You judge.\n\nWhich is better?"}],
        "max_completion_tokens": 64,
    }


@pytest.mark.parametrize("name", DIALECTS)
def test_calls_in_flight_learn_the_same_dialect_without_failing(server, ask, name, caplog):
    server.script("judge", picky(name))
    with caplog.at_level(logging.WARNING, "lm_eval"):
        assert ask(SCHEMA, together=8, times=2).text == "8 6"
    assert server.calls() == 3 * 8 and len(caplog.records) == 1


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("max_completion_tokens", Answer(422, {"detail": [{"loc": ["body", "max_tokens"], "msg": "Extra inputs"}]})),
        ("no_system", Answer(400, "Only user and assistant roles are supported!", {"Content-Type": "text/plain"})),
        ("no_temperature", Answer(400, {"message": "`temperature` is deprecated for this model"})),
        ("no_schema", refused(400, "Invalid parameter: guided decoding is not available, structured output disabled")),
        ("no_system", refused(400, "Conversation roles must alternate; only user and assistant roles are supported!")),
        ("no_system", refused(422, "messages[0].role: 'system' is not one of user, assistant")),
    ],
)
def test_other_servers_word_the_same_refusal_otherwise(server, ask, name, answer):
    server.script("judge", lambda asked: answer if DIALECTS[name][1](asked.body) else said("8 6"))
    assert ask(SCHEMA).text == "8 6" and ask.endpoint.learnt == {name}


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided 8192.",
        "Invalid 'max_tokens': integer above maximum value, must be at most 4096",
        "temperature: must be at most 1",
        "Blocked: 'the temperature of the room was not given'",
        "Could not process: the system prompt of the caller said something",
    ],
)
def test_a_refusal_that_only_mentions_a_parameter_teaches_nothing(server, ask, message):
    server.script("judge", refused(400, message))
    with pytest.raises(CallFailed):
        ask(SCHEMA)
    assert server.calls() == 1 and not ask.endpoint.learnt


def test_a_server_that_refuses_everything_is_asked_a_bounded_number_of_times(server, ask):
    steps = [step for step, _ in DIALECTS.values()]
    server.script("judge", lambda asked: steps[server.calls() % len(steps)])
    with pytest.raises(CallFailed):
        ask(SCHEMA)
    assert server.calls() <= len(DIALECTS) + 1


# Odd replies


def test_missing_usage_counts_no_tokens(server, ask):
    server.script("judge", said("8 6", usage=False))
    assert (ask().prompt_tokens, ask().completion_tokens) == (0, 0)


@pytest.mark.parametrize(
    "body",
    [
        {"id": "x", "choices": []},
        {"id": "x", "choices": None},
        {"id": "x", "choices": [None]},
        {"id": "x", "choices": [{}]},
        {"id": "x", "choices": [{"message": None}]},
        {"id": "x", "choices": "none"},
        {"id": "x", "choices": [{"message": {"content": ["8 6"]}}]},
        {"id": "x", "choices": [{"message": {"content": 86}}], "usage": {"prompt_tokens": "many"}, "model": 5},
        {},
        [],
        "8 6",
        b"\x00\xff garbage",
        b"{",
        b"",
        b"null",
        "<html><body>8 6</body></html>",
    ],
)
def test_a_reply_that_is_no_chat_completion_holds_no_text(server, ask, body):
    server.script("judge", Answer(body=body))
    reply = ask()
    assert reply.text == "" and (reply.prompt_tokens, reply.completion_tokens) == (0, 0) and reply.model in ("", "5")


def test_html_with_its_own_content_type_holds_no_text(server, ask):
    server.script("judge", Answer(body="<html>8 6</html>", headers={"Content-Type": "text/html"}))
    assert ask().text == "" and ask().finish == "malformed"


def test_a_refusal_and_null_content_are_told_apart(server, ask):
    server.script("judge", said(None, refusal="I can't"), said(None))
    assert ask().refused and not ask().refused


def test_text_that_utf8_cannot_hold_is_sent_and_received(server, ask):
    server.script("judge", Answer(body=said("8 6 \ud83d").body))
    assert ask().text.encode("utf-8")
    settings = JudgeSettings(judge_model="judge-1", judge_base_url=server.url())

    async def half_an_emoji():
        return await Endpoint(settings).ask(({"role": "user", "content": "a\ud83db"},), 8)

    assert asyncio.run(half_an_emoji()).text
    assert sent(server)["messages"][0]["content"] in ("a?b", "a\ufffdb")


# Secrets


@pytest.mark.parametrize("status", [200, 400, 401, 422, 429, 500])
def test_a_key_that_the_server_repeats_is_in_no_log_and_no_error(server, ask, monkeypatch, caplog, status):
    key = "sk-marked-0123456789"
    monkeypatch.setenv("JUDGE_API_KEY", key)
    answer = said(f"8 6 {key}") if status == 200 else refused(status, f"temperature: bad key {key}", code=key)
    server.script("judge", Answer(answer.status, answer.body, {"retry-after-ms": "5"}))
    with caplog.at_level(logging.DEBUG):
        try:
            said_back = repr(ask(judge_max_retries=1))
        except (CallFailed, Stopped, Unreachable) as error:
            said_back = f"{error!r} {getattr(error, 'detail', '')}"
    assert server.asked["judge"][0].headers["Authorization"] == f"Bearer {key}"
    assert key not in said_back
    assert key not in caplog.text


def test_the_placeholder_for_no_key_is_not_taken_for_a_key(server, ask):
    server.script("judge", said("level: none"))
    assert ask().text == "level: none"


def test_a_dead_address_is_told_within_seconds(ask):
    start = time.monotonic()
    with pytest.raises(Unreachable):
        ask(judge_base_url="http://127.0.0.1:9/v1", judge_max_retries=1)
    assert time.monotonic() - start < 3
