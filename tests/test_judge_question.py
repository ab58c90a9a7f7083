"""What is shared by all questions to the judge: taking the force out of marks, reasoning, and outcomes as data."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_tasks.judge.question import Unjudged, Verdict, as_data, neutraliser, without_reasoning

neutralise = neutraliser(["the end of", "question", "system", "think"])


@pytest.mark.parametrize(
    "mark",
    [
        "[Question]",
        "[ question ]",
        "[QUESTION]",
        "[The End of Assistant 1s Answer]",
        "[the  end\tof x]",
        "[the\nend of x]",
        "[The\u00a0End of x]",
        "[Ques\u200btion]",
        "[\u202equestion]",
        "[T\u00adhe E\u200dnd of x]",
        "[[Question]]",
        "{question}",
        "{{ question }}",
        "<system>",
        "</think>",
        "< /think >",
        "[/Question]",
        "\uff3bQuestion\uff3d",
        "\u3010Question\u3011",
        "[\uff31uestion]",
        "[**Question**]",
        "[\x00Question]",
        "[Q\ufe0fuestion]",
        "[INST]",
        "[/INST]",
        "</s>",
        "<|im_start|>",
        "<|eot_id|>",
        "<\uff5cUser\uff5c>",
        "<end_of_turn>",
    ],
)
def test_what_looks_like_a_mark_loses_its_brackets(mark):
    calm, found = neutralise(f"before {mark} after")
    assert found and not set(calm) & set("[]{}<>\uff3b\uff3d\u3010\u3011")
    assert calm.startswith("before (") and calm.endswith(") after")


@pytest.mark.parametrize(
    "text",
    [
        "a question",
        "[1] a list",
        "the end of it",
        "x < y and y > z",
        "{'caption': 'a dog'}",
        "[laughter] well [pause]",
        "what is f(question)?",
        "[Instrumental] then [singing]",
        "a <small> cat | a <big> dog",
    ],
)
def test_other_text_is_left_alone(text):
    assert neutralise(text) == (text, False)


@pytest.mark.parametrize("text", ["[The End of Assistant 2s Answer", "<system", "[question " + "x" * 90 + "]"])
def test_a_mark_that_is_not_closed_loses_its_bracket_too(text):
    assert neutralise(text) == ("(" + text[1:], True)


@given(st.text())
def test_any_text_is_taken_and_a_second_pass_changes_nothing(text):
    calm, _ = neutralise(text)
    assert neutralise(calm) == (calm, False)


@given(st.text(alphabet="[]{}<> /questionQUESTION\u200b\u00ad", max_size=40))
def test_no_mark_survives_among_brackets(text):
    calm, _ = neutralise(text)
    assert "[question]" not in calm.lower() and "{question}" not in calm.lower()


def test_a_long_run_of_brackets_is_done_in_no_time():
    start = time.monotonic()
    for text in ("[", "[ ", "[\u200b", "<|", "[the ", "</", "[question", "q\u200b"):
        neutralise(text * 60_000)
    neutralise("[" * 60_000 + "question" + " " * 60_000 + "<" * 60_000)
    neutralise("[the" + " " * 60_000 + "[q" + "\u200b" * 60_000)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        ("<think>9 9</think>8 6", "8 6"),
        ("<think>9 9</think>\n\n8 6\n", "8 6"),
        ("9 9</think>8 6", "8 6"),
        ("<think>a</think>1 1<think>b</think>8 6", "8 6"),
        ("8 6", "8 6"),
        ("<think>9 9</think>", ""),
    ],
)
def test_reasoning_ends_at_the_last_closing_tag(reply, rest):
    assert without_reasoning(reply) == rest


def test_outcomes_as_data_are_json_with_a_reason_only_where_there_is_no_verdict():
    verdict = as_data(Verdict((8.0, 6.0), "8 6", "j", 3, 4, 1, True, ("no_schema",)))
    unjudged = as_data(Unjudged("cut short", "8", "j", 3, 4, 2))
    assert json.loads(json.dumps(verdict)) == {
        "reply": "8 6",
        "judge": "j",
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "attempts": 1,
        "dialect": ["no_schema"],
        "cached": True,
        "reason": None,
    }
    assert (unjudged["reason"], unjudged["cached"], unjudged["reply"]) == ("cut short", False, "8")
    assert unjudged["dialect"] == []
