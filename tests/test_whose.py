"""Whose an answer is, what is no answer, and what a run must say before it costs anything."""

from __future__ import annotations

import os

import pytest
from airbench_runs import SPEECH_QA, judging, listener, question, run
from servers import Answer, said

from lm_eval_tasks.settings import check_judge, read_settings


def test_one_models_answers_are_never_filed_under_anothers_name(airbench_server, make_data, tmp_path):
    server, root = airbench_server, make_data(speech_QA=3)
    options = {"use_cache": str(tmp_path / "answers")}
    server.script("model", lambda asked: f"{asked.body['model']}: {listener(asked)}")
    for model, calls in (("one", 3), ("two", 3), ("one", 0)):
        server.forget()
        results = run(server, root, SPEECH_QA, options=options, model={"model": model})
        assert server.calls("model") == calls
        answers = [sample["resps"][0][0] for sample in results["samples"][SPEECH_QA]]
        assert all(answer.startswith(f"{model}: ") for answer in answers)


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({"base_url": "?deployment=two&api-version=1"}, False),
        ({"base_url": "?api-version=2&code=a-new-key"}, True),
        ({"seed": 7}, False),
        ({"think_end_token": "</think>"}, False),
    ],
)
def test_what_makes_another_model_of_the_same_name_is_asked_anew(airbench_server, make_data, tmp_path, options, same):
    server, root = airbench_server, make_data(speech_QA=2)
    address = f"{server.url('model')}/chat/completions"
    for given in ({}, options):
        server.forget()
        model = {**given, "base_url": address + given.get("base_url", "")}
        run(
            server,
            root,
            SPEECH_QA,
            options={"use_cache": str(tmp_path / "answers")},
            model=model,
            kind="audio-chat-completions",
        )
    assert server.calls("model") == (0 if same else 2)


@pytest.mark.parametrize("kind", ["audio-chat-completions", "local-chat-completions"])
def test_answers_are_kept_by_the_content_of_their_clips(airbench_server, make_data, tmp_path, kind):
    server, root = airbench_server, make_data(speech_QA=3)
    clip = root / "Chat" / "speech_QA_iemocap" / "clip 1.wav"

    def calls():
        server.forget()
        run(server, root, SPEECH_QA, options={"use_cache": str(tmp_path / "answers")}, kind=kind)
        return server.calls("model"), server.calls("judge")

    assert calls()[0] == 3
    assert calls() == (0, 0)
    before, data = clip.stat(), bytearray(clip.read_bytes())
    data[-1] ^= 1
    clip.write_bytes(data)
    os.utime(clip, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert calls()[0] == 1
    assert calls() == (0, 0)


NOTHING = [said(""), said(" \n"), said(None)]
FAILED = Answer(body={"error": {"message": "overloaded", "code": 500}})


@pytest.mark.parametrize(("setting", "judged"), [({}, 1), ({"empty_answers": "judge"}, 5)])
def test_an_empty_answer_or_a_failure_inside_a_200_of_a_stock_model_is_no_answer(
    airbench_server, make_data, caplog, setting, judged
):
    airbench_server.script(
        "model", lambda asked: [*NOTHING, listener(asked) if setting else FAILED, listener(asked)][question(asked)[1]]
    )
    results = run(airbench_server, make_data(speech_QA=5), SPEECH_QA, **setting)
    summary = judging(results, "speech_QA")
    assert (summary["docs"], summary["judged"]) == (5, judged)
    assert sum(count for reason, count in summary["unjudged"].items() if "silence" in reason) == 5 - judged
    if setting:
        assert summary["flags"] == {"empty_answer": 3} and "3 empty answers" in caplog.text
    assert not any("invalid" in text.lower() or "None" in text for text in airbench_server.texts())


def test_what_is_really_sent_is_in_the_results(airbench_server, make_data):
    results = run(airbench_server, make_data(speech_QA=1), SPEECH_QA, model={"seed": 7})
    sent = judging(results, "speech_QA")["generation_sent"]
    assert (sent["seed"], sent["temperature"], sent["max_tokens"]) == (7, 0.0, 1024) and "messages" not in sent


def test_a_stop_string_that_is_not_sent_is_not_in_the_results_as_sent(airbench_server):
    from lm_eval.api.instance import Instance
    from lm_eval.models.api_models import JsonChatStr

    from lm_eval_tasks.harness.notes import generation_sent
    from lm_eval_tasks.models.api import AudioChatCompletions

    model = AudioChatCompletions(base_url=airbench_server.url("model"), model="m")
    options = {"until": ["<|endoftext|>"], "temperature": 0.0, "max_gen_toks": 9}
    request = Instance("generate_until", {}, (JsonChatStr("[]"), options), 0, ("t", 0, 1))
    sent = generation_sent(model, [request])
    assert "stop" not in sent and sent["max_tokens"] == 9 and options["max_gen_toks"] == 9


def test_a_run_without_a_judge_ends_before_any_data_is_read(server, tmp_path, monkeypatch):
    nowhere = tmp_path / "there is no data here"
    with pytest.raises(ValueError, match=r"gpt-4-0125-preview, was shut down .* 2026-03-26.*judge_model"):
        run(server, nowhere, SPEECH_QA, judge_model=None)
    monkeypatch.setattr("sys.argv", ["lm_eval", "run", "--predict_only"])
    with pytest.raises(ValueError, match="there is no data here"):
        run(server, nowhere, SPEECH_QA, judge_model=None)


def test_a_judge_that_is_named_anywhere_will_do(monkeypatch):
    monkeypatch.setenv("LM_EVAL_TASKS_JUDGE_MODEL", "j")
    check_judge(read_settings("intima", {}))


def test_openai_base_url_is_obeyed_unless_the_judges_key_may_belong_elsewhere(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8001/v1")
    assert read_settings("intima", {}).judge_base_url == "http://127.0.0.1:8001/v1"
    monkeypatch.setenv("JUDGE_API_KEY", "k")
    with pytest.raises(ValueError, match="judge_base_url"):
        read_settings("intima", {})
    assert read_settings("intima", {"judge_base_url": "http://h/v1"}).judge_base_url == "http://h/v1"
