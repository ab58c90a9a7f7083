"""What a server is asked without: fields and limits that it refuses, tried on the model and on the judge."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import QUESTION
from server_roles import both
from servers import refused

from lm_eval_tasks.server import failures
from lm_eval_tasks.server.dialect import named_limit


@both
@pytest.mark.parametrize("status", [500, 200])
@pytest.mark.parametrize("before", [[], ["8 6"]], ids=["at first", "later"])
def test_a_fault_of_the_server_that_names_a_field_and_passes_teaches_nothing(server, ask, role, before, status):
    server.script(role, *before, refused(status, "worker lost (temperature sensor)"), then="8 6")
    assert ask(role, 3, **({"judge_concurrency": 1} if role == "judge" else {"num_concurrent": 1})) == ["8 6"] * 3
    assert "temperature" in server.asked[role][-1].body
    assert not before or server.calls(role) == 3 + 1  # once more, as after any fault


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
        ("temperature", 200, "'{}' is not supported"),
        ("seed", 404, "No endpoint supports {}"),
        ("max_tokens", 400, "Unsupported parameter: '{}'. Use 'max_completion_tokens' instead."),
        ("max_tokens", 422, "Extra inputs are not permitted: {}. Read more of this in the manual."),
    ],
)
def test_a_field_that_is_refused_is_left_out_from_then_on(server, ask, role, field, status, words):
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


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("max_tokens must be at most 1,024", 1024),
        ("Range of max_tokens should be [1,512]", 512),
        ("max_tokens: 4096 > 1,000, which is the maximum for m-3-20240307", 1000),
        ("max_new_tokens must be <= 512. Given: 4096", 512),
        ("Expected max_completion_tokens <= 512 (request 7f3-81)", 512),
    ],
)
def test_a_limit_is_read_as_a_server_writes_it(words, limit):
    assert named_limit(failures.failure(400, {"message": words}, {}), 4096) == limit


def test_a_number_beside_a_refused_field_is_no_limit(server, ask):
    """A date or a status in the server's words would cut every answer."""
    words = "Unsupported parameter: 'max_tokens' in api 2024-12-01 (see 37). Use 'max_completion_tokens' instead."
    server.script("model", refusing("max_tokens", 400, words))
    assert ask("model", 3) == ["8 6"] * 3
    assert {a.body.get("max_completion_tokens") for a in server.asked["model"]} == {None, 256}


@both
def test_a_fault_that_passes_by_itself_teaches_nothing(server, ask, role):
    server.script(role, *[refused(500, "starting")] * 4, then="8 6")
    options = {"judge_concurrency": 1, "judge_max_retries": 6} if role == "judge" else {"num_concurrent": 1}
    assert ask(role, 3, **options) == ["8 6"] * 3
    assert "temperature" in server.asked[role][-1].body
    assert (ask.outcomes[-1].dialect if role == "judge" else ask.outcomes[-1].without) in ([], ())


@pytest.mark.parametrize(
    "refusal", [refused(400, "grammar is not allowed"), refused(400, "response_schema: no"), refused(500, "oops")]
)
def test_a_judge_that_refuses_a_schema_in_any_words_is_asked_without(server, make_judge, refusal):
    server.script("judge", lambda asked: refusal if "response_format" in asked.body else "8 6")
    (verdict,) = make_judge().ask([replace(QUESTION, schema={"type": "object"})], "Judging")
    assert verdict.value == (8, 6) and verdict.dialect == ["response_format"]
