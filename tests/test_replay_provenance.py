"""Judging again changes the judging only: what the answers were made with stays as the run that made them noted it."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from airbench_runs import ALL, run
from stored_runs import DOCS, judging, kept, results, samples_file

from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.runs.made import made_with

SPEECH = f"{ALL}_speech_QA"
ODD = ("--gen_kwargs", "temperature=0.7,max_gen_toks=33", "--system_instruction", "Be brief.", "--limit", "0.5")
OF_ANSWERS = (
    "model",
    "model_args",
    "gen_kwargs",
    "limit",
    "system_instruction",
    "generation",
    "date",
    "lm_eval_version",
)


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def samples(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in samples_file(folder, name).read_text(encoding="utf-8").splitlines()]


def test_all_that_belongs_to_the_answers_stays_that_of_the_run_that_made_them(runs, monkeypatch):
    out = runs.run("out", *ODD)
    before = results(out)
    monkeypatch.setenv("LM_EVAL_TASKS_JUDGE_TIMEOUT", "7")
    again = runs.rejudge(out, "--metadata", "judge_model=judge-2")
    assert made_with(again) == made_with(before)
    assert again["config"]["limit"] == 0.5
    assert again["config"]["model"] == "local-chat-completions"
    assert again["config"]["model_args"]["num_concurrent"] == 8
    assert again["system_instruction"] == "Be brief."
    assert again["n-samples"][SPEECH] == {"original": 3, "effective": 2}
    assert {one["generation_kwargs"]["max_gen_toks"] for one in again["configs"].values()} == {33}
    assert {one["generation_kwargs"]["temperature"] for one in again["configs"].values()} == {0.7}
    for name in DOCS:
        old, new = samples(out, name), samples(runs.folder / "again", name)
        for key in ("doc_id", "arguments", "prompt_hash", "resps", "doc"):
            assert [one[key] for one in new] == [one[key] for one in old]
    told = again["judged_again"]
    assert told["judges"] == {ALL: "judge-2"} and told["source"] == str(out) and told["answers"] == "3 docs"
    assert told["date"] > "2020" and told["lm_eval_version"] == before["lm_eval_version"]
    assert judging(again, "speech_QA")["settings"]["judge_model"] == "judge-2"
    assert judging(again, "speech_QA")["process"]["environment"] == {}
    assert told["process"]["environment"] == {"LM_EVAL_TASKS_JUDGE_TIMEOUT": "7"}
    assert "replay" not in again["configs"][SPEECH]["metadata"]


def test_a_run_judged_three_times_still_tells_of_its_answers_and_of_each_judging(runs):
    out = runs.run("out", *ODD)
    for judge in ("judge-2", "judge-3"):
        assert runs._start(["rejudge", str(out), "--trust", "--metadata", f"judge_model={judge}"]) == 0
        out = runs.folder / f"out-rejudged-{judge}"
    last = results(out)
    assert {key: made_with(last)[key] for key in OF_ANSWERS} == {
        key: made_with(results(runs.folder / "out"))[key] for key in OF_ANSWERS
    }
    assert last["judged_again"]["judges"] == {ALL: "judge-3"}
    assert last["judged_again"]["earlier"]["judges"] == {ALL: "judge-2"}


def test_kept_answers_tell_what_they_were_made_with(runs, monkeypatch):
    direct = results(runs.run("direct", *ODD))
    again = runs.rejudge(runs.interrupted(monkeypatch, *ODD, tasks=ALL))
    for key in ("model", "model_args", "gen_kwargs", "limit", "batch_size", "fewshot_seed"):
        assert again["config"][key] == direct["config"][key], key
    for key in ("system_instruction", "model_name", "n-samples", "fewshot_as_multiturn"):
        assert again[key] == direct[key], key
    for key in ("generation_kwargs", "doc_to_text", "num_fewshot"):
        assert again["configs"][SPEECH][key] == direct["configs"][SPEECH][key]
    assert "kept aside" in again["judged_again"]["answers"]
    assert samples(runs.folder / "again", "speech_QA")[0]["arguments"]["gen_args_0"]["arg_1"]["max_gen_toks"] == 33


def test_answers_kept_by_a_run_in_python_tell_what_a_task_knows(runs, monkeypatch):
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Judge, "ask", interrupt)
        options = {"limit": 0.5, "gen_kwargs": "max_gen_toks=33", "system_instruction": "Be brief."}
        run(runs.server, runs.root, SPEECH, options=options)
    again = runs.rejudge(kept()[-1])
    assert again["config"]["model"] == "LocalChatCompletion" and again["model_name"] == "listener"
    assert again["config"]["limit"] == 2 and again["n-samples"][SPEECH] == {"original": 3, "effective": 2}
    assert again["config"]["model_args"] is again["config"]["numpy_seed"] is None  # a task is not told
    assert again["system_instruction"] == "Be brief."
    assert again["configs"][SPEECH]["generation_kwargs"]["max_gen_toks"] == 33


def test_what_nobody_noted_is_not_that_of_the_judging(runs, monkeypatch):
    folder = runs.interrupted(monkeypatch, *ODD, tasks=ALL)
    file = next(folder.glob("results_*.json"))
    noted = json.loads(file.read_text(encoding="utf-8"))
    bare = {key: {"metadata": one["metadata"], "settings": one["settings"]} for key, one in noted["configs"].items()}
    file.write_text(json.dumps({"configs": bare}), encoding="utf-8")  # as the first version kept answers
    made = made_with(runs.rejudge(folder))
    assert {made[key] for key in ("model", "limit", "fewshot_seed", "system_instruction", "date")} == {None}
    assert set(map(str, made["generation"].values())) == {"{}"}


def test_the_docs_of_one_rank_do_not_pass_for_a_run(runs, monkeypatch, capsys):
    from lm_eval_tasks.harness.task import JudgedTask

    build = JudgedTask.build_all_requests

    def second_of_two(self, **options):
        if not self.replayed:
            options |= {"rank": 1, "world_size": 2}
        build(self, **options)

    monkeypatch.setattr(JudgedTask, "build_all_requests", second_of_two)
    folder = runs.interrupted(monkeypatch, tasks=ALL)
    capsys.readouterr()
    again = runs.rejudge(folder)
    assert "of the other ranks (it is of rank 1 of 2" in capsys.readouterr().err
    assert set(again["results"]) == {f"{ALL}_{name}" for name in DOCS}  # no average
    assert again["n-samples"][SPEECH] == {"original": 3, "effective": 1}
    assert "rank 1 of 2" in again["judged_again"]["answers"]


# Where the results go


def test_outputs_carry_the_judges_name_do_not_overwrite_each_other_and_are_whole_or_none(runs, monkeypatch):
    out = runs.run("out", "--limit", "1")
    for _ in range(2):
        assert runs._start(["rejudge", "out/", "--trust", "--metadata", "judge_model=lab/judge 2"]) == 0
    assert runs._start(["rejudge", "out", "--trust"]) == 0
    names = {path.name for path in runs.folder.iterdir() if path.name.startswith((out.name, f".{out.name}"))}
    assert names == {"out", "out-rejudged-lab_judge_2", "out-rejudged-lab_judge_2-2", "out-rejudged-judge-1"}
    assert len(list((runs.folder / "out-rejudged-lab_judge_2").rglob("results_*.json"))) == 1
    assert results(runs.folder / "out-rejudged-judge-1")["results"] == results(out)["results"]
    folder = runs.interrupted(monkeypatch)
    before = set(folder.parent.iterdir())
    assert runs._start(["rejudge", str(folder)]) == 0  # kept answers: into the user's folder
    assert set(folder.parent.iterdir()) == before
    assert results(runs.folder / "listener-rejudged-judge-1")["model_name"] == "listener"
    before = set(runs.folder.iterdir())
    monkeypatch.setattr(Judge, "ask", interrupt)
    assert runs._start(["rejudge", str(out), "--trust"]) == 130
    assert set(runs.folder.iterdir()) == before


def test_a_file_may_be_named_for_the_results_as_lm_eval_has_it(runs):
    out = runs.run("out", "--limit", "1")
    assert runs._start(["rejudge", str(out), "--trust", "--output_path", str(runs.folder / "new" / "x.json")]) == 0
    again = next((runs.folder / "new").glob("x_*.json"))
    assert json.loads(again.read_text(encoding="utf-8"))["judged_again"]
    assert len(list((runs.folder / "new").iterdir())) == 3  # with two files of samples
    assert runs.rejudge(again)["judged_again"]["earlier"]


# What a folder may not decide


def test_a_folder_decides_neither_addresses_nor_files_nor_keys(runs, monkeypatch, capsys):
    out = runs.run("out", "--limit", "1", tasks=f"{ALL}_sound_QA")
    monkeypatch.setenv("LM_EVAL_TASKS_JUDGE_BASE_URL", runs.server.url())  # so that only the edited key is asked for
    file = next(out.rglob("results_*.json"))
    written = file.read_text(encoding="utf-8")
    for (key, value), nested in itertools.product(OF_THE_USER, (False, True)):
        edited = json.loads(written)
        for config in edited["configs"].values():
            (config["metadata"].setdefault(ALL, {}) if nested else config["metadata"])[key] = value
        file.write_text(json.dumps(edited), encoding="utf-8")
        capsys.readouterr()
        assert runs._start(["rejudge", str(out)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and f"asks for {key}={json.dumps(value)}" in error and "--trust" in error
        assert runs.server.calls("judge") == 0 and not (runs.folder / "anywhere.sqlite").exists()


OF_THE_USER = [
    ("judge_base_url", "http://192.0.2.1/v1"),
    ("judge_base_url", "https://api.openai.com/v1"),  # the default, but not where this user's key belongs
    ("judge_api_key_env", "AWS_SECRET_ACCESS_KEY"),
    ("judge_cache", "anywhere.sqlite"),
    ("judge_prompt", "/etc/passwd"),
    ("judge_extra_body", {"n": 2}),
]


def test_what_this_command_or_environment_says_needs_no_trust(runs, monkeypatch):
    out = runs.run("out", "--limit", "1", judge_cache=False)
    assert runs._start(["rejudge", str(out)]) == 2
    assert runs._start(["rejudge", str(out), "--metadata", f"judge_base_url={runs.server.url()}"]) == 0
    monkeypatch.setenv("LM_EVAL_TASKS_JUDGE_BASE_URL", runs.server.url() + "/")
    assert runs._start(["rejudge", str(out)]) == 0
    monkeypatch.setenv("LM_EVAL_TASKS_JUDGE_BASE_URL", "http://127.0.0.1:9/v1")
    assert runs._start(["rejudge", str(out)]) == 2


def test_a_pipe_is_refused_and_not_waited_for(runs, capsys):
    out = runs.run("out", "--limit", "1")
    for file in (samples_file(out, "speech_QA"), next(out.rglob("results_*.json"))):
        file.unlink()
        os.mkfifo(file)
        capsys.readouterr()
        assert runs._start(["rejudge", str(out), "--trust"]) == 2
        assert "a pipe, not a file" in capsys.readouterr().err


EDITS: list[dict[str, Any]] = [
    {"group_subtasks": {ALL: 3}},
    {"group_subtasks": {"a": ["b"], "b": ["a"], "c": ["a", 7]}},
    {"configs": 3},
    {"configs": {SPEECH: 3}},
    {"configs": {SPEECH: {"metadata": ["air_bench_chat"]}}},
    {"n-samples": {SPEECH: 3, "other": None}},
    {"n-samples": {SPEECH: {"original": "many", "effective": [1]}}},
    {"config": "none", "model_name": "../.."},
    {"results": [1]},
    {"judged_again": "yes", "config": {"limit": {"a": 1}}},
    {"rank": "one", "ranks": 10**30, "versions": 3},
]


def test_a_results_file_of_any_form_is_judged_or_refused_in_one_line(runs, capsys):
    out = runs.run("out", "--limit", "1", tasks=f"{ALL}_speech_QA")
    file = next(out.rglob("results_*.json"))
    written = json.loads(file.read_text(encoding="utf-8"))
    for edit in EDITS:
        file.write_text(json.dumps(written | edit), encoding="utf-8")
        capsys.readouterr()
        status = runs._start(["rejudge", str(out), "--trust"])
        error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("lm-eval-tasks: ")]
        assert (status, len(error)) in ((0, 0), (2, 1)), edit
        names = {path.name for path in runs.folder.iterdir()} - {"out", "data", "user-cache"}
        assert names == ({"out-rejudged-judge-1"} if status == 0 else set()), edit
        shutil.rmtree(runs.folder / "out-rejudged-judge-1", ignore_errors=True)
