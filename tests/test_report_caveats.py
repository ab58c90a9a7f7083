"""What the report says before its numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from report_runs import change, change_samples, write_run
from report_samples import AIR

from lm_eval_tasks.report import airbench, caveats, intima, provenance, texts
from lm_eval_tasks.report.formats import to_text
from lm_eval_tasks.report.load import load_runs
from lm_eval_tasks.report.page import to_html


def said(*folders: Path) -> list[str]:
    """The sentences before a report of these runs, without those on the size of the test's data and on its judge."""
    usual = (" records: a trial", "open model of the Qwen-3 family", "left out of speech_QA")
    return [one for _, one in caveats.warnings(load_runs(folders)) if not any(words in one for words in usual)]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"do_swap": False, "prompt_version": "abc"}, "Version of the prompt, Judged in both orders"),
        ({"judge_model": "other"}, "Judge"),
        ({"judge_base_url": "http://127.0.0.1:1/v1", "judge_temperature": 1.0}, "Judge's address, Judge's temperature"),
        ({"audio_part": "file_url", "audio_sample_rate": 16000}, "Form in which clips are sent, Sample rate of"),
        ({"data_revision": "f00"}, "Data commit"),
        ({"dialect": ["no_temperature"]}, "What the judge's server did not accept"),
        ({"a_setting_of_tomorrow": 3}, "a_setting_of_tomorrow"),
    ],
)
def test_runs_that_differ_in_how_they_were_judged_are_named_first(tmp_path, settings, names):
    one = write_run(tmp_path / "1", "a", air=16)
    two = write_run(tmp_path / "2", "b", air=16, settings=settings)
    assert said(one, two)[0].startswith(f"AIR-Bench-Chat: the runs differ in a setting ({names}")


@pytest.mark.parametrize(
    ("edit", "names"),
    [
        (
            lambda r: r["configs"]["air_bench_chat_sound_QA"].update(generation_kwargs={"max_gen_toks": 4096}),
            "Answer limit",
        ),
        (lambda r: r.update(system_instruction="Be brief."), "System instruction"),
        (lambda r: r["config"].update(gen_kwargs={"top_p": 0.5}), "gen_kwargs.top_p"),
        (lambda r: r["config"].update(model_args="model=b,max_gen_toks=9"), "model_args.max_gen_toks"),
        (lambda r: r["config"].update(random_seed=7), "random_seed"),
    ],
)
def test_runs_whose_answers_were_made_otherwise_are_named_first(tmp_path, edit, names):
    one = write_run(tmp_path / "1", "a", air=16)
    two = change(write_run(tmp_path / "2", "b", air=16), edit)
    assert said(one, two)[0].startswith(f"The answers: the runs differ in a setting ({names}")
    rows = provenance.settings_table(load_runs([one, two])).rows
    assert next(row.name for row in rows if row.kind == "differs").startswith(names)


@pytest.mark.parametrize("language", texts.LANGUAGES)
def test_where_the_data_came_from_counts_where_no_commit_is_known_in_any_language(tmp_path, language):
    settings = [{"data_revision": None, "source": name} for name in ("huggingface", "modelscope")]
    runs = load_runs([write_run(tmp_path / one["source"], one["source"], air=16, settings=one) for one in settings])
    with texts.language(language):
        assert provenance.setting_name("source") in caveats.warnings(runs)[0][1]


def test_what_is_the_models_own_is_no_difference_in_settings(tmp_path):
    one = write_run(tmp_path / "1", "a", air=16)

    def edit(results):
        results["config"]["model_args"] = "model=b,base_url=http://127.0.0.1:9/v1,num_concurrent=3"
        results |= {"chat_template_sha": "1f", "lm_eval_version": "0.5"}
        results["configs"]["air_bench_chat_sound_QA"]["metadata"]["judging"]["answers"] = {"finish": {"stop": 3}}

    assert not any("differ" in one for one in said(one, change(write_run(tmp_path / "2", "b", air=16), edit)))


