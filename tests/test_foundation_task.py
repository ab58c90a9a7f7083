"""AIR-Bench Foundation from end to end: what the model is asked, and what becomes of its answers."""

from __future__ import annotations

import base64
import io
import json
import re

import pytest
import soundfile
from foundation_runs import ALL, CHOICES, ONE_A_CATEGORY, command_line, make, record, row, run, scoring
from servers import refused, said

from lm_eval_tasks.air_bench_foundation.scoring import TASKS
from lm_eval_tasks.runs import reader
from lm_eval_tasks.runs.answers import EMPTY_ANSWER
from lm_eval_tasks.runs.stored import load_run

TASK = "Sound_AQA"
OFFICIAL = """\
Choose the most suitable answer from options A, B, C, and D to respond the question in next line, you may only choose \
A or B or C or D.
Sound_AQA question 0?
A. rain
B. a bell
C. wind
D. a dog"""


def number(asked) -> int:
    return int(re.search(r"question (\d+)", asked.text)[1])


def by_number(*answers):
    """A model that gives the n-th answer to question n."""
    return lambda asked: answers[number(asked)]


def asked_text(server) -> str:
    (asked,) = server.asked["model"]
    return asked.body["messages"][-1]["content"][-1]["text"]


# The model's requests


def test_the_model_gets_the_official_form_the_clip_and_no_system_message(server, tmp_path):
    server.script("model", "B")
    root = make(tmp_path, record(TASK, 0))
    run(server, root, TASK)
    (asked,) = server.asked["model"]
    (message,) = asked.body["messages"]
    assert asked_text(server) == OFFICIAL
    clip = root / "Foundation" / f"{TASK}_source" / "clip 0.wav"
    assert base64.b64decode(message["content"][0]["input_audio"]["data"]) == clip.read_bytes()
    assert (asked.body["temperature"], asked.body["max_tokens"]) == (0, 128)


@pytest.mark.parametrize("absent", [{"choice_c": None, "choice_d": None}, {"choice_c": "", "choice_d": " "}])
@pytest.mark.parametrize(
    ("form", "first", "last"),
    [
        ("official", "options A, B, C, and D to respond", ["A. rain", "B. a bell", "C. None", "D. None"]),
        ("own", "options A and B to respond", ["A. rain", "B. a bell"]),
    ],
)
def test_of_two_choices_the_official_form_prints_four(server, tmp_path, absent, form, first, last):
    server.script("model", "B")
    results = run(server, make(tmp_path, record(TASK, 0, **absent)), TASK, prompt_form=form)
    lines = asked_text(server).splitlines()
    assert first in lines[0] and lines[2:] == last
    assert lines[0].endswith("you may only choose " + ("A or B." if form == "own" else "A or B or C or D."))
    settings = scoring(results, TASK)["settings"]
    assert settings["prompt_form"] == form and settings["prompt_version"].startswith(f"{form}-")


def test_both_forms_are_the_same_for_four_choices(server, tmp_path):
    server.script("model", "B")
    run(server, make(tmp_path, record(TASK, 0)), TASK, prompt_form="own")
    assert asked_text(server) == OFFICIAL


def test_a_flac_file_under_a_name_that_says_wav_is_sent_as_wav(server, tmp_path):
    server.script("model", "B")
    root = make(tmp_path, record("Audio_Grounding", 0), record(TASK, 1))
    wav = root / "Foundation" / "Audio_Grounding_source" / "clip 0.wav"
    samples, rate = soundfile.read(wav)
    soundfile.write(wav.with_suffix(".flac"), samples, rate)
    wav.unlink()
    run(server, root, "Audio_Grounding")
    (asked,) = server.asked["model"]
    audio = asked.body["messages"][0]["content"][0]["input_audio"]
    sent = base64.b64decode(audio["data"])
    assert audio["format"] == "wav" and soundfile.info(io.BytesIO(sent)).format == "WAV"


# Answers and numbers


def test_two_metrics_from_one_answer_and_no_judge(server, tmp_path):
    server.script("model", by_number("B", "A", "a bell", "I hear nothing", "Bells ring"))
    results = run(server, make(tmp_path, *(record(TASK, n) for n in range(5))), TASK)
    found = row(results, TASK)
    assert (found["acc"], found["official_acc"]) == (pytest.approx(2 / 5), pytest.approx(2 / 3))
    assert found["acc_stderr"] == pytest.approx((0.24 / 4) ** 0.5)
    summary = scoring(results, TASK)
    assert {key: summary[key] for key in ("docs", "scored", "no_letter", "official_no_letter", "unanswered")} == {
        "docs": 5,
        "scored": 5,
        "no_letter": 2,
        "official_no_letter": 2,
        "unanswered": {},
    }
    assert set(server.asked) == {"model"} and len(server.asked["model"]) == 5
    assert summary["process"]["versions"]["lm_eval"] and summary["chance"] == TASKS[TASK].chance


def test_a_doc_without_an_answer_is_in_no_number_and_counted_with_its_reason(server, tmp_path):
    filtered = refused(400, "content management policy", code="content_filter")
    server.script("model", by_number("B", filtered, said("", model="m-1"), said("The ans", "length", model="m-1")))
    root = make(tmp_path, *(record(TASK, n) for n in range(4)))
    results = run(server, root, TASK, model="audio-chat-completions")
    summary = scoring(results, TASK)
    assert summary["unanswered"] == {"no answer: content filter": 1}
    assert row(results, TASK)["acc"] == pytest.approx(1 / 3)  # silence of a model that tells it from failure is wrong
    assert (summary["scored"], summary["no_letter"], summary["cut"]) == (3, 2, 1)
    assert results["n-samples"][f"{ALL}_{TASK}"] == {"original": 4, "effective": 3}


