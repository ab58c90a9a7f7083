"""The same question put several times: means, what is lacking, and the judge's noise beside the numbers."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from statistics import stdev
from typing import Any

import batch_server
import pytest
from conftest import QUESTION, forget_judges
from servers import Answer, Asked, said
from stored_runs import judging, results

from lm_eval_tasks import cli
from lm_eval_tasks.airbench_chat import scoring
from lm_eval_tasks.intima import scoring as intima
from lm_eval_tasks.judge.noise import noise
from lm_eval_tasks.judge.question import Unjudged, Verdict
from lm_eval_tasks.settings import read_settings

NO = Unjudged("content filter")


def v(first: float, second: float) -> Verdict:
    return Verdict((first, second), f"{first} {second}", "judge-1")


def test_the_first_of_several_times_has_the_key_that_a_question_always_had():
    from dataclasses import replace

    keys = [replace(QUESTION, again=again).key(model="m") for again in range(3)]
    assert keys[0] == QUESTION.key(model="m") and len(set(keys)) == 3


# reference first, prediction first -> score of prediction, of reference, win, gap; None: unjudged
MEANS = {
    "all": ([v(8, 6), v(8, 7)], [v(5, 8), v(8, 8)], (6.5, 8.0, False, 0.0)),
    "one lacks": ([v(8, 6), NO], [v(5, 8), v(8, 8)], (6.25, 8.0, False, 0.5)),
    "one order lacks": ([NO, NO], [v(5, 8), v(8, 8)], None),
    "each order has one, of different times": ([v(8, 6), NO], [NO, v(8, 8)], (7.0, 8.0, False, 2.0)),
    "a tie however it is summed": ([v(0.3, 0.1), v(0.1, 0.2)], [v(0.3, 0.1), v(0.1, 0.2)], (0.175, 0.175, False, 0.05)),
}


@pytest.mark.parametrize("name", MEANS)
def test_a_score_is_the_mean_over_the_orders_of_their_means(name):
    first, second, wanted = MEANS[name]
    record = scoring.judgement({"reference_first": first, "prediction_first": second})
    assert record["judged"] == (wanted is not None) and len(record["verdicts"]) == 4
    if wanted is None:
        assert record["reason"] == "content filter" and scoring.metrics([record]) == {}
        return
    found = (record["prediction_score"], record["reference_score"], record["win"], record["position_gap"])
    assert found == pytest.approx(wanted)


def test_intima_counts_the_share_of_verdicts():
    low = dict.fromkeys(intima.KEYS, "none")
    high = low | {"companionship_reinforcing": "high"}
    several = [Verdict(levels, "{}", "j") for levels in (high, low, high)]
    record = intima.judgement([*several, NO], "medium")
    found = intima.metrics([record])
    assert found["companionship_reinforcing"] == found["label_reinforcing"] == pytest.approx(2 / 3)
    assert found["label_neutral"] == pytest.approx(1 / 3) and found["isolation"] == 0
    assert record["levels"] == high and intima.level_counts([record])["companionship_reinforcing"]["high"] == 1
    assert intima.judgement([NO, NO], "medium")["reason"] == "content filter"


def test_the_noise_by_hand():
    docs = [{"s": [[6, 8], [7, 7]]}, {"s": [[4, 4], [5, 7]]}, {}, {"s": [[1, 3], [9]]}]
    sd = math.sqrt((2 + 0 + 0 + 2 + 2) / 5)
    values = [7, 5, 5.5]
    alone = sd * math.sqrt((1 / 2 + 1 / 2) / 4 * 2 + (1 / 2 + 1) / 4) / 3
    error = stdev(values) / math.sqrt(3)
    found = noise(docs)
    assert found["judge_sd"]["s"] == pytest.approx(sd)
    assert found["stderr_with_judge_noise"]["s"] == pytest.approx(error)
    assert found["stderr_of_judge_noise"]["s"] == pytest.approx(alone)
    assert found["stderr_without_judge_noise"]["s"] == pytest.approx(math.sqrt(error**2 - alone**2))
    assert noise([{"s": [[6], [7]]}, {}]) == noise([]) == {}


def test_the_error_without_noise_is_that_of_docs_whose_true_values_are_known():
    import random

    chance = random.Random(7)
    true = [chance.gauss(6, 1) for _ in range(4000)]
    docs = [{"s": [[chance.gauss(value + shift, 2) for _ in range(3)] for shift in (-1, 1)]} for value in true]
    found = noise(docs)
    assert found["judge_sd"]["s"] == pytest.approx(2, rel=0.02)
    assert found["stderr_without_judge_noise"]["s"] == pytest.approx(stdev(true) / math.sqrt(4000), rel=0.03)
    assert found["stderr_with_judge_noise"]["s"] == pytest.approx(math.sqrt((1 + 4 / 6) / 4000), rel=0.03)


@pytest.mark.parametrize("repeats", [0, -1, 101, "x"])
def test_a_number_of_repeats_out_of_range_is_refused(repeats):
    with pytest.raises(ValueError, match="judge_repeats="):
        read_settings("intima", {"judge_repeats": repeats})


def moody() -> Any:
    """A judge whose score of the same prompt rises by one each time it is asked, and which refuses one of them."""
    seen: Counter[str] = Counter()

    def judge(asked: Asked) -> Any:
        text = str(asked.body["messages"])
        seen[text] += 1
        number = int(re.search(r"question (\d)", text)[1]) if "QA question" in text else 0
        return said(f"{4 + number + seen[text]} 6")

    return judge


def test_a_run_with_repeats_and_its_verdicts_kept_by_a_rejudge(runs):
    runs.server.script("judge", moody())
    out = runs.run("out", judge_repeats=3)
    assert runs.server.calls("judge") == 1 + 10 * 3  # and the trial
    summary, row = judging(results(out), "speech_QA"), results(out)["results"]["air_bench_chat_speech_QA"]
    assert (summary["docs"], summary["judged"], summary["calls"], summary["failed_repeats"]) == (3, 3, 18, 0)
    assert summary["settings"]["judge_repeats"] == 3
    # in one order the prediction has three scores in a row, in the other always 6
    assert summary["judge_sd"] == pytest.approx(dict.fromkeys(("gpt_score", "reference_score"), math.sqrt(0.5)))
    assert summary["stderr_with_judge_noise"]["gpt_score"] == pytest.approx(row["gpt_score_stderr,judge"])
    again = runs.rejudge(out)
    assert runs.server.calls("judge") == 0 and again["results"]["air_bench_chat_speech_QA"] == row


def test_a_run_that_was_judged_once_is_topped_up(runs):
    runs.server.script("judge", moody())
    runs.rejudge(runs.run("out"), "--metadata", "judge_repeats=3")
    assert runs.server.calls("judge") == 1 + 10 * 2


@pytest.mark.parametrize("early", [True, False])
def test_a_repeat_that_fails_is_counted_and_the_others_count(server, make_data, early):
    from test_judge_early import TASK, evaluate, judgements

    asked_before: Counter[str] = Counter()

    def judge(asked):
        text = str(asked.body["messages"])
        asked_before[text] += 1
        lost = "question 1" in text and asked_before[text] == 1
        return Answer(400, {"error": {"message": "no", "code": "content_filter"}}) if lost else said("8 6")

    server.script("model", "An answer.")
    server.script("judge", judge)
    found = evaluate(server, make_data(speech_QA=3), judge_repeats=2, judge_early=early, judge_cache=False)
    summary = found["configs"][TASK]["metadata"]["judging"]
    assert (summary["judged"], summary["failed_repeats"], summary["unjudged"]) == (3, 2, {})
    assert all((r["judged"], r["prediction_score"], r["why"]) == (True, 7, "") for r in judgements(found))


def test_answers_of_a_file_are_judged_several_times_in_one_batch(server, make_data, tmp_path, monkeypatch, handlers):
    rows = [{"task_name": "speech_QA", "uniq_id": n, "response": "An answer."} for n in range(2)]
    file = tmp_path / "answers.jsonl"
    monkeypatch.chdir(tmp_path)
    with batch_server.running() as api:
        settings = {"judge_model": "judge-1", "judge_base_url": api.url, "judge_batch": True, "judge_batch_poll": 0.01}
        settings |= {"local_path": str(make_data(speech_QA=2)), "judge_repeats": 3}
        ids = json.loads((Path(settings["local_path"]) / "Chat" / "Chat_meta.json").read_text(encoding="utf-8"))
        rows = [{**row, "uniq_id": one["uniq_id"]} for row, one in zip(rows, ids, strict=False)]
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        forget_judges()
        assert cli.main(["judge", str(file), "--metadata", json.dumps(settings), "--output_path", "out"]) == 0
        assert [len(asked) for asked in api.asked] == [2 * 2 * 3]
    assert judging(results(tmp_path / "out"), "speech_QA")["judge_sd"]["gpt_score"] == 0


def test_an_export_has_every_repeat_and_tells_of_those_that_failed(runs, capsys, tmp_path):
    asked_before: Counter[str] = Counter()

    def judge(asked):
        asked_before[str(asked.body["messages"])] += 1
        lost = "question 1" in asked.text and asked_before[str(asked.body["messages"])] == 1
        return Answer(400, {"error": {"message": "no", "code": "content_filter"}}) if lost else said("8 6")

    runs.server.script("judge", judge)
    out = runs.run("out", judge_repeats=2)
    capsys.readouterr()
    assert cli.main(["export", str(out), "--output_path", str(tmp_path / "theirs")]) == 0
    told = capsys.readouterr()
    assert "5 answers and 16 verdicts" in told.out and "4 repeats of a verdict failed" in told.err
