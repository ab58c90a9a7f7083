"""Judging while the model is still answering, and answers that could not be had: whole runs, then the judge itself."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import servers
from airbench_runs import metadata
from conftest import QUESTION, forget_judges, questions
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from servers import refused, said

import lm_eval_tasks.models  # noqa: F401 - registers the model
from lm_eval_tasks import INCLUDE_PATH

TASK = "air_bench_chat_speech_QA"
NO_ANSWER = "no answer: request refused (HTTP 400)"


def evaluate(server: servers.Server, root: Any, cache: Any = None, **settings: Any) -> dict[str, Any]:
    forget_judges()
    manager = TaskManager(
        include_path=str(INCLUDE_PATH), include_defaults=False, metadata=metadata(server, root, **settings)
    )
    model = {"model": "m", "base_url": f"{server.url('model')}/chat/completions", "num_concurrent": 2, "max_retries": 1}
    return simple_evaluate(
        "audio-chat-completions",
        model,
        tasks=[TASK],
        task_manager=manager,
        apply_chat_template=True,
        use_cache=str(cache) if cache else None,
    )


def echo(asked: servers.Asked) -> str:
    return f"answer to {asked.text}"


def judgements(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The records without the judge's address, which differs with nothing here but is part of a question's key."""
    return [json.loads(sample["filtered_resps"][0]) for sample in results["samples"][TASK]]


def test_judging_begins_while_the_model_is_still_answering(server, make_data):
    server.script("model", lambda asked: said(echo(asked), delay=0.1))
    server.script("judge", "8 6")
    results = evaluate(server, make_data(speech_QA=6), judge_cache=False)
    _trial, first, *_ = server.asked["judge"]
    assert first.at < server.asked["model"][-1].at
    assert results["results"][TASK]["sample_len"] == 6 and server.calls() == 1 + 12


@pytest.mark.parametrize("stored", [True, False])
def test_early_or_late_the_numbers_and_the_records_are_the_same(server, make_data, tmp_path, stored):
    server.script("model", echo)
    replies = {"1?": "7 5", "2?": "no verdict"}
    server.script("judge", lambda asked: next((text for mark, text in replies.items() if mark in asked.text), "8 6"))
    root = make_data(speech_QA=6)
    caches = {early: stored and str(tmp_path / f"{early}.sqlite") for early in (True, False)}
    early, late = (evaluate(server, root, judge_cache=cache, judge_early=early) for early, cache in caches.items())
    assert judgements(early) == judgements(late)
    assert early["results"][TASK] == late["results"][TASK]
    judging = [run["configs"][TASK]["metadata"]["judging"] for run in (early, late)]
    assert judging[0] == judging[1] and judging[0]["calls"] == 5 * 2 + 2 * 3


@pytest.mark.parametrize("early", [True, False])
def test_a_clip_without_an_answer_is_unjudged_with_the_reason_and_asked_for_again(server, make_data, tmp_path, early):
    server.script("model", lambda asked: refused(400, "bad clip") if "question 1" in asked.text else echo(asked))
    server.script("judge", "8 6")
    root = make_data(speech_QA=3)
    results = evaluate(server, root, tmp_path / "answers", judge_early=early)
    record = judgements(results)[1]
    assert (record["judged"], record["reason"], record["flags"]) == (False, NO_ANSWER, [])
    summary = results["configs"][TASK]["metadata"]["judging"]
    assert (summary["unjudged"], summary["flags"], summary["calls"]) == ({NO_ANSWER: 1}, {}, 4)
    assert results["results"][TASK]["sample_len"] == 2
    server.script("model", echo)
    server.forget()
    again = evaluate(server, root, tmp_path / "answers", judge_early=early)
    assert server.calls("model") == 1 and again["results"][TASK]["sample_len"] == 3


def test_a_clip_without_an_answer_stays_so_however_often_the_run_is_judged_again(server, make_data, tmp_path):
    from lm_eval_tasks import cli

    server.script("model", lambda asked: refused(400, "bad clip") if "question 1" in asked.text else echo(asked))
    server.script("judge", "8 6")
    asked = metadata(server, make_data(speech_QA=3))
    model = f"model=m,base_url={server.url('model')}/chat/completions,num_concurrent=2,max_retries=1"
    run = ["run", "--model", "audio-chat-completions", "--model_args", model, "--apply_chat_template", "--tasks", TASK]
    out = tmp_path / "out"
    forget_judges()
    assert cli.main([*run, "--metadata", json.dumps(asked), "--output_path", str(out), "--predict_only"]) == 0
    for again in ("out-rejudged-judge-1", "out-rejudged-judge-1-2"):
        forget_judges()
        assert cli.main(["rejudge", str(out), "--trust"]) == 3
        out = tmp_path / again
        [samples] = out.rglob("samples_*.jsonl")
        records = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
        assert [json.loads(one["filtered_resps"][0])["reason"] for one in records] == [None, NO_ANSWER, None]


# The judge itself


def test_a_submitted_question_is_put_once_and_counts_as_asked(server, make_judge):
    server.script("judge", refused(401, "no"), then="8 6")
    judge = make_judge()
    assert judge.early.submit(QUESTION).result(5).reason == "judge unavailable" and judge.stopped
    assert judge.ask([QUESTION], "Judging")[0].value == (8, 6)  # what was early is forgotten
    server.forget()
    judge = make_judge()
    assert judge.early.submit(QUESTION).result(5).value == (8, 6)
    (outcome,) = judge.ask([QUESTION], "Judging")
    assert outcome.value == (8, 6) and not outcome.cached and server.calls() == 1


