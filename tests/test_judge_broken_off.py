"""What is asked ahead of its turn: once, within the caps, and not after the run has ended or was broken off."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from typing import Any

import batch_server
import pytest
from airbench_runs import ALL, question
from conftest import forget_judges, questions
from servers import Answer, Server, said
from stored_runs import TWO, judging, lose_cache, results
from test_judge_early import evaluate

from lm_eval_tasks.judge.early import Early
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Unjudged, Verdict

SLOW = ("speech_QA", 2)


def scores(asked: Any) -> Any:
    """The last question of the first task keeps all waiting, and the second task's are put meanwhile."""
    return said("8 6", delay=0.2 if question(asked) == SLOW else 0.0)


def counted(out: Any) -> dict[str, int]:
    """Over both tasks: calls and verdicts from the cache by the results, and docs that are judged."""
    each = [judging(results(out), name) for name in ("speech_QA", "sound_QA")]
    return {name: sum(one[name] for one in each) for name in ("calls", "from_cache", "judged")}


def asked_twice(server: Server) -> list[Any]:
    texts = Counter(
        json.dumps(asked.body["messages"]) for asked in server.asked["judge"] if "QA question" in asked.text
    )
    return [text for text, count in texts.items() if count > 1]


@pytest.mark.parametrize("way", ["run", "early", "rejudge", "rejudge --all"])
def test_what_is_asked_ahead_is_asked_once_and_counted_as_asked(runs, way):
    runs.server.script("judge", scores)
    command = runs.command("out", judge_concurrency=4)
    if way == "early":
        command[command.index("local-chat-completions")] = "audio-chat-completions"
    assert runs._start(command) == 0
    out = runs.folder / "out"
    assert runs.server.calls() == 1 + 10 and not asked_twice(runs.server)
    if way in ("run", "early"):
        assert counted(out) == {"calls": 10, "from_cache": 0, "judged": 5}
        return
    lose_cache()
    runs.rejudge(out, *(["--all"] if way == "rejudge --all" else ["--metadata", "judge_temperature=0.5"]))
    assert runs.server.calls() == 1 + 10 and not asked_twice(runs.server)
    assert counted(runs.folder / "again") == {"calls": 10, "from_cache": 0, "judged": 5}


def test_tasks_with_judges_of_their_own_are_asked_by_these_alone(runs, make_data, rows, monkeypatch):
    ahead: list[Any] = []
    real = Early.go_on
    monkeypatch.setattr(Early, "go_on", lambda self, then, until: (ahead.append(self), real(self, then, until))[1])
    runs.server.script("judge", scores)
    own = {"judge_base_url": runs.server.url("other"), "judge_model": "other-1"}
    runs.server.script("other", json.dumps({}))
    runs.run(
        "out",
        tasks=f"{TWO},intima",
        ends=3,
        judge_concurrency=4,
        judge_check="warn",
        intima={**own, "local_path": str(rows)},
    )
    assert ahead and runs.server.calls("judge") == 1 + 10
    assert all("QA question" not in asked.text for asked in runs.server.asked["other"])


@pytest.mark.parametrize(("ends", "live"), [("completed", 10), ("cancelled", 0)])
def test_what_a_batch_leaves_is_asked_ahead_only_where_it_may_be_asked_at_all(runs, ends, live):
    with batch_server.running() as api:
        api.ends, api.live = [ends], lambda body: "8 6"
        api.results = lambda number, rs: ([batch_server.line(r, "hm") for r in rs] if live else [], [])
        given = {"judge_base_url": api.url, "judge_batch": True, "judge_batch_poll": 0.01, "judge_batch_rest": "direct"}
        out = runs.run("out", ends=0 if live else 1, judge_concurrency=4, **given)
        assert [len(rows) for rows in api.asked] == [10] and len(api.calls) == live + 1
    assert counted(out)["judged"] == (5 if live else 0)


# Caps


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("cap", [{"judge_max_calls": 6}, {"judge_max_tokens_total": 6 * 104 + 1200}])
def test_no_cap_is_passed_and_the_rest_is_done_by_the_same_command(runs, cap, repeats, early):
    runs.server.script("judge", scores)
    options = {"judge_early": early, "judge_repeats": repeats, "judge_concurrency": 4, "judge_temperature": 1}
    total, made = 10 * repeats, 0
    for _ in range(20):
        command = [*runs.command("out", **options, **cap)]
        command[command.index("local-chat-completions")] = "audio-chat-completions"
        status = runs._start(command)
        calls = runs.server.calls()
        made += max(0, calls - 1)
        if "judge_max_calls" in cap:
            assert calls <= cap["judge_max_calls"]
        else:
            assert 104 * calls <= cap["judge_max_tokens_total"]
        found = counted(runs.folder / "out")
        assert found["calls"] + found["from_cache"] == made and found["calls"] == max(0, calls - 1)
        if status == 0:
            break
    assert status == 0 and made == total and found["judged"] == 5


def test_a_broken_reply_counts_for_the_caps(server, make_judge):
    server.script("judge", said("8 6", finish="error"))
    judge = make_judge(judge_max_calls=4, judge_concurrency=1)
    outcomes = judge.ask(questions(3), "Judging")
    assert server.calls() == 4 and not any(isinstance(o, Verdict) for o in outcomes)
    server.forget()
    judge = make_judge(judge_max_tokens_total=320, judge_max_tokens=10, judge_concurrency=1)
    judge.ask(questions(9), "Judging")
    assert server.calls() == 3  # of 104 tokens each


