"""Verdicts on disk: what is another entry, what breaks the file, and who shares it."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sqlite3
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import QUESTION, questions
from processes import CONTEXT, ended, start
from servers import refused, said

from lm_eval_tasks.judge.cache import VerdictCache, cache_folder
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Unjudged, Verdict
from lm_eval_tasks.settings import JudgeSettings


def ask(url, cache, first, last, largest=0, together=None):
    """Ask some of ``questions`` at the same moment as others, on a disk that takes files up to so many bytes."""
    if largest:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    settings = JudgeSettings(judge_model="judge-1", judge_base_url=url, judge_cache=cache, judge_concurrency=4)
    if together:
        together.wait(30)
    outcomes = Judge(settings).ask(questions(last)[first:], "Judging")
    print("judged:", sum(isinstance(outcome, Verdict) for outcome in outcomes), flush=True)


def judged(server, make_judge, cache, count=4, **options):
    """How many of ``questions`` got a verdict, and how many calls that took."""
    before = server.calls()
    outcomes = make_judge(judge_cache=cache, **options).ask(questions(count), "Judging")
    return sum(not isinstance(outcome, Unjudged) for outcome in outcomes), server.calls() - before


@pytest.fixture
def cache(tmp_path):
    return str(tmp_path / "folder" / "verdicts.sqlite")


def test_a_second_run_makes_no_call_and_gets_the_same_verdicts(server, make_judge, cache):
    server.script("judge", lambda asked: f"{len(server.texts()) % 9 + 1} 5.5")
    first = make_judge(judge_cache=cache).ask(questions(20), "Judging")
    server.forget()
    second = make_judge(judge_cache=cache).ask(questions(20), "Judging")
    assert [o.value for o in first] == [o.value for o in second] and server.calls() == 0
    assert all(o.cached for o in second) and not any(o.cached for o in first)
    assert [(o.reply, o.judge, o.prompt_tokens) for o in first] == [(o.reply, o.judge, o.prompt_tokens) for o in second]


def test_where_it_lies(server, make_judge, monkeypatch, tmp_path):
    server.script("judge", "8 6")
    assert judged(server, make_judge, False) == judged(server, make_judge, False) == (4, 4)
    assert not cache_folder().exists()
    judged(server, make_judge, True)
    assert cache_folder().is_relative_to(tmp_path) and (cache_folder() / "verdicts.sqlite").is_file()
    monkeypatch.setenv("HOME", str(tmp_path))
    VerdictCache("~/verdicts.sqlite").close()
    assert (tmp_path / "verdicts.sqlite").is_file()


# What is another entry

CHANGES = {
    "another address": ({}, {"base_url": "http://other/v1"}),
    "another model": ({}, {"model": "judge-2"}),
    "another temperature": ({}, {"temperature": 0.5}),
    "another token limit": ({}, {"max_tokens": 7}),
    "another repeat": ({"repeat": 1}, {}),
    "another order": ({"part": "swapped"}, {}),
    "another wording": ({"prompt_version": "test-2"}, {}),
    "another schema": ({"schema": {"type": "object"}}, {}),
    "another text": ({"messages": ({"role": "user", "content": "Which is best?"},)}, {}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_shapes_a_verdict_is_another_entry(make_judge, change):
    question, judge = CHANGES[change]
    settings = {f"judge_{name}": value for name, value in judge.items()}
    assert make_judge(**settings).key(replace(QUESTION, **question)) != make_judge().key(QUESTION)


def test_patience_and_speed_are_no_part_of_the_entry(server, make_judge, cache):
    server.script("judge", "8 6")
    judged(server, make_judge, cache)
    for options in ({"judge_timeout": 9}, {"judge_concurrency": 1}, {"judge_max_retries": 0}, {"judge_patience": 9}):
        assert judged(server, make_judge, cache, **options) == (4, 0)


@pytest.mark.parametrize(
    "bad",
    ["eight and six", said("8 6", finish="length"), said(None), refused(400, "content_filter"), refused(500, "x")],
)
def test_what_is_no_verdict_is_never_stored(server, make_judge, cache, bad):
    server.script("judge", bad)
    assert judged(server, make_judge, cache, judge_max_retries=0)[0] == 0
    server.script("judge", "8 6")
    assert judged(server, make_judge, cache) == (4, 4)


def test_an_entry_that_no_longer_parses_is_asked_for_again(server, make_judge, cache):
    server.script("judge", "8 6")
    judged(server, make_judge, cache)
    with sqlite3.connect(cache) as db:
        bad = ["{", "[]", '{"reply": "eight"}', '{"reply": 8, "strange": 1}']
        for (entry,), text in zip(db.execute("SELECT key FROM verdict").fetchall(), bad, strict=True):
            db.execute("UPDATE verdict SET reply = ? WHERE key = ?", (text, entry))
    db.close()
    assert judged(server, make_judge, cache) == (4, 4)
    assert judged(server, make_judge, cache) == (4, 0)


# What breaks it: one warning, and the run goes on


def warned_once(caplog):
    return len([record for record in caplog.records if "verdict cache" in record.getMessage()]) == 1


def other_table(path):
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE verdict (something INTEGER)")


BROKEN = {
    "no database": lambda path: path.write_bytes(b"this is no database" * 100),
    "zeros": lambda path: path.write_bytes(b"\0" * 4096),
    "damaged": lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000),
    "another table": other_table,
    "a folder": Path.mkdir,
    "a full device": lambda path: path.symlink_to("/dev/full"),
    "in no folder": lambda path: path.symlink_to("/dev/null/x/verdicts.sqlite"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_cache_is_one_warning(server, make_judge, cache, caplog, kind):
    Path(cache).parent.mkdir()
    BROKEN[kind](Path(cache))
    server.script("judge", "8 6")
    assert judged(server, make_judge, cache) == (4, 4) and warned_once(caplog)
    assert "judge_cache=PATH" in caplog.text


def test_a_file_damaged_in_the_middle_is_one_warning(server, make_judge, cache, caplog):
    server.script("judge", "8 6")
    judged(server, make_judge, cache, 60)
    for other in Path(cache).parent.glob("*-*"):
        other.unlink()
    with Path(cache).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xaa" * (Path(cache).stat().st_size - 4096))
    assert judged(server, make_judge, cache, 60)[0] == 60 and warned_once(caplog)


@pytest.fixture
def as_nobody():
    """Without the rights of the superuser, who may write to anything, and a folder that all may read."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        root = os.geteuid() == 0
        yield Path(name), (lambda: os.seteuid(65534)) if root else (lambda: None)
        if root:
            os.seteuid(0)
        Path(name).chmod(0o755)


