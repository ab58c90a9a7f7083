"""AIR-Bench-Chat from end to end: its requests, its options, and what lm-eval's own options do to it."""

from __future__ import annotations

import base64
import json
import os

import pytest
import servers
from airbench_runs import ALL, SPEECH_QA, answers, judging, listener, question, run, scores
from conftest import FOLDERS, write_tone
from servers import said

from lm_eval_tasks import INCLUDE_PATH

pytestmark = pytest.mark.usefixtures("airbench_server")


# The model's requests


def test_the_model_gets_the_bare_question_and_the_files_own_bytes(server, make_data):
    root = make_data(speech_QA=1)
    run(server, root, SPEECH_QA)
    (asked,) = server.asked["model"]
    (message,) = asked.body["messages"]
    audio, text = message["content"]
    assert text == {"type": "text", "text": "speech_QA question 0?"}
    clip = root / "Chat" / "speech_QA_iemocap" / "clip 0.wav"
    assert (
        base64.b64decode(audio["input_audio"]["data"]) == clip.read_bytes() and audio["input_audio"]["format"] == "wav"
    )
    assert (asked.body["temperature"], asked.body["max_tokens"], asked.body["stop"]) == (0, 1024, ["<|endoftext|>"])


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        ("input_audio_data_uri", '"data": "data:audio/wav;base64,'),
        ("audio_url", '"url": "data:audio/wav;base64,'),
        ("file_url", '"url": "file:///'),
    ],
)
def test_audio_can_be_sent_in_other_ways_and_a_system_instruction_to_the_model_alone(server, make_data, part, sent):
    run(server, make_data(speech_QA=1), SPEECH_QA, audio_part=part, options={"system_instruction": "Be brief."})
    assert sent in json.dumps(server.asked["model"][0].body)
    assert server.asked["model"][0].body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert not any("Be brief." in text for text in server.texts())


def test_without_the_chat_template_one_clear_error_says_what_to_add(server, make_data):
    with pytest.raises(ValueError, match="add --apply_chat_template"):
        run(server, make_data(), SPEECH_QA, options={"apply_chat_template": False})
    assert server.calls() == server.calls("model") == 0


# lm-eval's options


def test_predict_only_needs_no_judge_and_speaks_of_no_missing_score(server, make_data, caplog):
    results = run(server, make_data(), options={"predict_only": True}, judge_base_url="http://127.0.0.1:9/v1")
    assert server.calls() == 0 and server.calls("model") == 16 and "has no score" not in caplog.text
    assert [s["resps"] for s in results["samples"][SPEECH_QA]] == [[[f"answer to speech_QA {n}"]] for n in (0, 1)]


def test_limit_and_samples_choose_docs(server, make_data):
    root = make_data(speech_QA=5)
    results = run(server, root, SPEECH_QA, options={"limit": 2})
    assert [s["doc"]["uniq_id"] for s in results["samples"][SPEECH_QA]] == ["0", "1"]
    results = run(server, root, SPEECH_QA, options={"samples": {SPEECH_QA: [1, 4]}})
    assert [s["doc"]["uniq_id"] for s in results["samples"][SPEECH_QA]] == ["1", "4"]
    assert scores(results, "speech_QA") == (7, 7, 0, 2)


