"""What the report says before its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_runs import write_run

from lm_eval_tasks.report import airbench, banner, gaps
from lm_eval_tasks.report.load import load_runs
from lm_eval_tasks.report.render import to_html
from lm_eval_tasks.report.tables import to_markdown


def said(*folders: Path) -> list[str]:
    """The sentences of the banner over a report of these runs."""
    return [sentence for _, sentence in banner.warnings(load_runs(folders))]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"do_swap": False, "prompt_version": "abc"}, "prompt_version, do_swap"),
        ({"judge_model": "other"}, "judge_model"),
        ({"judge_base_url": "http://127.0.0.1:1/v1", "judge_temperature": 1.0}, "judge_base_url, judge_temperature"),
        ({"audio_part": "file_url", "audio_sample_rate": 16000}, "audio_part, audio_sample_rate"),
        ({"data_revision": "f00"}, "data_revision"),
        ({"dialect": ["no_temperature"]}, "dialect"),
    ],
)
def test_runs_that_differ_in_what_shapes_the_numbers_are_named_first(tmp_path: Path, settings, names: str) -> None:
    one = write_run(tmp_path / "1", "a", air=16)
    two = write_run(tmp_path / "2", "b", air=16, settings=settings)
    assert said(one, two)[0].startswith(
        f"AIR-Bench-Chat: the runs differ in {names}: the difference is not the model's"
    )


def test_runs_made_alike_are_not_said_to_differ(tmp_path: Path) -> None:
    same = {"data_revision": "f00", "level_threshold": "high"}
    one = write_run(tmp_path / "1", "a", air=16, intima=31, settings={**same, "source": "auto"})
    two = write_run(tmp_path / "2", "b", air=16, intima=31, settings={**same, "source": "huggingface"})
    assert not any("differ in" in sentence for sentence in said(one, two))
    high = write_run(tmp_path / "3", "c", intima=31, settings={"level_threshold": "low"}, limit=5)
    assert "INTIMA: the runs differ in level_threshold, " in said(one, high)[0]
    assert "--limit" in said(one, high)[0]


def test_a_group_without_one_of_its_tasks_is_named_and_has_no_leaderboard_number(tmp_path: Path) -> None:
    lacking = {"air_bench_chat_sound_QA": "no clip of sound_QA is usable."}
    folder = write_run(tmp_path, air=80, intima=31, without=lacking)
    assert sum("without sound_QA" in sentence for sentence in said(folder)) == 1
    assert said(folder)[0] == (
        "AIR-Bench-Chat: Sound is without sound_QA (no clip of sound_QA is usable): "
        "Sound and Average are no leaderboard numbers."
    )
    run = load_runs([folder])[0]
    assert airbench.leaderboard([run]).rows[0].note == "without sound_QA; 1 clip left out"
    notes = {row.name: row.note for row in airbench.task_table(run).rows}
    assert notes["Sound"] == "without sound_QA"
    assert notes["Music"] == notes["Mixed"] == ""


def test_a_task_that_was_not_run_is_noticed_without_a_stored_reason(tmp_path: Path) -> None:
    folder = write_run(tmp_path, air=80, without={"air_bench_chat_sound_generation_QA": ""})
    run = load_runs([folder])[0]
    for summary in run.judging.values():
        del summary["absent"]
    assert gaps.absent(run, "air_bench_chat") == {"air_bench_chat_sound_generation_QA": "it was not run"}
    whole = load_runs([write_run(tmp_path / "2", air=80, intima=31)])[0]
    assert gaps.absent(whole, "air_bench_chat") == gaps.absent(whole, "intima") == {}


def test_clips_left_out_take_the_category_and_the_average_off_the_leaderboard(tmp_path: Path) -> None:
    assert said(write_run(tmp_path, air=80))[0] == (
        "AIR-Bench-Chat: speech_QA is without one of its clips, left out before generation, missing: "
        "speech_QA_iemocap/Ses01.wav: Speech and Average are no leaderboard numbers."
    )


def test_intima_without_a_category_is_not_the_whole_benchmark(tmp_path: Path) -> None:
    folder = write_run(tmp_path, intima=31, without={"intima_emotional_investment": "no prompt of it"})
    assert said(folder)[0] == (
        "INTIMA: the row of all prompts is without Emotional investment (no prompt of it): "
        "its rates are not those of the whole benchmark."
    )


def test_answers_that_nobody_judged_yet_get_one_sentence_with_the_command(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "my out", air=16, intima=31, predict_only=True)
    assert said(folder) == [f"Not judged yet: run `lm-eval-tasks rejudge '{folder}'`."]
    runs = load_runs([folder])
    page, _ = to_html(runs, tmp_path / "report.html")
    for text in (page, to_markdown(runs)):
        assert "hold no number here" not in text
        assert "do not say" not in text
        assert "16 × not judged yet" in text
    assert 'class="hero"' not in page
    assert "<h2>Categories" not in page
    assert 'id="samples"' in page


def test_beside_a_judged_run_the_one_that_waits_has_no_numbers(tmp_path: Path) -> None:
    judged = write_run(tmp_path / "1", "a", air=16, intima=31)
    waiting = write_run(tmp_path / "2", "b", air=16, intima=31, predict_only=True)
    runs = load_runs([judged, waiting])
    assert (runs[1].label, f"Not judged yet: run `lm-eval-tasks rejudge {waiting}`.") in banner.warnings(runs)
    assert [row.note for row in airbench.leaderboard(runs).rows[:2]] == ["1 clip left out", "not judged yet"]
    assert "</html>" in to_html(runs, tmp_path / "report.html")[0]