def test_an_empty_answer_of_a_stock_model_may_be_a_failure_and_is_left_out(server, tmp_path):
    server.script("model", by_number("B", "", "A"))
    results = run(server, make(tmp_path, *(record(TASK, n) for n in range(3))), TASK)
    assert row(results, TASK)["acc"] == 0.5
    assert scoring(results, TASK)["unanswered"] == {EMPTY_ANSWER: 1}


def test_a_group_is_the_mean_of_its_members_and_the_track_that_of_three_categories(server, tmp_path):
    right = {"Speech_Grounding": 1, "Speaker_Age_Prediction": 3, "Sound_AQA": 2, "Music_AQA": 4}

    def answer(asked):
        task = re.search(r"(\w+) question \d", asked.text)[1]
        return "B" if number(asked) < right.get(task, 2) else "C"

    server.script("model", answer)
    sizes = {"Speech_Grounding": 4, "Speaker_Age_Prediction": 6}
    root = make(tmp_path, *(record(task, n) for task in TASKS for n in range(sizes.get(task, 4))))
    results = run(server, root)
    speech = (1 / 4 + 3 / 6 + 7 * 2 / 4) / 9
    assert row(results, "speech")["acc"] == pytest.approx(speech)
    music = (4 / 4 + 5 * 2 / 4) / 6
    assert row(results)["acc"] == pytest.approx((speech + 0.5 + music) / 3)
    errors = [row(results, name)["acc_stderr"] for name in ("speech", "sound", "music")]
    assert row(results)["acc_stderr"] == pytest.approx(sum(e**2 for e in errors) ** 0.5 / 3)


def test_two_data_sets_of_a_task_are_pooled_by_question(server, tmp_path):
    server.script("model", by_number("B", "B", "B", "A"))
    records = [record(TASK, n, dataset_name="one" if n < 1 else "other") for n in range(4)]
    assert row(run(server, make(tmp_path, *records), TASK), TASK)["acc"] == 0.75


def test_without_all_of_its_tasks_a_group_has_no_score_and_the_log_says_why(server, tmp_path, caplog):
    server.script("model", "B")
    root = make(tmp_path, *(record(task, 0) for task in ONE_A_CATEGORY))
    results = run(server, root, tasks=f"{TASK},Music_AQA")
    assert "acc" not in row(results) and row(results, TASK)["acc"] == 1
    assert "air_bench_foundation has no score" in caplog.text and "not in tasks" in caplog.text


# lm-eval's options, and who reads the run


def test_predict_only_scores_nothing_and_keeps_what_the_model_said(server, tmp_path):
    server.script("model", "B")
    results = run(server, make(tmp_path, record(TASK, 0)), TASK, options={"predict_only": True})
    metadata = results["configs"][f"{ALL}_{TASK}"]["metadata"]
    assert "scoring" not in metadata and metadata["made_with"]["answers"]["finish"]
    assert results["samples"][f"{ALL}_{TASK}"][0]["filtered_resps"] == ["B"]


def test_the_same_command_asks_the_model_nothing_twice(server, tmp_path):
    server.script("model", "B")
    root = make(tmp_path, record(TASK, 0), record(TASK, 1))
    options = {"use_cache": str(tmp_path / "answers")}
    first = run(server, root, TASK, options=options)
    server.forget()
    second = run(server, root, TASK, options=options)
    assert server.calls("model") == 0 and row(first, TASK) == row(second, TASK)


def test_an_unknown_task_lists_the_names_as_the_data_spells_them(server, tmp_path):
    with pytest.raises(ValueError, match=r"unknown task 'Music_Genre'.*Music_Genre_Recognition"):
        run(server, make(tmp_path, record(TASK, 0)), tasks="Music_Genre")


def test_a_judges_settings_are_none_of_its_options(server, tmp_path):
    with pytest.raises(ValueError, match="'judge_model' is not one of its options"):
        run(server, make(tmp_path, record(TASK, 0)), TASK, air_bench_foundation={"judge_model": "x"})


def test_a_text_model_is_refused_before_anything_is_asked(server, tmp_path):
    with pytest.raises(ValueError, match=f"takes text only. {ALL}_{TASK} needs a model that takes audio"):
        run(server, make(tmp_path, record(TASK, 0)), TASK, model="dummy")


def test_the_one_reader_knows_the_run_and_rejudge_has_nothing_to_judge(server, tmp_path, handlers):
    server.script("model", by_number("B", "no idea"))
    root = make(tmp_path / "data", record(TASK, 0), record(TASK, 1))
    where = command_line(server, root, tmp_path / "out", f"{ALL}_{TASK}")
    files = reader.read(where)
    assert files.benchmarks == {f"{ALL}_{TASK}": ALL}
    found = [one.records[0] for one in files.samples(f"{ALL}_{TASK}")]
    assert [(one["letter"], one["correct"], one["judged"]) for one in found] == [("B", True, True), (None, False, True)]
    with pytest.raises(ValueError, match="no samples of a judged task"):
        load_run(where)


def test_the_results_are_plain_json_without_clips(server, tmp_path):
    server.script("model", "B")
    results = run(server, make(tmp_path, record(TASK, 0)), TASK)
    sample = results["samples"][f"{ALL}_{TASK}"][0]
    assert sample["doc"]["choices"] == {key[-1].upper(): text for key, text in CHOICES.items()}
    assert sample["target"] == "B" and json.loads(sample["filtered_resps"][0])["correct"] is True
