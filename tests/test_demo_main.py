"""The demo's command line: the stock command, without the caller's keys."""

from __future__ import annotations

import json
from pathlib import Path

from lm_eval_tasks import INCLUDE_PATH
from lm_eval_tasks.demo import __main__ as demo


def test_the_command_is_the_stock_one():
    arguments = demo.command("http://127.0.0.1:9/v1", "intima", Path("out"))
    assert arguments[:3] == ["run", "--model", "local-chat-completions"] and "--apply_chat_template" in arguments
    assert arguments[arguments.index("--include_path") + 1] == str(INCLUDE_PATH)
    judge = {"judge_model": "demo-judge", "judge_base_url": "http://127.0.0.1:9/v1", "judge_cache": False}
    assert json.loads(arguments[arguments.index("--metadata") + 1]) == {"local_path": "sample", **judge}


def test_keys_and_settings_of_real_runs_stay_out(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("JUDGE_API_KEY", "secret")
    monkeypatch.setenv("LM_EVAL_TASKS_DO_SWAP", "false")
    monkeypatch.setenv("NO_PROXY", "example.org")
    inside = demo.environment()
    assert "secret" not in inside.values() and "LM_EVAL_TASKS_DO_SWAP" not in inside
    assert inside["NO_PROXY"] == "example.org,127.0.0.1" and inside["HF_HUB_OFFLINE"] == "1"
