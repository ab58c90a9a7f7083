"""Keys come out of nothing that a run writes, logs or prints."""

from __future__ import annotations

import base64
import html
import json
import logging

import pytest
from airbench_runs import ALL, listener, metadata
from servers import refused
from stored_runs import results, samples_file, scores

from lm_eval_tasks import cli
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.runs.answers import Answer, storable_answer
from lm_eval_tasks.server import keys
from lm_eval_tasks.settings import JudgeSettings

KEYS = {
    "judge": "sk-judge-0123456789",
    "openai": 'sk-proj-"quoted\\0123',
    "hub": "hf_abcdefghijklmnop",
    "query": "url/query+key=88",
    "header": "x-header-key-99",
    "option": "option-key-11aa",
}


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """The keys of this test alone."""
    monkeypatch.setattr(keys, "_known", set())


def everything(folder, told):
    """All that was written and shown."""
    files = [file.read_bytes().decode("utf-8", "replace") for file in folder.rglob("*") if file.is_file()]
    return "\n".join([told.out, told.err, *files])


def test_no_key_is_written_or_shown(runs, monkeypatch, capsys, caplog):
    caplog.set_level(logging.DEBUG)
    for name, key in {"JUDGE_API_KEY": "judge", "OPENAI_API_KEY": "openai", "HF_TOKEN": "hub"}.items():
        monkeypatch.setenv(name, KEYS[key])
    runs.server.script("model", lambda asked: f"{listener(asked)}. My keys: {' '.join(KEYS.values())}")
    runs.server.script("judge", scores, scores, scores, lambda asked: refused(400, f"not with {KEYS['judge']}"))
    port = runs.server.port
    url = f"http://127.0.0.1:{port}/model/v1/chat/completions?code={keys.quote(KEYS['query'], safe='')}"
    header = {"Authorization": f"Bearer {KEYS['openai']}", "X-Gateway": KEYS["header"]}
    arguments = {"model": "listener", "base_url": url, "header": header, "api_key": KEYS["option"], "max_retries": 1}
    command = ["run", "--model", "audio-chat-completions", "--apply_chat_template", "--tasks", f"{ALL}_speech_QA"]
    command += ["--model_args", json.dumps(arguments), "--use_cache", str(runs.folder / "answers")]
    command += ["--metadata", json.dumps(metadata(runs.server, runs.root, judge_max_retries=0, judge_concurrency=1))]
    status = cli.main([*command, "--output_path", str(runs.folder / "out"), "--log_samples"])
    assert status == 3 and runs.server.calls("model") == 3
    assert runs.server.asked["judge"][0].headers["Authorization"] == f"Bearer {KEYS['judge']}"
    found = everything(runs.folder, capsys.readouterr()) + "\n".join(record.getMessage() for record in caplog.records)
    for key in KEYS.values():
        for form in (key, json.dumps(key)[1:-1], keys.quote(key, safe="")):
            assert form not in found
    assert not any(key in asked.text for asked in runs.server.asked["judge"] for key in KEYS.values())
    assert "My keys: [key] [key]" in samples_file(runs.folder / "out", "speech_QA").read_text(encoding="utf-8")
    assert "?code=[key]" in json.dumps(results(runs.folder / "out")["config"])


@pytest.mark.parametrize("key", ['sk-<a/b+c>&"d"-0123', "pass/w\u00f6rd-0123"])
def test_a_key_is_found_in_every_form_in_which_a_server_may_give_it_back(key):
    keys.know(key)
    raw = key.encode()
    forms = [key, json.dumps(key), keys.quote(key), keys.quote(key, safe=""), html.escape(key)]
    forms += [base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()]
    shown = keys.without_keys(" ".join(forms))
    assert shown.count("[key]") == len(forms) and "0123" not in shown


def test_what_a_header_makes_of_a_user_and_a_password_is_a_key():
    keys.know_options({"base_url": "http://me:secret%2Fword@host/v1"})
    assert "bWU6" not in keys.without_keys(base64.b64encode(b"me:secret/word").decode())


