"""What is shared by all questions to the judge: their key, tokens, reasoning, and outcomes as data."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from conftest import QUESTION
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_tasks.judge import marks
from lm_eval_tasks.judge.cache import cache_folder
from lm_eval_tasks.judge.marks import word_for
from lm_eval_tasks.judge.question import (
    NoVerdict,
    Unjudged,
    Verdict,
    as_data,
    without_reasoning,
    without_template_tokens,
)

# Imports


@pytest.mark.parametrize("module", ["airbench_chat.scoring", "intima.scoring"])
def test_arithmetic_imports_no_client_no_database_and_no_harness(module):
    heavy = "openai", "sqlite3", "lm_eval", "aiohttp", "httpx", "pydantic", "numpy", "asyncio"
    code = f"import sys, lm_eval_tasks.{module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# The word in section marks


def test_the_word_is_no_part_of_the_key_and_everything_else_in_the_messages_is():
    def marked(word, text="text"):
        message = {"role": "user", "content": f"[Start {word}]\n{text}\n[End {word}]"}
        return replace(QUESTION, messages=(message,), word=word).key(model="judge-1")

    assert marked("0123456789abcdef") == marked("fedcba9876543210") != marked("0123456789abcdef", "other")


def test_a_word_belongs_to_its_texts_and_to_the_key_of_this_user(monkeypatch, tmp_path):
    word = word_for(["a", "b"])
    assert word == word_for(["b", "a"]) and word not in (word_for(["ab", ""]), word_for(["a"]), word_for(["a", "c"]))
    marks._key.cache_clear()  # as in another process
    assert word == word_for(["a", "b"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another user's"))
    marks._key.cache_clear()
    assert word != word_for(["a", "b"])


def test_many_who_make_the_key_at_once_read_the_same():
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: marks._key.__wrapped__(), range(64)))
    assert len(keys) == 1


@pytest.mark.parametrize("content", [None, ..., b"", b"short", b"x" * 100])
def test_the_key_is_the_owners_alone_nothing_is_left_beside_it_and_a_damaged_one_is_made_anew(content):
    cache_folder().mkdir(parents=True)
    if content is ...:
        os.mkfifo(cache_folder() / "marks.key")
    elif content is not None:
        (cache_folder() / "marks.key").write_bytes(content)
        (cache_folder() / "marks.key").chmod(0o600)
    word = word_for(["a"])
    marks._key.cache_clear()
    assert word == word_for(["a"])
    [kept] = cache_folder().iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and kept.stat().st_size == 32


def test_without_a_folder_to_write_to_the_key_is_that_of_this_process():
    cache_folder().parent.mkdir(parents=True)
    cache_folder().write_text("a file where the folder should be")
    word = word_for(["a"])
    assert word == word_for(["a"])
    marks._key.cache_clear()
    assert word != word_for(["a"])


# Tokens


TOKENS = (
    "<|im_start|> <|eot_id|> <\uff5cUser\uff5c> <|channel> <channel|> [INST] [/INST] [TOOL_CALLS] <<SYS>> <</SYS>> <s>"
)
TOKENS += (
    " </s> <bos> <start_of_turn> <unused94> <tool_call> <think> </think> </seed:think> [/THINK] <think\u00a0a='2'>"
)
TOKENS += " [|assistant|] [|endofturn|] [e~[ ]~b] ]~!b[ <seed:bos> <EOS_TOKEN> <PAD> <SPECIAL_12>"


@pytest.mark.parametrize("token", TOKENS.split(" "))
def test_a_token_loses_its_outer_brackets(token):
    assert without_template_tokens(f"before {token} after") == (f"before ({token[1:-1]}) after", True)


@pytest.mark.parametrize(
    "text",
    [
        "[Question]",
        "[The End of Assistant 1's Answer]",
        "[System of a Down] by List[s] of x_{s}",
        "x < y and y > z, a | b | c",
        "{'caption': 'a dog'}",
        "[laughter] well [pause] [MUSIC] [Applause]",
        "a <small> cat | a <big> dog",
    ],
)
def test_other_text_is_left_alone(text):
    assert without_template_tokens(text) == (text, False)


@given(st.text(alphabet="<>[]|/ \uff5cthinkINST_s", max_size=40) | st.text())
def test_any_text_is_taken_and_a_second_pass_changes_nothing(text):
    calm, found = without_template_tokens(text)
    assert found == (calm != text)
    assert without_template_tokens(calm) == (calm, False)


def test_a_long_run_of_brackets_is_done_in_no_time():
    start = time.monotonic()
    for text in ("[", "[ ", "<", "<|", "< |", "</", "<a_", "<think ", "[/", "<think\n\n\n", "\u25c1/"):
        without_template_tokens(text * 60_000)
    calm, _ = without_template_tokens("</think " * 5_000 + ">" * 5_000)  # a token that stands in another
    assert without_template_tokens(calm) == (calm, False) and time.monotonic() - start < 6


# Reasoning


@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        ("<think>9 9</think>\n\n8 6\n", "8 6"),
        ("9 9</think>8 6", "8 6"),
        ("<think>a</think>1 1<think>b</think>8 6", "1 1\n8 6"),
        ("8 6", "8 6"),
        ("<think>9 9</think>", ""),
        ("\ufeff8\u200b 6<|im_end|>", "8 6"),
        ("1 1</th\u200bink>8 6", "1 1</think>8 6"),
        *((reply, None) for reply in ("<think>8 6", "8 6<think>", "[THINK] 8 6", "a</think>b<think>8 6")),
    ],
)
def test_what_is_left_of_a_reply_when_its_thoughts_are_over_and_none_without_an_end(reply, rest):
    if rest is not None:
        assert without_reasoning(reply) == rest
        return
    with pytest.raises(NoVerdict, match="reasoning without an end"):
        without_reasoning(reply)


def test_outcomes_as_data_are_json_with_a_reason_only_where_there_is_no_verdict():
    verdict = as_data(Verdict((8.0, 6.0), "8 6", "j", 3, 4, 1, True, ("response_format",)))
    unjudged = as_data(Unjudged("cut short", "8", "j", 3, 4, 2))
    assert json.loads(json.dumps(verdict)) == {
        "reply": "8 6",
        "judge": "j",
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "attempts": 1,
        "dialect": ["response_format"],
        "cached": True,
        "reason": None,
        "why": "",
    }
    assert (unjudged["reason"], unjudged["cached"], unjudged["reply"]) == ("cut short", False, "8")
    assert unjudged["dialect"] == []