def test_a_submitted_question_that_was_stored_before_or_is_asked_again_counts_as_stored(server, make_judge, tmp_path):
    server.script("judge", "8 6")
    stored = str(tmp_path / "c.sqlite")
    judge = make_judge(judge_cache=stored)
    judge.early.submit(QUESTION).result(5)
    assert [outcome.cached for outcome in judge.ask([QUESTION, QUESTION], "Judging")] == [False, True]
    later = make_judge(judge_cache=stored)
    assert later.early.submit(QUESTION).result(5).cached
    assert later.ask([QUESTION], "Judging")[0].cached and server.calls() == 1


def test_what_was_submitted_before_the_cache_was_full_is_not_asked_again(server, make_judge, tmp_path):
    server.script("judge", lambda _: said("8 6" + " " * 3000))
    judge = make_judge(judge_cache=str(tmp_path / "c.sqlite"))
    for number, question in enumerate(questions(20)):
        if number == 10:
            (pages,) = judge.cache._db.execute("PRAGMA page_count").fetchone()
            judge.cache._db.execute(f"PRAGMA max_page_count={pages}").fetchone()
        judge.early.submit(question).result(5)
    outcomes = judge.ask(questions(20), "Judging")
    assert [outcome.cached for outcome in outcomes] == [False] * 20 and server.calls() == 20


def test_a_submitted_verdict_that_the_cache_has_lost_is_asked_for_again(server, make_judge, tmp_path):
    server.script("judge", "8 6")
    judge = make_judge(judge_cache=str(tmp_path / "c.sqlite"))
    judge.early.submit(QUESTION).result(5)
    judge.cache.close()
    (outcome,) = judge.ask([QUESTION], "Judging")
    assert outcome.value == (8, 6) and not outcome.cached and server.calls() == 2


def test_what_was_submitted_in_a_run_that_was_broken_off_counts_no_more(server, make_judge):
    server.script("judge", *["no verdict"] * 3, "8 6")
    judge = make_judge(judge_cache=False)
    judge.begin_run()
    assert judge.early.submit(QUESTION).result(5).reason
    judge.begin_run()
    assert judge.ask([QUESTION], "Judging")[0].value == (8, 6)


def test_no_more_questions_wait_than_keep_the_judge_busy(server, make_judge):
    server.script("judge", said("8 6", delay=0.05))
    judge = make_judge(judge_concurrency=2)
    early = [judge.early.submit(question) for question in questions(30)]
    assert 8 <= sum(future is not None for future in early) < 30
    outcomes = judge.ask(questions(30), "Judging")
    assert [outcome.value for outcome in outcomes] == [(8, 6)] * 30 and server.calls() == 30


def test_the_next_tasks_questions_are_put_while_one_reply_keeps_all_waiting(server, make_judge):
    first, then = questions(12)[:4], questions(12)[4:]
    server.script("judge", lambda asked: said("8 6", delay=0.6) if "Question 3?" in asked.text else said("7 7"))
    judge = make_judge(judge_concurrency=2)
    assert [outcome.value for outcome in judge.ask(first, "Judging", then)] == [(7, 7)] * 3 + [(8, 6)]
    assert server.calls() == 12
    assert [outcome.cached for outcome in judge.ask(then, "Judging")] == [False] * 8 and server.calls() == 12


def test_what_fails_ahead_of_its_turn_is_not_asked_again_and_nothing_is_asked_after_the_end(server, make_judge):
    first, then = questions(12)[:2], questions(12)[2:]
    server.script("judge", lambda asked: said("8 6" if "Question 1?" in asked.text else "no", delay=0.1))
    judge = make_judge(judge_concurrency=2, judge_cache=False)
    judge.ask(first, "Judging", then)
    before = server.calls()
    time.sleep(0.3)
    assert server.calls() - before <= 3 and before < 12  # the question under way is put to its end
    assert {outcome.reason is None for outcome in judge.ask(then, "Judging")} == {False}
    assert server.calls() == 3 + 1 + 3 * 10


def test_the_bar_of_the_model_shows_how_far_the_judge_has_come(server, make_data, capsys, monkeypatch):
    shown = []
    monkeypatch.setattr("tqdm.std.tqdm.set_postfix_str", lambda bar, text="", refresh=True: shown.append(text))
    server.script("model", lambda asked: said(echo(asked), delay=0.1))
    server.script("judge", "8 6")
    evaluate(server, make_data(speech_QA=6), judge_cache=False)
    found = [int(text.removeprefix("verdicts ").removesuffix("/12")) for text in shown if text]
    assert len(found) >= 6 and found == sorted(found) and 1 <= found[-1] <= 12


def test_what_judging_will_cost_is_told_before_the_model_is_asked(server, make_data, caplog):
    calls = []
    caplog.set_level("INFO", logger="lm_eval")
    server.script("model", lambda asked: calls.append(len(told())) or said(echo(asked)))
    server.script("judge", "8 6")

    def told():
        return [r.getMessage() for r in caplog.records if "Expected before" in r.getMessage()]

    root = make_data(speech_QA=6)
    evaluate(server, root, judge_price=[1, 2], judge_repeats=2)
    assert calls == [1] * 6
    assert "answers as long as the references" in told()[0] and "24 calls to the judge" in told()[0]
    evaluate(server, root, judge_price=[1, 2], judge_repeats=2)
    assert len(told()) == 1  # all is known