@pytest.mark.parametrize("value", ["gsk_abcdefghijkl", "AKIAIOSFODNN7EXAMPLE", "hf_ABCDEFGHIJKLMNOP"])
def test_a_key_in_the_place_of_its_variable_is_not_shown(runs, capsys, value):
    assert runs._start(runs.command("out", judge_api_key_env=value)) == 2
    error = capsys.readouterr().err
    assert value not in error and "judge_api_key_env names no variable that is set" in error


def test_a_variable_that_is_not_set_is_named():
    assert keys.is_name_of_variable("MY_JUDGE_KEY_2") and keys.is_name_of_variable("GROQ_API_KEY")
    with pytest.raises(ValueError, match="MY_JUDGE_KEY"):
        Judge(JudgeSettings(judge_api_key_env="MY_JUDGE_KEY"))


def test_each_server_gets_its_own_key(runs, monkeypatch):
    monkeypatch.setenv("JUDGE_API_KEY", "sk-judge")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-model")
    runs.run("out")
    for role, key in (("model", "sk-model"), ("judge", "sk-judge")):
        assert {asked.headers["Authorization"] for asked in runs.server.asked[role]} == {f"Bearer {key}"}


@pytest.mark.parametrize(
    ("options", "secret"),
    [
        ({"header": {"X-Custom": "Basic dXNlcjpwYXNz"}}, "dXNlcjpwYXNz"),
        ({"base_url": "https://url-user-key-77@h/v1"}, "url-user-key-77"),
        ({"base_url": "https://user:p%40ssw0rd1@h/v1"}, "p@ssw0rd1"),
        ({"base_url": "https://h/v1?subscription-key=abc123456"}, "abc123456"),
        ({"auth_token": "abc123456"}, "abc123456"),
        ({"client": {"api_key": "abc123456"}}, "abc123456"),
        ({"aws_secret_access_key": "abc123456"}, "abc123456"),
        ({"client": [{"openai-api-key": "abc123456"}]}, "abc123456"),
    ],
)
def test_keys_among_options_are_found(options, secret):
    keys.know_options(options)
    assert keys.without_keys(f"it is {secret}.") == "it is [key]."


@pytest.mark.parametrize(
    "options",
    [
        {"think_end_token": "</think>", "max_gen_toks": 12345678, "tokenizer": "some/tokenizer"},
        {"header": {"Content-Type": "application/json"}, "base_url": "https://h/v1?api-version=2024-10-21"},
        {"base_url": "http://[", "api_key": "short", "header": None},
    ],
)
def test_what_is_no_key_is_left_alone(options):
    keys.know_options(options)
    text = json.dumps(options)
    assert keys.without_keys(text) == text


@pytest.mark.parametrize("key", ["Sk-Judge_0123/aB+c", "5f0c-ABCD-ef01-2345", "p\u00e4sswort-1"])
@pytest.mark.parametrize("change", [str.upper, str.lower, str.swapcase, str.title])
def test_a_key_in_another_case_is_one(key, change):
    keys.know(key)
    text = f"It is {change(key)}, {json.dumps(change(key))}"
    assert "[key]" in keys.without_keys(text) and change(key) not in keys.without_keys(text)
    assert storable_answer(Answer(text, "stop")) == keys.without_keys(text)


def test_an_answer_keeps_a_key_that_is_an_ordinary_word():
    keys.know("placeholder", "sk-abcdefgh")
    answer = storable_answer(Answer("a placeholder and sk-abcdefgh", "stop"))
    assert answer == "a placeholder and [key]" and answer.finish == "stop"


def test_a_fault_of_lm_eval_is_one_line_without_keys_and_without_a_traceback(runs, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEYS["judge"])

    def fail(*_, **__):
        raise TypeError(f"no such option: {KEYS['judge']}")

    monkeypatch.setattr("lm_eval.simple_evaluate", fail)
    assert runs._start(runs.command("out")) == 1
    error = capsys.readouterr().err
    assert "TypeError: no such option: [key]" in error and "Traceback" not in error


def test_a_traceback_in_a_log_holds_no_key():
    keys.know(KEYS["judge"])
    error = RuntimeError(KEYS["judge"])
    record = logging.LogRecord("lm_eval", 40, "", 0, "failed: %s", (KEYS["judge"],), (RuntimeError, error, None))
    keys._Filter().filter(record)
    assert KEYS["judge"] not in logging.Formatter().format(record)
