"""Judging a stored run again, or for the first time: through lm_eval, without the model and the audio."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from airbench_runs import ALL, answers, question
from servers import DROP, Asked, refused
from stored_runs import DOCS, judging, lose_cache, numbers, results, rewrite, samples_file, scores

from lm_eval_tasks import cli
from lm_eval_tasks.demo.server import running_server

# What is asked


@pytest.fixture
def demo() -> Iterator[str]:
    with running_server() as url:
        yield url


def test_the_demo_judged_again_gives_the_same_tables(handlers, demo, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"local_path": "sample", "judge_model": "demo-judge", "judge_base_url": demo}
    command = ["run", "--model", "local-chat-completions", "--apply_chat_template", "--tasks", ALL, "--log_samples"]
    command += ["--model_args", f"model=demo-listener,base_url={demo}/chat/completions", "--output_path", "out"]
    assert cli.main([*command, "--metadata", json.dumps(settings)]) == 0
    first = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert cli.main(["rejudge", "out", "--trust"]) == 0
    second = capsys.readouterr().out.splitlines()
    assert [line for line in second if line.startswith("|")] == first
    assert second[-1] == f"The results are in {tmp_path / 'out-rejudged-demo-judge'}"
    assert sum("AIR-Bench-Chat" in line for line in first) == 2
    assert numbers(results(tmp_path / "out-rejudged-demo-judge")) == numbers(results(tmp_path / "out"))
    assert results(tmp_path / "out-rejudged-demo-judge")["model_name"] == "demo-listener"


def test_with_the_same_judge_nothing_is_asked_even_without_a_cache_or_a_server(runs):
    out = runs.run("out")
    lose_cache()
    runs.server.script("judge", DROP)
    again = runs.rejudge(out)
    assert (runs.server.calls("judge"), runs.server.calls("model")) == (0, 0)
    assert numbers(again) == numbers(results(out))
    assert again["results"][f"{ALL}_speech_QA"]["gpt_score,judge"] == 4
    assert judging(again, "speech_QA")["from_cache"] == 6


NESTED = {"air_bench_chat": {"judge_model": "judge-1", "do_swap": False}, "judge_model": "elsewhere"}


@pytest.mark.parametrize(
    ("settings", "extra", "judge"),
    [
        ({}, ("--metadata", '{"judge_model": "judge-2"}'), "judge-2"),
        (NESTED, ("--metadata", '{"judge_model": "judge-2"}'), "judge-2"),
        ({}, ("--all",), "judge-1"),
    ],
    ids=["another judge", "another than one under the benchmark's name", "all"],
)
def test_another_judge_or_the_same_by_all_is_asked_everything(runs, settings, extra, judge):
    out = runs.run("out", **settings)
    runs.server.script("judge", "9 9")
    again = runs.rejudge(out, *extra)
    assert len(runs.judged()) == (5 if settings else 10)
    assert {asked.body["model"] for asked in runs.server.asked["judge"]} == {judge}
    assert again["results"][f"{ALL}_speech_QA"]["gpt_score,judge"] == 9
    told = judging(again, "sound_QA")["settings"]
    assert (told["judge_model"], told["do_swap"]) == (judge, not settings)


def test_one_pass_instead_of_two_needs_no_call(runs):
    out = runs.run("out")
    lose_cache()
    again = runs.rejudge(out, "--metadata", '{"do_swap": false}')
    assert runs.server.calls("judge") == 0
    assert "position_gap,judge" not in again["results"][f"{ALL}_speech_QA"]


def test_an_answer_that_was_changed_by_hand_is_asked_again_and_no_other(runs):
    out = runs.run("out")
    lose_cache()
    rewrite(
        samples_file(out, "speech_QA"), lambda lines: [line.replace("answer to speech_QA 1", "no") for line in lines]
    )
    runs.rejudge(out)
    assert runs.judged() == [("speech_QA", 1)] * 2


def test_answers_of_a_predict_only_run_are_judged_for_the_first_time(runs):
    predicted = runs.run("predicted", "--predict_only")
    assert runs.server.calls("judge") == 0
    later = runs.rejudge(predicted)
    assert len(runs.judged()) == 10
    assert numbers(later) == numbers(results(runs.run("direct")))


def filters(asked: Asked) -> Any:
    first, _ = answers(asked)
    if question(asked) == ("speech_QA", 1) or (question(asked) == ("sound_QA", 0) and first.startswith("answer")):
        return refused(400, "filtered", code="content_filter")
    return scores(asked)


@pytest.mark.parametrize(
    ("judge", "left"),
    [([filters], [("sound_QA", 0)] + [("speech_QA", 1)] * 2), ([scores] * 5 + [DROP], None)],
    ids=["failed", "died"],
)
def test_after_a_judge_that_failed_or_died_only_what_is_unjudged_is_asked(runs, judge, left):
    runs.server.script("judge", *judge)
    out = runs.run("out", tasks=ALL, ends=3, judge_max_retries=0, judge_concurrency=1, judge_patience=0.5)
    assert sum(sum(judging(results(out), name)["unjudged"].values()) for name in DOCS) == (2 if left else 3)
    lose_cache()
    runs.server.script("judge", scores)
    again = runs.rejudge(out)
    assert runs.judged() == left if left else len(runs.judged()) == 6
    assert numbers(again) == numbers(results(runs.run("direct", tasks=ALL)))


# What belongs to a run and is kept


def test_chosen_docs_stay_with_their_answers(runs):
    chosen = json.dumps({f"{ALL}_speech_QA": [2], f"{ALL}_sound_QA": [1]})
    again = runs.rejudge(runs.run("out", "--samples", chosen), "--all")
    assert again["results"][f"{ALL}_speech_QA"]["gpt_score,judge"] == 5
    assert again["results"][f"{ALL}_sound_QA"]["gpt_score,judge"] == 4
    (line,) = samples_file(runs.folder / "again", "speech_QA").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["doc_id"] == 2


@pytest.mark.parametrize("extra", [(), ("--predict_only",)], ids=["judged", "predicted"])
def test_what_was_left_out_is_still_counted(runs, extra):
    (runs.root / "Chat" / "speech_QA_iemocap" / "clip 1.wav").unlink()
    again = runs.rejudge(runs.run("out", *extra))
    assert judging(again, "speech_QA")["left_out"] == {"missing": ["speech_QA_iemocap/clip 1.wav"]}
    assert judging(again, "sound_QA")["left_out"] == {}


def test_neither_the_audio_nor_the_answers_cache_is_touched(runs):
    out = runs.run("out", "--use_cache", str(runs.folder / "answers"))
    (cache,) = runs.folder.glob("answers*.db")
    before = cache.read_bytes(), cache.stat().st_mtime_ns
    shutil.rmtree(runs.root)
    assert numbers(runs.rejudge(out, "--all")) == numbers(results(out))
    assert (cache.read_bytes(), cache.stat().st_mtime_ns) == before


def test_of_two_runs_in_a_folder_the_newest_counts_unless_one_is_named(runs):
    runs.run("out", "--limit", "1")
    older = next((runs.folder / "out").rglob("results_*.json"))
    runs.run("out")
    newest = runs.rejudge(runs.folder / "out")
    assert newest["n-samples"][f"{ALL}_speech_QA"]["original"] == 3
    assert runs.rejudge(older)["n-samples"][f"{ALL}_speech_QA"] == {"original": 3, "effective": 1}
