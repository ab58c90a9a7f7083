"""AIR-Bench-Chat's arithmetic. No I/O.

Source of the rules: the official ``cal_score.py`` and the paper (arXiv 2402.07729).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from lm_eval_tasks.judge.question import Unjudged, Verdict, as_data

_TASKS = {
    "speech_QA": ("speech", 400),
    "speech_dialogue_QA": ("speech", 400),
    "sound_QA": ("sound", 400),
    "sound_generation_QA": ("sound", 100),
    "music_QA": ("music", 400),
    "music_generation_analysis_QA": ("music", 100),
    "speech_and_sound_QA": ("speech_and_sound", 200),
    "speech_and_music_QA": ("speech_and_music", 200),
}
"""Each task's category, and its records in the official release."""

CATEGORY = {name: category for name, (category, _) in _TASKS.items()}
RECORDS = {name: records for name, (_, records) in _TASKS.items()}

REFERENCE_FIRST, PREDICTION_FIRST = "reference_first", "prediction_first"
SIDES = ("prediction", "reference")
_TIE = 1e-9
"""Means of the same scores in another order differ by less."""


def orders(do_swap: bool) -> tuple[str, ...]:
    """The orders in which an answer is judged: both, or the reference first only."""
    return (REFERENCE_FIRST, PREDICTION_FIRST) if do_swap else (REFERENCE_FIRST,)


def sides(order: str) -> tuple[str, str]:
    """The roles of answer 1 and answer 2."""
    return ("reference", "prediction") if order == REFERENCE_FIRST else ("prediction", "reference")


def judgement(outcomes: Mapping[str, Sequence[Verdict | Unjudged]]) -> dict[str, Any]:
    """What is known of one answer.

    A swapped pair is one thing: with one half missing the answer is unjudged. Where each order is asked several times,
    an order's score is the mean over its verdicts, and it is missing where there is none.

    Args:
        outcomes: order -> an outcome for each time that it was asked.

    Returns:
        JSON data: ``judged``, ``reason`` (why not), ``prediction_score`` and ``reference_score`` (0 to 10, means over
        the orders), ``win`` (prediction strictly above reference), ``position_gap`` (the prediction's score when it
        stands first minus when it stands second; None without swap) and ``verdicts``, one dict for each outcome.
    """
    verdicts = [_as_data(order, outcome) for order, several in outcomes.items() for outcome in several]
    usable = {order: [v for v in verdicts if v["order"] == order and not v["reason"]] for order in outcomes}
    empty = [order for order, found in usable.items() if not found]
    reason = next((v["reason"] for v in verdicts if v["order"] in empty), None)
    record: dict[str, Any] = {"judged": not empty, "reason": reason}
    record |= {"prediction_score": None, "reference_score": None, "win": None, "position_gap": None}
    if not empty:
        at = {side: {order: fmean(v[side] for v in found) for order, found in usable.items()} for side in SIDES}
        prediction, reference = (fmean(at[side].values()) for side in SIDES)
        record |= {"prediction_score": prediction, "reference_score": reference, "win": prediction - reference > _TIE}
        if len(usable) == 2:
            record["position_gap"] = at["prediction"][PREDICTION_FIRST] - at["prediction"][REFERENCE_FIRST]
    return record | {"verdicts": verdicts}


def verdict_values(record: Mapping[str, Any]) -> dict[str, list[list[float]]]:
    """The scores of a judged answer one by one: metric -> for each order the scores of its usable verdicts."""
    usable = [verdict for verdict in record["verdicts"] if not verdict["reason"]]
    orders = dict.fromkeys(verdict["order"] for verdict in usable)
    names = {"gpt_score": "prediction", "reference_score": "reference"}
    return {
        name: [[one[side] for one in usable if one["order"] == order] for order in orders]
        for name, side in names.items()
    }


def metrics(records: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The metrics of one doc: means over its judged answers (one, unless the task repeats).

    Returns:
        ``gpt_score`` and ``reference_score`` (0 to 10), ``win_rate`` (0 to 1) and, with swap, ``position_gap`` (-10 to
        10); empty where no answer was judged, so that the doc is in no numerator and no denominator.
    """
    judged = [record for record in records if record["judged"]]
    if not judged:
        return {}
    values = {
        "gpt_score": fmean(record["prediction_score"] for record in judged),
        "win_rate": fmean(record["win"] for record in judged),
        "reference_score": fmean(record["reference_score"] for record in judged),
    }
    gaps = [record["position_gap"] for record in judged]
    return values if None in gaps else values | {"position_gap": fmean(gaps)}


def _as_data(order: str, outcome: Verdict | Unjudged) -> dict[str, Any]:
    values = outcome.value if isinstance(outcome, Verdict) else (None, None)
    return {"order": order, **dict(zip(sides(order), values, strict=True)), **as_data(outcome)}
