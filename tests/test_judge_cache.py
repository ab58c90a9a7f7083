"""Verdicts on disk: what is another entry, what breaks the file, and who shares it."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from conftest import QUESTION, questions
from servers import refused, said

from lm_eval_tasks.judge.cache import VerdictCache, cache_folder
from lm_eval_tasks.judge.question import Unjudged, Verdict
from lm_eval_tasks.settings import JudgeSettings

ASK = """
import resource, signal, sys
from conftest import questions
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Verdict
from lm_eval_tasks.settings import JudgeSettings
url, cache, first, last, concurrency, largest = sys.argv[1:]
if int(largest):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(largest), int(largest)))
settings = JudgeSettings(judge_model="judge-1", judge_base_url=url, judge_cache=cache, judge_max_retries=0,
                         judge_concurrency=int(concurrency))
print("ready", flush=True)
sys.stdin.readline()
outcomes = Judge(settings).ask(questions(int(last))[int(first):], "Judging")
print(sum(isinstance(outcome, Verdict) for outcome in outcomes), flush=True)
"""
"""Asks some of ``questions`` in a process of its own, once a line comes in."""


def start(server, cache, first, last, concurrency=4, largest=0):
    process = subprocess.Popen(
        [sys.executable, "-c", ASK, server.url(), str(cache), *map(str, (first, last, concurrency, largest))],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


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


def test_by_default_it_lies_in_the_users_cache_folder(server, make_judge, tmp_path):
    server.script("judge", "8 6")
    judged(server, make_judge, True)
    assert cache_folder().is_relative_to(tmp_path) and (cache_folder() / "verdicts.sqlite").is_file()


def test_a_tilde_in_its_path_is_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    VerdictCache("~/verdicts.sqlite").close()
    assert (tmp_path / "verdicts.sqlite").is_file()


def test_without_one_everything_is_asked_again_and_no_file_is_made(server, make_judge):
    server.script("judge", "8 6")
    assert judged(server, make_judge, False) == judged(server, make_judge, False) == (4, 4)
    assert not cache_folder().exists()


# What is another entry

CHANGES = {
    "another model": {"judge_model": "judge-2"},
    "another temperature": {"judge_temperature": 0.5},
    "another token limit": {"judge_max_tokens": 7},
    "another repeat": {"repeat": 1},
    "another order": {"part": "swapped"},
    "another wording": {"prompt_version": "test-2"},
    "another schema": {"schema": {"type": "object"}},
    "another text": {"messages": ({"role": "user", "content": "Which is best?"},)},
}


def key(**changes):
    settings = JudgeSettings()
    endpoint = {"base_url": settings.judge_base_url, "model": "judge-1", "temperature": 0.0, "max_tokens": 1024}
    question = {name: value for name, value in changes.items() if not name.startswith("judge_")}
    endpoint |= {name.removeprefix("judge_"): value for name, value in changes.items() if name.startswith("judge_")}
    return type(QUESTION)(**{**vars(QUESTION), **question}).key(**endpoint)


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_shapes_a_verdict_is_another_entry(change):
    assert key(**CHANGES[change]) != key()


def test_another_base_url_is_another_entry(server, make_judge, cache):
    server.script("judge", "8 6")
    server.script("other", "8 6")
    assert judged(server, make_judge, cache) == (4, 4)
    judged(server, make_judge, cache, judge_base_url=server.url("other"))
    assert server.calls("other") == 4


@pytest.mark.parametrize("options", [{"judge_timeout": 9}, {"judge_concurrency": 1}, {"judge_max_retries": 0}])
def test_patience_and_speed_are_no_part_of_the_entry(server, make_judge, cache, options):
    server.script("judge", "8 6")
    judged(server, make_judge, cache)
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


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"\0" * 4096, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_one_warning(server, make_judge, cache, caplog, content):
    Path(cache).parent.mkdir()
    Path(cache).write_bytes(content)
    server.script("judge", "8 6")
    assert judged(server, make_judge, cache) == (4, 4) and warned_once(caplog)
    assert cache in caplog.text and "judge_cache=PATH" in caplog.text


def test_a_file_damaged_in_the_middle_is_one_warning(server, make_judge, cache, caplog):
    server.script("judge", "8 6")
    judged(server, make_judge, cache, 60)
    for other in Path(cache).parent.glob("*-*"):
        other.unlink()
    with Path(cache).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xaa" * (Path(cache).stat().st_size - 4096))
    assert judged(server, make_judge, cache, 60)[0] == 60 and warned_once(caplog)


def test_a_table_of_another_form_is_one_warning(server, make_judge, cache, caplog):
    Path(cache).parent.mkdir()
    with sqlite3.connect(cache) as db:
        db.execute("CREATE TABLE verdict (something INTEGER)")
    db.close()
    server.script("judge", "8 6")
    assert judged(server, make_judge, cache) == (4, 4) and warned_once(caplog)


def test_a_folder_in_its_place_is_one_warning(server, make_judge, tmp_path, caplog):
    server.script("judge", "8 6")
    assert judged(server, make_judge, str(tmp_path)) == (4, 4) and warned_once(caplog)


def test_a_folder_that_cannot_be_made_is_one_warning(server, make_judge, caplog):
    server.script("judge", "8 6")
    assert judged(server, make_judge, "/dev/null/x/verdicts.sqlite") == (4, 4) and warned_once(caplog)


def test_a_full_device_is_one_warning(server, make_judge, caplog):
    server.script("judge", "8 6")
    assert judged(server, make_judge, "/dev/full") == (4, 4) and warned_once(caplog)


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


def test_a_read_only_file_is_one_warning(server, make_judge, as_nobody, caplog):
    folder, drop_rights = as_nobody
    server.script("judge", "8 6")
    make_judge(judge_cache=str(folder / "c.sqlite")).cache.close()
    (folder / "c.sqlite").chmod(0o444)
    folder.chmod(0o555)
    drop_rights()
    assert judged(server, make_judge, str(folder / "c.sqlite")) == (4, 4) and warned_once(caplog)


def test_a_read_only_folder_is_one_warning(server, make_judge, as_nobody, caplog):
    folder, drop_rights = as_nobody
    server.script("judge", "8 6")
    folder.chmod(0o555)
    drop_rights()
    assert judged(server, make_judge, str(folder / "c.sqlite")) == (4, 4) and warned_once(caplog)


def test_a_disk_that_fills_half_way_is_one_warning_and_costs_no_verdict(server, cache):
    server.script("judge", "8 6")
    process = start(server, cache, 0, 200, largest=40_000)
    out, err = process.communicate("go\n", timeout=60)
    assert out == "200\n" and server.calls() == 200
    assert err.count("The verdict cache") == 1


# Who shares it


def test_processes_that_make_it_at_the_same_moment_all_use_it(server, make_judge, cache):
    server.script("judge", said("8 6", delay=0.02))
    processes = [start(server, cache, 25 * n, 25 * n + 25) for n in range(3)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [process.communicate(timeout=60) for process in processes]
    assert [out for out, _ in ends] == ["25\n"] * 3
    assert not any("verdict cache" in err for _, err in ends)
    assert judged(server, make_judge, cache, 75) == (75, 0)


@pytest.fixture
def locked(cache, server, make_judge):
    """A cache with two verdicts, and what locks it for some seconds, as another process would."""
    server.script("judge", "8 6")
    judged(server, make_judge, cache, 2)
    for judge in list(make_judge.made):
        judge.close()

    @contextlib.contextmanager
    def lock(how, seconds):
        other = sqlite3.connect(cache, isolation_level=None, check_same_thread=False)
        for statement in how:
            other.execute(statement)
        ends = threading.Timer(seconds, other.close)
        ends.start()
        try:
            yield
        finally:
            ends.join()

    return lock


WRITING = ["BEGIN IMMEDIATE"]
READING = ["PRAGMA locking_mode=EXCLUSIVE", "BEGIN IMMEDIATE", "INSERT INTO finished VALUES ('x')"]


def test_a_cache_that_is_locked_stops_nobody_and_gets_all_verdicts_later(server, make_judge, cache, locked, caplog):
    judge = make_judge(judge_cache=cache, judge_concurrency=4)
    with locked(WRITING, 4):
        begun = time.monotonic()
        outcomes = judge.ask(questions(40), "Judging")
        assert time.monotonic() - begun < 3 and all(isinstance(outcome, Verdict) for outcome in outcomes)
        assert all(map(judge.knows, questions(40)))
    judge.close()
    assert judged(server, make_judge, cache, 40) == (40, 0)
    assert "verdict cache" not in caplog.text


def test_a_run_may_end_while_the_cache_is_locked(server, make_judge, cache, locked):
    judge = make_judge(judge_cache=cache)
    with locked(WRITING, 3):
        judge.ask(questions(9), "Judging")
        judge.close()
    assert judged(server, make_judge, cache, 9) == (9, 0)


def test_verdicts_in_a_cache_that_is_locked_for_reading_are_waited_for_and_not_paid_for_again(
    server, make_judge, cache, locked, caplog
):
    with locked(READING, 2):
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


def test_a_killed_run_repeats_only_the_calls_that_were_in_flight(server, make_judge, cache):
    after = 15
    server.script("judge", said("8 6", delay=0.03))
    process = start(server, cache, 0, 40, concurrency=2)
    process.stdin.write("go\n")
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while server.calls() < after and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    made = server.calls()
    assert after <= made <= after + 2
    server.script("judge", "8 6")
    verdicts, more = judged(server, make_judge, cache, 40)
    assert verdicts == 40 and made + more - 40 <= 2
