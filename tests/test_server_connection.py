"""How a server is reached and how much of it is read, tried on the model and on the judge."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from dataclasses import replace

import pytest
from conftest import QUESTION
from server_roles import both, requests
from servers import Answer, refused, said

from lm_eval_tasks.errors import ModelUnavailable
from lm_eval_tasks.judge.question import Verdict
from lm_eval_tasks.models.api import AudioChatCompletions


def test_a_user_and_password_in_an_address_are_sent_and_not_shown(server, ask, caplog):
    server.script("model", refused(401, "no"))
    address = f"{server.url('model')}/chat/completions".replace("//", "//me:secret-word@")
    with pytest.raises(ModelUnavailable) as raised:
        AudioChatCompletions(base_url=address, model="m").generate_until(requests(1))
    assert server.asked["model"][0].headers["Authorization"] == "Basic bWU6c2VjcmV0LXdvcmQ="
    assert "HTTP 401" in str(raised.value) and "secret-word" not in str(raised.value) + caplog.text


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


# Bodies without an end, and what headers say beside an error in a 200


@both
@pytest.mark.parametrize("status", [200, 500])
def test_a_body_of_any_size_fills_no_memory(server, ask, role, status):
    packed = gzip.compress(b" " * (200 << 20))
    floods = [replace(said("8 6"), status=status, flood=1 << 30), Answer(status, packed, {"Content-Encoding": "gzip"})]
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
