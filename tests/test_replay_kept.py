"""Judging what a run that did not end kept aside."""

from __future__ import annotations

import processes
from airbench_runs import ALL
from servers import DROP, said
from stored_runs import kept, lose_cache, numbers, results, samples_file, scores


def test_answers_of_a_run_killed_while_judging_are_judged_with_its_settings(runs):
    def slow_after_five(asked):
        return said(scores(asked), delay=0 if runs.server.calls("judge") <= 5 else 60)

    runs.server.script("judge", slow_after_five)
    command = runs.command("out", tasks=ALL, logged=False, judge_concurrency=1, judge_temperature=0.5, judge_timeout=90)
    log = runs.folder / "log"
    process = processes.start(log, processes.command, command)
    processes.until(lambda: runs.server.calls("judge") == 6, process)
    process.kill()
    process.join()
    assert runs.server.calls("judge") == 6, log.read_text(encoding="utf-8")
    (folder,) = kept()
    assert str(folder) in log.read_text(encoding="utf-8")

    runs.server.script("judge", scores)
    later = runs.rejudge(folder)
    assert runs.server.calls("model") == 0
    assert len(runs.judged()) == 6  # of ten: four were stored, one had been in flight, and there was a trial
    assert {asked.body["temperature"] for asked in runs.server.asked["judge"]} == {0.5}
    direct = results(runs.run("direct", tasks=ALL, judge_temperature=0.5))
    assert numbers(later) == numbers(direct)
    assert later["model_name"] == direct["model_name"] == "listener"


def test_answers_that_could_not_be_judged_are_kept_until_they_are(runs, caplog):
    direct = results(runs.run("direct"))["results"]
    lose_cache()
    runs.server.script("judge", *[scores] * 5, DROP)
    runs.run("out", logged=False, ends=3, judge_max_retries=0, judge_concurrency=1, judge_patience=0.5)
    (folder,) = kept()
    assert f"or on {folder}" in caplog.text
    waiting = {file: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    runs.server.script("judge", scores)
    runs.server.script("model", "another model's answer")
    runs.run("other", logged=False)
    assert kept() == [folder]  # nothing of a run that is judged to its end
    assert {file: file.read_text(encoding="utf-8") for file in folder.iterdir()} == waiting
    later = runs.rejudge(folder)
    assert len(runs.judged()) == 6
    assert {name: later["results"][name]["gpt_score,judge"] for name in direct} == {
        name: row["gpt_score,judge"] for name, row in direct.items()
    }


def test_a_run_interrupted_at_its_second_task_has_the_average_of_all_tasks_under_its_settings(runs, monkeypatch):
    monkeypatch.setenv("LM_EVAL_TASKS_DO_SWAP", "false")
    folder = runs.interrupted(monkeypatch, after=1, tasks=ALL)
    monkeypatch.delenv("LM_EVAL_TASKS_DO_SWAP")
    later = runs.rejudge(folder)
    assert runs.server.calls("model") == 0
    assert len(runs.judged()) < 5  # what was judged is in the cache
    assert numbers(later) == numbers(results(runs.run("direct", tasks=ALL, do_swap=False)))


def test_kept_answers_that_lack_a_task_have_no_average(runs, monkeypatch, capsys):
    folder = runs.interrupted(monkeypatch, after=1, tasks=ALL)
    samples_file(folder, "speech_QA").unlink()
    capsys.readouterr()
    later = runs.rejudge(folder)
    assert f"{folder} lacks the answers of {ALL}_speech_QA. " in capsys.readouterr().err
    assert list(later["results"]) == [f"{ALL}_sound_QA"]