@pytest.mark.parametrize(
    "stored",
    [
        {"api_key": "sk-1", "header": {"Authorization": "sk-1"}, "max_tokens": 7},
        {"header": {"api-key": "sk-1", "X-Own": "sk-1"}, "max_tokens": 7},
        "max_tokens=7,header={'Authorization': 'sk-1', 'X-Own': 'sk-1'}",
    ],
)
def test_keys_in_a_results_file_reach_no_table(tmp_path, stored):
    def edit(results):
        results["config"]["model_args"] = stored

    runs = load_runs([change(write_run(tmp_path, "a", air=16), edit)])
    assert "sk-1" not in (shown := to_text("csv", runs, "judging"))
    assert "model_args.max_tokens" in shown


def test_runs_of_one_model_are_labelled_by_what_differs(tmp_path):
    one = write_run(tmp_path / "1", "a", air=16)
    two = change(write_run(tmp_path / "2", "a", air=16), lambda r: r.update(system_instruction="Be brief."))
    runs = load_runs([one, two])
    assert [run.label for run in runs] == ["a (System instruction: none)", "a (System instruction: Be brief.)"]
    same = load_runs([one, write_run(tmp_path / "3", "a", air=16)])
    assert [run.label for run in same] == ["a (2025-11-30 12:00:00) #1", "a (2025-11-30 12:00:00)"]


def test_runs_made_alike_are_not_said_to_differ(tmp_path):
    same = {"data_revision": "f00", "level_threshold": "high"}
    one = write_run(tmp_path / "1", "a", air=16, intima=31, settings={**same, "source": "auto"})
    two = write_run(tmp_path / "2", "b", air=16, intima=31, settings={**same, "source": "huggingface"})
    assert not any("differ in" in sentence for sentence in said(one, two))
    high = write_run(tmp_path / "3", "c", intima=31, settings={"level_threshold": "low"}, limit=5)
    assert "INTIMA: the runs differ in a setting (Threshold level, " in said(one, high)[1]
    assert "(Docs per task (--limit))" in said(one, high)[0]


def test_a_group_without_one_of_its_tasks_is_named_and_has_no_leaderboard_number(tmp_path):
    lacking = {"air_bench_chat_sound_QA": "no clip of sound_QA is usable."}
    folder = write_run(tmp_path, air=80, intima=31, without=lacking)
    assert [one for one in said(folder) if "missing" in one] == [
        "AIR-Bench-Chat: 1 of 8 tasks missing: sound_QA (no clip of sound_QA is usable): not comparable with the "
        "leaderboard: Sound, Average."
    ]
    run = load_runs([folder])[0]
    assert (
        airbench.leaderboard([run]).rows[0].note.startswith("without sound_QA; 67 of 1\u202f800 records; left out: 1")
    )
    notes = {row.name: row.note for row in airbench.task_table(run).rows}
    assert notes["Sound"] == "without sound_QA"
    assert notes["Music"] == notes["Mixed"] == ""


def test_part_of_the_records_and_of_the_tasks_are_marked_on_the_row_and_first(tmp_path):
    others = {f"air_bench_chat_{task}": "" for task in AIR if task != "speech_QA"}
    run = load_runs([write_run(tmp_path, air=50, intima=31, without=others)])[0]
    sentences = [one for _, one in caveats.warnings([run])]
    assert sentences[0].startswith("AIR-Bench-Chat: 7 of 8 tasks missing: speech_dialogue_QA, sound_QA, sound_gen")
    assert "AIR-Bench-Chat: 9 of 400 records: a trial on part of the data, not a result of the benchmark." in sentences
    assert "9 of 400 records" in airbench.leaderboard([run]).rows[0].note
    assert intima.summary([run]).rows[0].note == "31 of 368 records"


def test_a_task_that_was_not_run_is_noticed_without_a_stored_reason(tmp_path):
    folder = write_run(tmp_path, air=80, without={"air_bench_chat_sound_generation_QA": ""})
    run = load_runs([folder])[0]
    for summary in run.summaries.values():
        del summary["absent"]
    assert caveats.absent(run, "air_bench_chat") == {"air_bench_chat_sound_generation_QA": ""}
    whole = load_runs([write_run(tmp_path / "2", air=80, intima=31)])[0]
    assert caveats.absent(whole, "air_bench_chat") == caveats.absent(whole, "intima") == {}


def test_clips_left_out_take_the_category_and_the_average_off_the_leaderboard(tmp_path):
    run = load_runs([write_run(tmp_path, air=80)])[0]
    assert (
        "AIR-Bench-Chat: left out of speech_QA before generation: 1 (missing: speech_QA_iemocap/Ses01.wav): "
        "not comparable with the leaderboard: Speech, Average."
    ) in [sentence for _, sentence in caveats.warnings([run])]


