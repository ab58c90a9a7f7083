"""How a command ends: its exit status, what is written, and who else is at it."""

from __future__ import annotations

import os
import resource
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import processes
import pytest
from airbench_runs import ALL, question
from lm_eval.loggers import EvaluationTracker
from servers import refused, said
from stored_runs import DOCS, kept, results, scores

from lm_eval_tasks.harness.resources import make_room_for
from lm_eval_tasks.runs import alone

NO_VERDICT = refused(400, "content management policy", code="content_filter")


@pytest.mark.parametrize(
    ("judge", "ends"),
    [
        (scores, 0),
        (lambda asked: NO_VERDICT if question(asked) == ("speech_QA", 1) else scores(asked), 3),
        (lambda asked: NO_VERDICT if question(asked)[0] != "trial" else "8 6", 1),
    ],
    ids=["all judged", "some unjudged", "nothing judged"],
)
def test_the_exit_status_says_what_was_judged(runs, judge, ends):
    runs.server.script("judge", judge)
    assert runs._start(runs.command("out")) == ends
    assert runs._start(["rejudge", "out", "--trust"]) == ends
    runs.server.script("judge", scores)
    assert runs._start(["rejudge", "out", "--trust"]) == 0


# What could not be written


def full_disk(monkeypatch, *, after_results: bool):
    """lm-eval on a disk that is full: it logs that, and goes on."""
    save = EvaluationTracker.save_results_samples

    def cut(self, task_name, samples):
        save(self, task_name=task_name, samples=samples)
        for file in Path(self.output_path).rglob(f"samples_{task_name}_*"):
            os.truncate(file, file.stat().st_size - 20)

    if after_results:
        monkeypatch.setattr(EvaluationTracker, "save_results_samples", cut)
    else:
        monkeypatch.setattr(EvaluationTracker, "save_results_aggregated", lambda *_, **__: None)
        monkeypatch.setattr(EvaluationTracker, "save_results_samples", lambda *_, **__: None)


@pytest.mark.parametrize("after_results", [False, True])
def test_what_is_not_written_is_an_error_and_the_answers_stay(runs, monkeypatch, capsys, after_results):
    with monkeypatch.context() as full:
        full_disk(full, after_results=after_results)
        assert runs._start(runs.command("out")) == 1
    (folder,) = kept()
    error = capsys.readouterr().err
    assert "the results are not written" in error and f"rejudge {folder}" in error
    later = runs.rejudge(folder)
    assert runs.server.calls() == 0
    direct = results(runs.run("direct"))["results"]
    assert {name: later["results"][name] for name in direct} == direct


def test_an_error_after_judging_keeps_the_answers(runs, monkeypatch):
    def fail(*_, **__):
        raise ValueError("an aggregation of somebody else")

    assert runs._start(runs.command("out", "--predict_only")) == 0  # answers alone are no failure
    assert runs.server.calls("judge") == 0 and kept() == []
    with monkeypatch.context() as broken:
        broken.setattr(EvaluationTracker, "save_results_aggregated", fail)
        assert runs._start(runs.command("out")) == 2
    assert len(kept()) == 1
    runs.run("out")
    assert len(kept()) == 1  # of the first one


# The same twice


@pytest.mark.parametrize(("same", "told"), [(True, "is being run"), (False, "answers is in use")])
def test_what_another_process_is_at_is_said_before_any_call(runs, capsys, same, told):
    cache = () if same else ("--use_cache", str(runs.folder / "answers"))
    free = threading.Event()
    runs.server.script("model", replace(said("slow"), until=free))
    log = runs.folder / "log"
    other = processes.start(log, processes.command, runs.command("one", *cache))
    processes.until(lambda: runs.server.calls("model") == sum(DOCS.values()), other)
    made = {role: runs.server.calls(role) for role in ("model", "judge")}
    forget, runs.server.forget = runs.server.forget, lambda: None
    more = {} if same else {"judge_temperature": 0.5}
    assert runs._start(runs.command("two", *cache, **more)) == 2
    runs.server.forget = forget
    assert {role: runs.server.calls(role) for role in made} == made
    error = capsys.readouterr().err
    assert told in error and f"process {other.pid}" in error
    free.set()
    processes.ended(other, log)
    assert runs._start(runs.command("two", *cache, **more)) == 0


def claim_and_die():
    alone.claim("x", "It is done")
    os._exit(9)


def test_a_lock_of_a_process_that_was_killed_is_free(tmp_path):
    other = processes.start(tmp_path / "log", claim_and_die)
    other.join()
    assert other.exitcode == 9
    alone.claim("x", "It is done")
    alone.release("x")


# What is looked at before


@pytest.mark.parametrize("damage", [b"this is no database", b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_damaged_database_of_answers_is_one_line_before_any_call(runs, capsys, damage):
    (runs.folder / "answers_rank0.db").write_bytes(damage)
    assert runs._start(runs.command("out", "--use_cache", "answers")) == 2
    assert "answers_rank0.db is damaged" in capsys.readouterr().err.splitlines()[-1]
    assert runs.server.calls("model") == runs.server.calls("judge") == 0


@pytest.mark.parametrize("option", ["--output_path", "--use_cache"])
@pytest.mark.parametrize("place", ["/dev/null/out/deeper", "/proc/out"])
def test_a_place_that_cannot_be_written_is_found_before_any_call(runs, capsys, option, place):
    assert runs._start(runs.command("out", option, place)) == 2
    assert f"{option}: /" in capsys.readouterr().err.splitlines()[-1]
    assert runs.server.calls("model") == runs.server.calls("judge") == 0


def test_a_database_of_answers_that_is_whole_is_used(runs):
    runs.run("out", "--use_cache", "answers")
    with sqlite3.connect("answers_rank0.db") as db:
        assert db.execute("SELECT count(*) FROM unnamed").fetchone() == (sum(DOCS.values()),)
    runs.run("out", "--use_cache", "answers", "--tasks", f"{ALL}_speech_QA")
    assert runs.server.calls("model") == 0


@pytest.fixture
def few_files():
    """A soft limit of open files that many calls at once go beyond, with a hard limit that they don't."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_of_open_files_is_raised_for_the_calls_of_a_run(runs, few_files):
    runs.run("out", judge_concurrency=400)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 408
    with pytest.raises(ValueError, match="judge_concurrency"):
        make_room_for(10**9)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_a_prompt_to_the_judge_that_is_no_file_is_refused_and_not_waited_for(runs, capsys, make):
    make(runs.folder / "prompt.txt")
    assert runs._start(runs.command("out", judge_prompt=str(runs.folder / "prompt.txt"))) == 2
    assert "not a file" in capsys.readouterr().err and runs.server.calls("model") == 0
