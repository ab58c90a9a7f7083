"""What results tell of the process and the answers behind them."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from airbench_runs import ALL, filtered, judging, records, run
from lm_eval.api.task import TaskConfig

from lm_eval_tasks import __version__
from lm_eval_tasks.airbench_chat import prompt
from lm_eval_tasks.harness import task
from lm_eval_tasks.harness.repeats import check_repeats
from lm_eval_tasks.runs import provenance
from lm_eval_tasks.runs.answers import Answer, Unanswered


def test_the_process_is_told_by_versions_commit_and_environment(monkeypatch):
    for name, value in {"DO_SWAP": "false", "JUDGE_API_KEY": "sk-1", "JUDGE_API_KEY_ENV": "gsk_abcdefgh"}.items():
        monkeypatch.setenv(f"LM_EVAL_TASKS_{name}", value)
    told = provenance.of_process()
    assert told["version"] == __version__
    assert set(told["versions"]) >= {"python", "lm_eval", "openai", "soundfile", "soxr"}
    assert told["versions"]["lm_eval"].startswith("0.4")
    assert told["environment"] == {
        "LM_EVAL_TASKS_DO_SWAP": "false",
        "LM_EVAL_TASKS_JUDGE_API_KEY": "(no option)",
        "LM_EVAL_TASKS_JUDGE_API_KEY_ENV": "(not shown)",
    }
    monkeypatch.setenv("LM_EVAL_TASKS_JUDGE_API_KEY_ENV", "MY_KEY")
    monkeypatch.setenv("MY_KEY", "secret")
    assert provenance.of_process()["environment"]["LM_EVAL_TASKS_JUDGE_API_KEY_ENV"] == "MY_KEY"


def test_the_commit_is_that_of_a_checkout_and_says_when_files_were_changed(tmp_path):
    assert provenance.commit(tmp_path) is None
    folder = tmp_path / "checkout"
    file = folder / "lm_eval_tasks" / "a.py"
    file.parent.mkdir(parents=True)
    file.write_text("1\n")
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    told = provenance.commit(folder)
    assert told and len(told) == 40
    file.write_text("2\n")
    provenance.commit.cache_clear()
    assert provenance.commit(folder) == f"{told}+changes"


def test_answers_are_counted_by_how_they_ended():
    told = [Answer("a", "stop", "m-1", 10, 2), Answer("b", "length", "m-1", 20, 3)]
    answers = [*told, Answer("c"), "d", Unanswered("x")]
    assert provenance.of_answers(SimpleNamespace(resps=[answer]) for answer in answers) == {
        "finish": {"stop": 1, "length": 1, "not told": 2, "no answer": 1},
        "cut": 1,
        "prompt_tokens": 30,
        "completion_tokens": 5,
        "without": {},
        "models": {"m-1": 2},
    }


def test_results_tell_of_the_answers_the_process_and_the_judges_prompt(airbench_server, make_data, monkeypatch):
    build = task.JudgedTask.apply_filters

    def cut(self: Any) -> None:  # as a model does that tells how its answers ended
        for instance in self.instances:
            instance.resps = [Answer(answer, "length", "served", 7, 2) for answer in instance.resps]
        build(self)

    monkeypatch.setattr(task.JudgedTask, "apply_filters", cut)
    airbench_server.script("judge", filtered(("speech_QA", 1)))
    root = make_data(speech_QA=3)
    results = run(airbench_server, root, f"{ALL}_speech_QA")
    told = judging(results, "speech_QA")
    assert told["answers"] == {
        "finish": {"length": 3},
        "cut": 3,
        "without": {},
        "models": {"served": 3},
        "prompt_tokens": 21,
        "completion_tokens": 6,
    }
    assert told["process"] == provenance.of_process()
    assert told["unjudged_by_category"] == {"speech": 1}
    assert told["judge_prompt"] == {"system": prompt.SYSTEM, "template": prompt.TEMPLATE, "re_ask": prompt.FORM}
    assert {record["finish_reason"] for record in records(results, "speech_QA")} == {"length"}
    own, all_of_them = (told["calls"], told["prompt_tokens"]), (4, 400)
    assert own == (told["calls_all_attempts"], told["prompt_tokens_all_attempts"])
    resumed = judging(run(airbench_server, root, f"{ALL}_speech_QA"), "speech_QA")
    assert (resumed["calls"], resumed["prompt_tokens"]) < own
    assert (resumed["calls_all_attempts"], resumed["prompt_tokens_all_attempts"]) >= all_of_them
    predicted = run(airbench_server, root, f"{ALL}_speech_QA", options={"predict_only": True})
    told = predicted["configs"][f"{ALL}_speech_QA"]["metadata"]["made_with"]
    assert told["answers"]["finish"] == {"length": 3} and told["process"]["version"] == __version__


FIRST, ALL_THREE = {"function": "take_first"}, {"function": "take_first_k", "k": 3}


@pytest.mark.parametrize(
    ("filters", "fine"),
    [
        ([[FIRST]], False),
        (None, False),
        ([[ALL_THREE, FIRST]], False),
        ([[{"function": "lowercase"}, FIRST]], False),
        ([[ALL_THREE]], True),
        ([[{"function": "my_own_choice"}]], True),
        ([[FIRST], [ALL_THREE]], True),
    ],
)
def test_repeats_that_nobody_would_judge_are_refused_before_generation(filters, fine):
    listed = filters and [{"name": str(place), "filter": one} for place, one in enumerate(filters)]
    config = TaskConfig(task="t", repeats=3, filter_list=listed)
    if fine:
        check_repeats(config)
        return
    with pytest.raises(ValueError, match="take_first_k, k: 3"):
        check_repeats(config)


@pytest.mark.parametrize("kept", [False, True])
def test_a_task_that_repeats_judges_every_answer_or_pays_for_none(airbench_server, make_data, tmp_path, kept):
    from lm_eval_tasks import INCLUDE_PATH

    ours = INCLUDE_PATH / "airbench_chat" / "speech_QA.yaml"
    filters = "filter_list: [{name: judge, filter: [{function: take_first_k, k: 3}]}]\n" if kept else ""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "a.yaml").write_text(f"include: {ours}\ntask: three_times\nrepeats: 3\n{filters}")
    root = make_data(speech_QA=2)
    if kept:
        results = run(airbench_server, root, "three_times", include=[tmp_path / "tasks"])
        assert results["configs"]["three_times"]["metadata"]["judging"]["judged"] == 6
        return
    with pytest.raises(ValueError, match="three_times: repeats: 3 asks the model for 3 answers"):
        run(airbench_server, root, "three_times", include=[tmp_path / "tasks"])
    assert airbench_server.calls("model") == 0 and airbench_server.calls("judge") == 0
