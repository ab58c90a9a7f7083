"""AIR-Bench-Chat's arithmetic. No I/O.

Source of the rules: the official ``cal_score.py`` and the paper (arXiv 2402.07729).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lm_eval_tasks.judge.question import Unjudged, Verdict, as_data

CATEGORY = {
    "speech_QA": "speech",
    "speech_dialogue_QA": "speech",
    "sound_QA": "sound",
    "sound_generation_QA": "sound",
    "music_QA": "music",
    "music_generation_analysis_QA": "music",
    "speech_and_sound_QA": "speech_and_sound",
    "speech_and_music_QA": "speech_and_music",
}
"""Each task's category."""

RECORDS = {
    "speech_QA": 400,
    "speech_dialogue_QA": 400,
    "sound_QA": 400,
    "sound_generation_QA": 100,
    "music_QA": 400,
    "music_generation_analysis_QA": 100,
    "speech_and_sound_QA": 200,
    "speech_and_music_QA": 200,
}
"""Records of each task in the official release."""

REFERENCE_FIRST, PREDICTION_FIRST = "reference_first", "prediction_first"


def check_tasks(names: Iterable[str]) -> None:
    """Raise a ValueError that lists the valid names if one is unknown."""
    for name in names:
        if name not in CATEGORY:
            raise ValueError(f"tasks: unknown task {name!r}. Valid names: {', '.join(CATEGORY)}.")


def orders(do_swap: bool) -> tuple[str, ...]:
    """The orders in which an answer is judged: both, or the reference first only."""
    return (REFERENCE_FIRST, PREDICTION_FIRST) if do_swap else (REFERENCE_FIRST,)


def sides(order: str) -> tuple[str, str]:
    """The roles of answer 1 and answer 2."""
    return ("reference", "prediction") if order == REFERENCE_FIRST else ("prediction", "reference")


def judgement(outcomes: dict[str, Verdict | Unjudged]) -> dict[str, Any]:
    """What is known of one answer, from one outcome for each order.

    A swapped pair is one thing: with one half missing the answer is unjudged.

    Returns:
        JSON data: ``judged``, ``reason`` (why not), ``prediction_score`` and ``reference_score`` (0 to 10, means over
        the orders), ``win`` (prediction strictly above reference), ``position_gap`` (the prediction's score when it
        stands first minus when it stands second; None without swap) and ``verdicts``, one dict for each order.
    """
    verdicts = [_as_data(order, outcome) for order, outcome in outcomes.items()]
    missing = [verdict["reason"] for verdict in verdicts if verdict["reason"]]
    record: dict[str, Any] = {"judged": not missing, "reason": missing[0] if missing else None}
    record |= {"prediction_score": None, "reference_score": None, "win": None, "position_gap": None}
    if not missing:
        prediction = _mean([verdict["prediction"] for verdict in verdicts])
        reference = _mean([verdict["reference"] for verdict in verdicts])
        record |= {"prediction_score": prediction, "reference_score": reference, "win": prediction > reference}
        if len(verdicts) == 2:
            at = {verdict["order"]: verdict["prediction"] for verdict in verdicts}
            record["position_gap"] = at[PREDICTION_FIRST] - at[REFERENCE_FIRST]
    return record | {"verdicts": verdicts}


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
        "gpt_score": _mean([record["prediction_score"] for record in judged]),
        "win_rate": _mean([float(record["win"]) for record in judged]),
        "reference_score": _mean([record["reference_score"] for record in judged]),
    }
    gaps = [record["position_gap"] for record in judged]
    return values if None in gaps else values | {"position_gap": _mean(gaps)}


def _as_data(order: str, outcome: Verdict | Unjudged) -> dict[str, Any]:
    values = outcome.value if isinstance(outcome, Verdict) else (None, None)
    return {
        "order": order,
        **dict(zip(sides(order), values, strict=True)),
        **as_data(outcome),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
