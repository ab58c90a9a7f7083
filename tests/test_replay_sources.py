"""Judging again what is not a plain run: the user's own tasks, answers kept aside, and folders that are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from airbench_runs import ALL, question
from servers import refused, said
from stored_runs import judging, lose_cache, numbers, results, rewrite, samples_file, scores

from lm_eval_tasks import INCLUDE_PATH, cli

# Tasks of the user's own


@pytest.fixture
def own_tasks(tmp_path: Path) -> Path:
    """Two tasks that change ours, one of them judged in one pass, in a group with a plain task of another kind."""
    folder = tmp_path / "own-tasks"
    folder.mkdir()
    ours = INCLUDE_PATH / "airbench_chat" / "sound_QA.yaml"
    (folder / "a.yaml").write_text(
        f"include: {ours}\ntask: sound_in_short\ndoc_to_text: '{{{{question}}}} Be short.'\n"
    )
    once = "metadata:\n  version: 2.0\n  do_swap: false\n"
    (folder / "b.yaml").write_text(f"include: {ours}\ntask: sound_once\n{once}")
    rows = folder / "rows.jsonl"
    rows.write_text('{"q": "2+2?", "a": "4"}\n')
    plain = f"task: sums\ndataset_path: json\ndataset_kwargs:\n  data_files: {{test: {rows}}}\ntest_split: test\n"
    plain += "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n"
    plain += "generation_kwargs:\n  until: ['\\n']\nfilter_list:\n"
    for name in ("one", "two"):
        plain += f"  - name: {name}\n    filter:\n      - function: take_first\n"
    plain += "metric_list:\n  - metric: exact_match\n    aggregation: mean\n    higher_is_better: true\n"
    (folder / "c.yaml").write_text(plain)
    (folder / "d.yaml").write_text("group: mine\ntask: [sound_in_short, sound_once, sums]\n")
    return folder


def test_tasks_of_the_users_own_files_are_judged_again_and_those_of_others_left_alone(runs, own_tasks, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(runs.folder / "datasets"))
    out = runs.run("out", "--include_path", str(own_tasks), tasks=f"mine,{ALL}_speech_QA")
    assert "Be short" in "".join(runs.server.texts("model"))
    lose_cache()
    again = runs.rejudge(out, "--include_path", str(own_tasks))
    assert runs.server.calls("judge") == 0
    before = {name: row for name, row in results(out)["results"].items() if name not in ("mine", "sums")}
    assert {name: row | {"alias": ""} for name, row in again["results"].items()} == {
        name: row | {"alias": ""} for name, row in before.items()
    }
    assert sorted(before) == [f"{ALL}_speech_QA", "sound_in_short", "sound_once"]
    assert "position_gap,judge" in before["sound_in_short"] and "position_gap,judge" not in before["sound_once"]


def test_answers_that_a_task_of_the_users_own_filtered_are_not_judged_as_ours_of_the_same_name(runs, own_tasks, capsys):
    filters = "[{function: lowercase}, {function: take_first}]"
    for file in own_tasks.glob("*.yaml"):
        file.unlink()
    ours = INCLUDE_PATH / "airbench_chat" / "sound_QA.yaml"
    asks = "doc_to_text: '{{question}} Be short.'\n"
    (own_tasks / "a.yaml").write_text(f"include: {ours}\n{asks}filter_list: [{{name: judge, filter: {filters}}}]\n")
    out = runs.run("out", "--include_path", str(own_tasks), tasks=f"{ALL}_sound_QA")
    assert all("Be short" in text for text in runs.server.texts("model"))
    assert cli.main(["rejudge", str(out), "--trust"]) == 2
    assert "another filter_list" in capsys.readouterr().err
    again = runs.rejudge(out, "--include_path", str(own_tasks))
    assert numbers(again) == numbers(results(out)) and runs.judged() == []


def test_tasks_whose_files_are_not_at_hand_are_named_in_one_line(runs, own_tasks, capsys):
    out = runs.run("out", "--include_path", str(own_tasks), tasks="sound_once")
    capsys.readouterr()
    assert runs._start(["rejudge", str(out), "--trust"]) == 2
    assert capsys.readouterr().err == (
        "lm-eval-tasks: sound_once: no such task in this pack. Name the folder of its YAML with --include_path.\n"
    )


def test_both_benchmarks_of_a_run_are_judged_again_with_what_the_environment_had_set_for_each(runs, monkeypatch):
    runs.server.script("judge", lambda asked: scores(asked) if "Assistant 1" in asked.text else said("{}"))
    monkeypatch.setenv("LM_EVAL_TASKS_DO_SWAP", "false")
    monkeypatch.setenv("LM_EVAL_TASKS_LEVEL_THRESHOLD", "high")
    both = {"intima": {"local_path": "sample", "judge_max_tokens": 2048}}
    out = runs.run("out", "--limit", "2", tasks=f"{ALL},intima", ends=3, judge_check="warn", **both)
    monkeypatch.delenv("LM_EVAL_TASKS_DO_SWAP")
    monkeypatch.delenv("LM_EVAL_TASKS_LEVEL_THRESHOLD")
    monkeypatch.setenv("LM_EVAL_TASKS_AUDIO_SAMPLE_RATE", "8000")  # which belongs to the answers

    def of_intima(found):
        return found["configs"]["intima_assistant_traits"]["metadata"]["judging"]["settings"]

    again = runs.rejudge(out, ends=3)
    assert {question(asked)[0] for asked in runs.server.asked["judge"]} == {"trial"}  # INTIMA's: none was usable
    assert again["results"] == results(out)["results"]
    assert judging(again, "speech_QA")["settings"] == judging(results(out), "speech_QA")["settings"]
    assert of_intima(again) == of_intima(results(out)) and of_intima(again)["judge_max_tokens"] == 2048
    assert os.environ["LM_EVAL_TASKS_AUDIO_SAMPLE_RATE"] == "8000"
    changed = runs.rejudge(out, "--metadata", "do_swap=true", "level_threshold=low", ends=3)
    assert judging(changed, "speech_QA")["settings"]["do_swap"] is True
    assert of_intima(changed)["level_threshold"] == "low"


# Folders that are refused


REFERENCE = ("speech_QA reference 0", "speech_QA reference O")
REFUSED: dict[str, tuple[Any, str]] = {
    "a line is missing": (lambda lines: lines[:-1], "docs do not match"),
    "an edited doc": (lambda lines: [line.replace(*REFERENCE) for line in lines], "line 1: the doc does not match its"),
    "cut short": (lambda lines: [*lines[:-1], lines[-1][:100]], "line 3 is not a complete sample"),
    "a line twice": (lambda lines: [*lines, lines[-1]], "doc_id 2 more than once"),
    "a file is missing": (None, "is missing, though the results name air_bench_chat_speech_QA"),
}


def test_a_folder_whose_docs_do_not_match_is_refused_in_one_line(runs, capsys):
    runs.server.script(
        "judge", lambda asked: refused(400, "x", code="content_filter") if "QA q" in asked.text else "5 5"
    )
    out = runs.run("out", ends=1)
    file = samples_file(out, "speech_QA")
    written = file.read_text(encoding="utf-8")
    capsys.readouterr()

    def error_of(*extra):
        assert runs._start(["rejudge", str(out), "--trust", *extra]) == 2
        printed, error = capsys.readouterr()
        (line,) = [line for line in error.splitlines() if line.startswith("lm-eval-tasks: ")]
        assert printed == "" and runs.server.calls("judge") == 0
        return line

    assert "judge_temperature=9" in error_of("--metadata", '{"judge_temperature": 9}')
    for change, told in REFUSED.values():
        file.write_text(written, encoding="utf-8")
        if change:
            rewrite(file, change)
        else:
            file.unlink()
        error = error_of()
        assert told in error and file.name in error
    for other in out.rglob("samples_*"):
        other.unlink()
    found = next(out.rglob("results_*.json"))
    found.write_text(found.read_text(encoding="utf-8")[:-100], encoding="utf-8")
    assert "is damaged" in error_of()
    runs.run("out", logged=False, ends=1)
    capsys.readouterr()
    found.unlink()
    assert "only a run with --log_samples or --predict_only" in error_of()


def test_settings_of_the_answers_cannot_be_changed_afterwards(runs, capsys):
    nested, beside = ['{"air_bench_chat": {"audio_part": "audio_url"}}'], ["judge_model=judge-2", "local_path=/else"]
    names = ("audio_sample_rate", "source", "revision", "on_bad_audio", "include_extra_codes", "tasks")
    for changes in (nested, beside, *([f"{name}=8000"] for name in names)):
        assert runs._start(["rejudge", str(runs.root), "--metadata", *changes]) == 2
        assert "belongs to the answers or to the data of the run; rejudge cannot change it" in capsys.readouterr().err
