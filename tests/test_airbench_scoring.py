"""AIR-Bench-Chat's arithmetic, worked by hand."""

from __future__ import annotations

import pytest

from lm_eval_tasks.airbench_chat.data import CHAT
from lm_eval_tasks.airbench_chat.scoring import CATEGORY, RECORDS, judgement, metrics, orders
from lm_eval_tasks.judge.question import Unjudged, Verdict


def verdicts(first, second=None):
    """Outcomes from what the judge said in each order: (answer 1, answer 2)."""
    said = {"reference_first": first, "prediction_first": second}
    return {
        order: [pair if isinstance(pair, Unjudged) else Verdict(pair, f"{pair[0]} {pair[1]}", "judge-1")]
        for order, pair in said.items()
        if pair is not None
    }


def test_the_release_has_2200_records_in_eight_tasks_of_five_categories():
    assert sum(RECORDS.values()) == 2200 and RECORDS.keys() == CATEGORY.keys() and len(set(CATEGORY.values())) == 5


def test_a_judge_that_always_says_8_6_gives_seven_to_both_and_a_gap_of_two():
    record = judgement(verdicts((8, 6), (8, 6)))
    assert (record["prediction_score"], record["reference_score"]) == (7, 7)
    assert (record["win"], record["position_gap"]) == (False, 2)
    assert [(v["prediction"], v["reference"]) for v in record["verdicts"]] == [(6, 8), (8, 6)]
    assert metrics([record]) == {"gpt_score": 7, "win_rate": 0, "reference_score": 7, "position_gap": 2}


@pytest.mark.parametrize(
    ("first", "second", "prediction", "reference", "win", "gap"),
    [
        ((5, 9), (9, 5), 9, 5, True, 0),
        ((9, 5), (5, 9), 5, 9, False, 0),
        ((7, 8), (6, 7), 7, 7, False, -2),
        ((7, 8), (7, 7), 7.5, 7, True, -1),
        ((1, 10), (1, 10), 5.5, 5.5, False, -9),
        ((0, 0), (0, 1), 0, 0.5, False, 0),
        ((1, 7.3), (2.2, 1), 4.75, 1, True, -5.1),  # not rounded
    ],
)
def test_scores_are_means_over_both_orders_and_a_tie_is_no_win(first, second, prediction, reference, win, gap):
    record = judgement(verdicts(first, second))
    found = record["prediction_score"], record["reference_score"], record["position_gap"]
    assert found == pytest.approx((prediction, reference, gap)) and record["win"] is win


def test_without_swap_one_verdict_counts_and_there_is_no_gap():
    assert orders(True) == ("reference_first", "prediction_first") and orders(False) == ("reference_first",)
    record = judgement(verdicts((8, 6)))
    assert (record["prediction_score"], record["reference_score"], record["position_gap"]) == (6, 8, None)
    assert metrics([record]) == {"gpt_score": 6, "win_rate": 0, "reference_score": 8}


@pytest.mark.parametrize("missing", ["first", "second", "both"])
def test_half_a_pair_is_no_judgement(missing):
    gone = Unjudged("content filter", "no", "judge-1", 5, 6, 1)
    record = judgement(verdicts(gone if missing != "second" else (8, 6), gone if missing != "first" else (8, 6)))
    assert (record["judged"], record["reason"]) == (False, "content filter")
    assert record["prediction_score"] is record["reference_score"] is record["win"] is record["position_gap"] is None
    assert metrics([record]) == {}
    failed = [verdict for verdict in record["verdicts"] if verdict["reason"]]
    assert all(v["prediction"] is None and v["reference"] is None and v["reply"] == "no" for v in failed)
    assert len(record["verdicts"]) == 2


def test_repeats_of_a_doc_are_averaged_over_the_judged_ones():
    gone = judgement(verdicts(Unjudged("x"), (8, 6)))
    records = [judgement(verdicts((8, 6), (8, 6))), gone, judgement(verdicts((4, 10), (9, 5)))]
    assert metrics(records) == {"gpt_score": 8.25, "win_rate": 0.5, "reference_score": 5.75, "position_gap": 0.5}
    assert metrics([gone]) == metrics([]) == {}


def test_an_unknown_task_is_named_with_the_valid_ones():
    CHAT.check_tasks(CATEGORY)
    with pytest.raises(ValueError, match=r"'speech_qa'.*speech_QA"):
        CHAT.check_tasks(["music_QA", "speech_qa"])