@pytest.mark.parametrize("cap", [{"judge_max_tokens_total": 50}, {"judge_max_calls": 1}])
def test_a_cap_that_leaves_no_room_for_a_trial_is_said_to_be_one(runs, capsys, cap):
    ends = runs._start(runs.command("out", judge_early=False, **cap))
    name = next(iter(cap))
    if name == "judge_max_calls":  # the trial takes it
        assert ends == 1 and runs.server.calls() == 1
    else:
        assert ends == 2 and runs.server.calls("model") == runs.server.calls() == 0
        assert f"{name}=50 reached by the trial question alone" in capsys.readouterr().err


def test_the_ranks_of_a_run_share_its_caps(server, make_judge):
    server.script("judge", "8 6")
    shares = []
    for rank in range(3):
        judge = make_judge(judge_max_calls=11)
        judge.begin_run(rank, 3)
        judge.ask(questions(9), "Judging")
        shares.append(server.calls() - sum(shares))
    assert shares == [3, 4, 4]


# Broken off


def quiet_after(server: Server, role: str = "judge", seconds: float = 0.4) -> bool:
    """Whether no call arrives from now on."""
    time.sleep(0.1)  # what is on its way
    before = server.calls(role)
    time.sleep(seconds)
    return server.calls(role) == before


def interrupted(judge: Judge, monkeypatch: pytest.MonkeyPatch, when: Any) -> None:
    """Let Ctrl-C arrive while a judge is waited for, once something is true."""
    import asyncio

    def wait(work: Any) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, judge._loop)
        deadline = time.monotonic() + 10
        while not when() and time.monotonic() < deadline:
            time.sleep(0.01)
        future.cancel()
        raise KeyboardInterrupt

    monkeypatch.setattr(judge, "_wait", wait)


def test_after_ctrl_c_no_call_is_made_any_more(server, make_judge, monkeypatch):
    first, then = questions(40)[:4], questions(40)[4:]
    server.script("judge", lambda asked: said("no", delay=5 if "Question 3?" in asked.text else 0.1))
    judge = make_judge(judge_concurrency=4)
    with monkeypatch.context() as patched:
        interrupted(judge, patched, lambda: server.calls() > 10)  # the first try of those ahead
        with pytest.raises(KeyboardInterrupt):
            judge.ask(first, "Judging", then)
    assert quiet_after(server)
    server.script("judge", "8 6")
    judge.begin_run()
    assert {o.value for o in judge.ask(questions(40), "Judging")} == {(8, 6)}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_when_the_model_breaks_off_the_judge_does_too(server, make_data, monkeypatch, error):
    from lm_eval_tasks.models import generation

    server.script("model", lambda asked: f"answer to {asked.text}")
    server.script("judge", said("no", delay=0.1))

    def broken(work):
        thread = threading.Thread(target=real, args=(work,), daemon=True)
        thread.start()
        while server.calls() < 4:
            time.sleep(0.01)
        raise error

    real = generation._run
    with monkeypatch.context() as patched:
        patched.setattr(generation, "_run", broken)
        with pytest.raises(error):
            evaluate(server, make_data(speech_QA=30), judge_cache=False, judge_concurrency=2, judge_check="warn")
    assert quiet_after(server)


def test_a_run_after_one_that_was_broken_off_has_all_of_its_caps(server, make_data, monkeypatch):
    from lm_eval_tasks.models import generation

    server.script("model", lambda asked: f"answer to {asked.text}")
    server.script("judge", said("8 6", delay=0.05))
    root, real = make_data(speech_QA=6), generation._run

    def broken(work):
        real(work)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(generation, "_run", broken)
        with pytest.raises(KeyboardInterrupt):
            evaluate(server, root, judge_max_calls=13, judge_concurrency=2, judge_cache=False)
    (judge,) = Judge._shared.values()
    before = server.calls()
    assert before > 1
    monkeypatch.setattr("test_judge_early.forget_judges", lambda: None)  # the same process, as in a notebook
    found = evaluate(server, root, judge_max_calls=13, judge_concurrency=2, judge_cache=False)
    assert list(Judge._shared.values()) == [judge]
    summary = found["configs"][f"{ALL}_speech_QA"]["metadata"]["judging"]
    assert summary["judged"] == 6 and summary["unjudged"] == {}
    assert server.calls() - before <= 13
    forget_judges()


# The same question early and late


@pytest.mark.parametrize("text", ["half of a pair \ud800 here", "the key sk-model-0123456789 here", "plain"])
@pytest.mark.parametrize("early", [True, False])
def test_an_answer_that_is_stored_otherwise_is_asked_about_once(runs, monkeypatch, text, early):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-model-0123456789")
    monkeypatch.setenv("JUDGE_API_KEY", "sk-judge-0123456789")
    runs.server.script("model", lambda asked: Answer(body=json.dumps(said(f"{question(asked)} {text}").body)))
    runs.server.script("judge", scores)
    command = runs.command("out", judge_early=early, judge_concurrency=4)
    if early:
        command[command.index("local-chat-completions")] = "audio-chat-completions"
    assert runs._start(command) == 0
    assert runs.server.calls() == 1 + 10 and counted(runs.folder / "out")["judged"] == 5
    assert not any("sk-model" in asked.text for asked in runs.server.asked["judge"])


def test_outcomes_of_what_failed_ahead_are_kept(server, make_judge):
    first, then = questions(8)[:4], questions(8)[4:]
    server.script("judge", lambda asked: said("8 6", delay=0.5) if "Question 3?" in asked.text else said("no"))
    judge = make_judge(judge_concurrency=2, judge_max_calls=12)
    outcomes = [*judge.ask(first, "Judging", then), *judge.ask(then, "Judging")]
    assert server.calls() == 12 == sum(o.attempts for o in outcomes)
    assert sum(isinstance(o, Unjudged) for o in outcomes) == 7