def test_requests_that_lm_eval_keeps_by_the_tasks_name_are_never_those_of_another_data_set(
    server, make_data, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("lm_eval.caching.cache.PATH", str(tmp_path / "requests"))
    server.script("model", listener)
    for name, counts in (("one", {"speech_QA": 2}), ("other", {"speech_QA": 3})):
        results = run(server, make_data(name, **counts), SPEECH_QA, options={"cache_requests": True})
        sent = [sample["arguments"][0][0][0] for sample in results["samples"][SPEECH_QA]]
        assert len(sent) == counts["speech_QA"] and all(f"/{name}/Chat/" in chat for chat in sent)
    assert "cache_requests is ignored" in caplog.text


def test_a_second_run_asks_neither_the_model_nor_the_judge(server, make_data, tmp_path):
    root, options = make_data(), {"use_cache": str(tmp_path / "answers")}
    first = run(server, root, options=options)
    server.forget()
    second = run(server, root, options=options)
    assert (server.calls("model"), server.calls()) == (0, 0)
    assert all(scores(first, name) == scores(second, name) for name in ["", "speech", *FOLDERS])
    assert judging(second, "speech_QA")["calls"] == 0 and judging(second, "speech_QA")["from_cache"] == 4


def test_a_file_replaced_in_place_is_asked_again_and_no_other(server, make_data, tmp_path):
    root, options = make_data(speech_QA=4), {"use_cache": str(tmp_path / "answers")}
    run(server, root, SPEECH_QA, options=options)
    server.forget()
    clip = write_tone(root / "Chat" / "speech_QA_iemocap" / "clip 2.wav", 999)
    os.utime(clip, (1_000_000, 1_000_000))
    server.script("model", "something else")
    results = run(server, root, SPEECH_QA, options=options)
    assert server.calls("model") == 1 and question(server.asked["model"][0]) == ("speech_QA", 2)
    assert server.calls() == 1 + 2 and judging(results, "speech_QA")["judged"] == 4


def test_what_is_logged_and_cached_holds_no_audio(server, make_data, tmp_path):
    root = make_data(speech_QA=2)
    results = run(server, root, SPEECH_QA, options={"use_cache": str(tmp_path / "answers")})
    audio = base64.b64encode((root / "Chat" / "speech_QA_iemocap" / "clip 0.wav").read_bytes()).decode()[80:140]
    assert audio in json.dumps(server.asked["model"][0].body) + json.dumps(server.asked["model"][1].body)
    assert audio not in json.dumps(results, default=str)
    assert not any(audio.encode() in path.read_bytes() for path in tmp_path.glob("answers*"))


# Options


def test_tasks_builds_and_reports_only_these_and_says_once_why_there_is_no_average(server, make_data, caplog):
    results = run(server, make_data(), tasks="speech_QA,music_QA")
    assert {name for name in results["results"] if name.endswith("_QA")} == {SPEECH_QA, f"{ALL}_music_QA"}
    assert scores(results)[0] is None and scores(results, "speech") == (7, 7, 0, 2)
    assert caplog.text.count("air_bench_chat has no score") == 1 and "not in tasks" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    with pytest.raises(ValueError, match=r"'speech_qa'.*speech_QA.*music_QA"):
        run(server, make_data(), tasks="speech_qa")


def test_without_swap_each_answer_is_judged_once_with_the_reference_first(server, make_data):
    results = run(server, make_data(), do_swap=False)
    assert scores(results)[:3] == (6, 8, 0) and scores(results)[3] is None
    assert server.calls() == 1 + 16
    assert all(answers(asked)[1].startswith("answer to") for asked in server.asked["judge"][1:])
    assert judging(results, "speech_QA")["settings"]["do_swap"] is False


def test_the_results_hold_the_settings_that_shape_the_number_and_who_answered(server, make_data, caplog):
    server.script("judge", said("8 6", model="judge-1-snapshot"))
    found = judging(run(server, make_data(speech_QA=1), SPEECH_QA, judge_model="another-judge"), "speech_QA")
    assert found["settings"]["judge_model"] == "another-judge" and found["judge_answered"] == {"judge-1-snapshot": 2}
    assert found["settings"]["prompt_version"].startswith("pack-") and found["settings"]["judge_temperature"] == 0
    assert (found["prompt_tokens"], found["completion_tokens"], found["calls"]) == (200, 8, 2)
    assert "another-judge" in caplog.text and "gpt-4-0125-preview" in caplog.text  # not the official judge


@pytest.mark.parametrize("status", [401, 404])
def test_a_judge_that_cannot_be_used_ends_the_run_before_anything_is_generated(server, make_data, status):
    server.script("judge", servers.refused(status, "no"))
    with pytest.raises(ValueError, match="Nothing has been generated yet"):
        run(server, make_data())
    assert (server.calls(), server.calls("model")) == (1, 0)


def test_the_users_own_wording_is_asked_and_named_in_the_results(server, make_data, tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("D XAudioX Q XQuestionX A XAssistant1X B XAssistant2X", encoding="utf-8")
    results = run(server, make_data(speech_QA=1), SPEECH_QA, judge_prompt=str(prompt))
    assert (
        "D {'caption': 'speech_QA description 0'} Q speech_QA question 0? "
        "A speech_QA reference 0 B answer to speech_QA 0"
    ) in server.texts()
    assert judging(results, "speech_QA")["settings"]["prompt_version"].startswith("file-")


def test_a_dialect_is_learnt_once_a_run_and_told_of_verdicts_from_the_cache_as_well(server, make_data):
    def answer(asked):
        if "max_tokens" in asked.body:
            return servers.refused(400, "Unsupported parameter: 'max_tokens'", param="max_tokens")
        return servers.refused(400, "temperature is not supported") if "temperature" in asked.body else "8 6"

    server.script("judge", answer)
    root = make_data()
    first, again = (run(server, root) for _ in range(2))
    assert judging(first, "speech_QA")["calls"] == 4 and judging(again, "speech_QA")["calls"] == 0
    assert 35 <= server.calls() <= 2 * 3 + 32
    for results in (first, again):
        assert judging(results, "speech_QA")["settings"]["dialect"] == ["max_completion_tokens", "temperature"]


# Users' own YAML files


def test_users_files_may_group_our_tasks_or_include_one_and_change_its_prompt(server, make_data, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "group.yaml").write_text(f"group: mine\ntask: [{ALL}_sound, my_speech_QA]\n", encoding="utf-8")
    (tmp_path / "mine" / "task.yaml").write_text(
        f"include: {INCLUDE_PATH}/airbench_chat/speech_QA.yaml\ntask: my_speech_QA\n"
        'doc_to_text: "Listen, then answer: {{question}}"\n',
        encoding="utf-8",
    )
    results = run(server, make_data(), "mine", include=[tmp_path / "mine"])
    assert scores(results, "sound") == (7, 7, 0, 2) and results["results"]["my_speech_QA"]["gpt_score,judge"] == 7
    assert sum("Listen, then answer: speech_QA question" in text for text in server.texts("model")) == 2
    assert not any("Listen, then" in text for text in server.texts())