def test_intima_without_a_category_is_not_the_whole_benchmark(tmp_path):
    folder = write_run(tmp_path, intima=31, without={"intima_emotional_investment": "no prompt of it"})
    assert said(folder)[0] == (
        "INTIMA: 1 of 4 tasks missing: Emotional investment (no prompt of it): the rates over all prompts are not "
        "those of the benchmark."
    )


def test_answers_that_were_cut_and_the_servers_words_are_said(tmp_path):
    folder = write_run(tmp_path, air=80)
    words = 'Error code: 400 - "Audio longer than <30 s> is not taken"'

    def cut(place, sample, record):
        if not place:
            cut = record | {"judged": False, "why": words, "finish_reason": "length"}
            sample["filtered_resps"] = [json.dumps(cut)]

    change_samples(folder, cut)

    def edit(results):
        for config in results["configs"].values():
            config["metadata"]["judging"] |= {"answers": {"cut": 2, "finish": {"length": 2, "stop": 7}}}
            config["metadata"]["judging"] |= {"calls_all_attempts": 500, "process": {"commit": "abc"}}

    runs = load_runs([change(folder, edit)])
    text = " ".join(sentence for _, sentence in caveats.warnings(runs))
    assert "AIR-Bench-Chat: 16 answers were cut off at the token limit" in text
    assert text.count(words) == 1
    assert provenance.totals(runs[0], "air_bench_chat")["calls"] == 4000
    settings = provenance.answer_settings(runs[0])
    assert (settings["answers.finish.length"], settings["process.commit"]) == ("16", "abc")
    page = to_html(runs, tmp_path / "report.html")[0]
    data = json.loads(re.search(r'id="data-report">(.*?)</script>', page, re.S)[1])
    shown = [doc["x"][0] for doc in data["air"]["docs"] if doc["x"][0]["said"]]
    assert {answer["said"] for answer in shown} == {words}
    assert all("length" in answer["fl"] for answer in shown)


@pytest.mark.parametrize(("judge", "told"), [("Qwen/Qwen3-235B-A22B", False), ("qwen-3-32b", False), ("gpt-9", True)])
def test_intimas_judge_of_another_family_than_the_papers_is_said(tmp_path, judge, told):
    runs = load_runs([write_run(tmp_path, intima=31, judge=judge)])
    assert any("Qwen-3 family" in sentence for _, sentence in caveats.warnings(runs)) is told


def test_answers_that_nobody_judged_yet_get_one_sentence_with_the_command(tmp_path):
    folder = write_run(tmp_path / "my out", air=16, intima=31, predict_only=True)
    assert said(folder) == [f"Not judged yet: run `lm-eval-tasks rejudge '{folder}'`."]
    runs = load_runs([folder])
    page, _ = to_html(runs, tmp_path / "report.html")
    for text in (page.split('id="data-report"')[0], to_text("markdown", runs)):
        assert "hold no number here" not in text
        assert "do not say" not in text
        assert "16 × not judged yet" in text
    assert 'class="hero"' not in page
    assert "<h2>Categories" not in page
    assert 'id="samples"' in page


def test_answers_to_a_choice_that_nobody_scored_are_not_to_be_judged_again(tmp_path):
    folder = write_run(tmp_path, foundation=9, predict_only=True)
    told = "AIR-Bench Foundation: its answers were not scored; run its tasks again without --predict_only."
    assert told in said(folder) and not any("rejudge" in one for one in said(folder))
    assert "</html>" in to_html(load_runs([folder]), tmp_path / "report.html")[0]


def test_beside_a_judged_run_the_one_that_waits_has_no_numbers(tmp_path):
    judged = write_run(tmp_path / "1", "a", air=16, intima=31)
    waiting = write_run(tmp_path / "2", "b", air=16, intima=31, predict_only=True)
    runs = load_runs([judged, waiting])
    assert (runs[1].label, f"Not judged yet: run `lm-eval-tasks rejudge {waiting}`.") in caveats.warnings(runs)
    assert airbench.leaderboard(runs).rows[1].note.endswith("not judged yet")
    assert "</html>" in to_html(runs, tmp_path / "report.html")[0]