@pytest.mark.parametrize("there", [True, False], ids=["file", "folder"])
def test_what_is_read_only_is_one_warning(server, make_judge, as_nobody, caplog, there):
    folder, drop_rights = as_nobody
    server.script("judge", "8 6")
    if there:
        make_judge(judge_cache=str(folder / "c.sqlite")).cache.close()
        (folder / "c.sqlite").chmod(0o444)
    folder.chmod(0o555)
    drop_rights()
    assert judged(server, make_judge, str(folder / "c.sqlite")) == (4, 4) and warned_once(caplog)


def test_a_disk_that_fills_half_way_is_one_warning_and_costs_no_verdict(server, cache, tmp_path):
    server.script("judge", "8 6")
    wrote = ended(start(tmp_path / "log", ask, server.url(), cache, 0, 200, 40_000), tmp_path / "log")
    assert "judged: 200\n" in wrote and server.calls() == 200
    assert wrote.count("The verdict cache") == 1


# Who shares it


def test_processes_that_make_it_at_the_same_moment_all_use_it(server, make_judge, cache, tmp_path):
    server.script("judge", said("8 6", delay=0.02))
    logs = [tmp_path / f"log {n}" for n in range(3)]
    together = CONTEXT.Barrier(3)
    processes = [start(log, ask, server.url(), cache, 25 * n, 25 * n + 25, 0, together) for n, log in enumerate(logs)]
    for wrote in map(ended, processes, logs):
        assert "judged: 25\n" in wrote and "verdict cache" not in wrote
    assert judged(server, make_judge, cache, 75) == (75, 0)


@pytest.fixture
def locked(cache, server, make_judge):
    """A cache with two verdicts, and what locks it as another process would, for some seconds after ``free`` is set."""
    server.script("judge", "8 6")
    judged(server, make_judge, cache, 2)
    for judge in list(make_judge.made):
        judge.close()

    @contextlib.contextmanager
    def lock(how, seconds, free):
        other = sqlite3.connect(cache, isolation_level=None, check_same_thread=False)
        for statement in how:
            other.execute(statement)

        def end():
            free.wait()
            time.sleep(seconds)
            other.close()

        ends = threading.Thread(target=end)
        ends.start()
        try:
            yield
        finally:
            free.set()
            ends.join()

    return lock


WRITING = ["BEGIN IMMEDIATE"]
READING = ["PRAGMA locking_mode=EXCLUSIVE", "BEGIN IMMEDIATE", "INSERT INTO verdict VALUES ('x', '{}')"]


def test_a_cache_that_is_locked_stops_nobody_and_gets_all_verdicts_later(server, make_judge, cache, locked, caplog):
    judge = make_judge(judge_cache=cache, judge_concurrency=4)
    free = threading.Event()
    with locked(WRITING, 0.3, free):
        outcomes = judge.ask(questions(40), "Judging")
        assert all(isinstance(outcome, Verdict) for outcome in outcomes)
        assert all(map(judge.knows, questions(40)))
        free.set()
        judge.close()  # which waits for the lock
    assert judged(server, make_judge, cache, 40) == (40, 0)
    assert "verdict cache" not in caplog.text


def test_verdicts_in_a_cache_that_is_locked_for_reading_are_waited_for_and_not_paid_for_again(
    server, make_judge, cache, locked, caplog
):
    free = threading.Event()
    free.set()
    with locked(READING, 1, free):
        assert judged(server, make_judge, cache, 2) == (2, 0)
    assert "verdict cache" not in caplog.text


def test_a_disk_that_gets_room_again_gets_what_it_could_not_take(server, make_judge, cache, caplog):
    server.script("judge", "8 6")
    judge = make_judge(judge_cache=cache)
    judge.ask(questions(1), "Judging")
    judge.cache._db.execute("PRAGMA max_page_count = 1")  # the least that holds what is there
    for number in range(60):
        judge.cache.put(f"large {number}", {"reply": "x" * 5000})
    assert warned_once(caplog) and judge.cache.get("large 59")
    judge.cache._db.execute("PRAGMA max_page_count = 100000")
    judge.close()
    again = VerdictCache(cache)
    assert all(again.get(f"large {number}") for number in range(60))
    again.close()


def test_a_process_sees_what_another_one_stores_meanwhile(server, make_judge, cache):
    server.script("judge", "8 6")
    one, two = make_judge(judge_cache=cache), make_judge(judge_cache=cache)
    one.ask(questions(10), "Judging")
    two.ask(questions(20), "Judging")
    one.ask(questions(20), "Judging")
    assert server.calls() == 20
