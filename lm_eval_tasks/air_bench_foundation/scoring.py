"""AIR-Bench Foundation's tasks, what their records hold, and what an answer is worth. No I/O.

Sources: the paper (arXiv 2402.07729), the official ``score_foundation.py`` and its README.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lm_eval_tasks.air_bench_foundation.letters import LETTERS, official_letter, read_letter


class Task(NamedTuple):
    """A task: its category, its records in the official release, and what guessing reaches (paper, appendix A)."""

    category: str
    records: int
    chance: float = 0.25


TASKS = {
    "Speech_Grounding": Task("speech", 981),
    "Spoken_Language_Identification": Task("speech", 1000),
    "Speaker_Gender_Recognition": Task("speech", 1992, 0.5),
    "Speaker_Emotion_Recontion": Task("speech", 2000),
    "Speaker_Age_Prediction": Task("speech", 1000),
    "Speech_Entity_Reconition": Task("speech", 1000),
    "Speaker_Intent_Classification": Task("speech", 1000),
    "Speaker_Number_Verification": Task("speech", 1000),
    "Synthesized_Voice_Detection": Task("speech", 1000, 0.5),
    "Audio_Grounding": Task("sound", 896),
    "vocal_sound_classification": Task("sound", 1000),
    "Acoustic_Scene_Classification": Task("sound", 2000),
    "Sound_AQA": Task("sound", 2000),
    "Music_Instruments_Classfication": Task("music", 2000),
    "Music_Genre_Recognition": Task("music", 2000),
    "Music_Midi_Pitch_Analysis": Task("music", 1000),
    "Music_Midi_Velocity_Analysis": Task("music", 1000),
    "Music_AQA": Task("music", 814),
    "Music_Mood_Recognition": Task("music", 1000),
}
"""The tasks as the data spells them. Numbers of records: as a third party counted the metadata."""

CATEGORY = {name: task.category for name, task in TASKS.items()}
RECORDS = {name: task.records for name, task in TASKS.items()}


def choices_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Letter -> text of the choices that a record has; a missing or empty one is none."""
    found = {letter: record.get(f"choice_{letter.lower()}") for letter in LETTERS}
    return {letter: str(text) for letter, text in found.items() if text is not None and str(text).strip()}


def fault(record: Mapping[str, Any]) -> str | None:
    """What is wrong with a record: its answer is the text of a choice, compared as text, or the record is odd."""
    right = str(record["answer_gt"])
    return None if right in choices_of(record).values() else "answer_gt is the text of none of its choices"


def right_letter(record: Mapping[str, Any]) -> str:
    """The letter of the right choice; of equal choices the first, as in the official script."""
    return next(letter for letter, text in choices_of(record).items() if text == str(record["answer_gt"]))


def reading(doc: Mapping[str, Any], answer: str, missing: str | None = None) -> dict[str, Any]:
    """What is made of one answer, as JSON data that is logged with the sample.

    Args:
        doc: with its choices and the right answer.
        answer: the model's own words.
        missing: why there is no answer, which is never right and never wrong.

    Returns:
        ``judged`` (whether it counts), ``reason`` (why not), ``letter`` and ``official_letter`` (each None where the
        rule finds none), ``correct`` (no letter is wrong; None where it does not count) and ``official_correct`` (None
        where the official rule finds no letter: there such an answer leaves the denominator).
    """
    choices = choices_of(doc)
    letter, official = (None, None) if missing else (read_letter(answer, choices), official_letter(answer))
    return {
        "judged": not missing,
        "reason": missing,
        "letter": letter,
        "official_letter": official,
        "correct": None if missing else letter is not None and choices.get(letter) == str(doc["answer_gt"]),
        "official_correct": None if official is None else official == right_letter(doc),
    }


def metrics(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The metrics of one doc: means over its answers (one, unless the task repeats).

    Returns:
        ``acc``, where the doc was answered, and ``official_acc``, where the official rule finds a letter; 0 to 1.
    """
    found = {"acc": "correct", "official_acc": "official_correct"}
    values = {name: [float(r[key]) for r in records if r[key] is not None] for name, key in found.items()}
    return {name: sum(each) / len(each) for name, each in values.items() if each}


def summary(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """How the answers of a task were read, in numbers and dicts of numbers, which add up over ranks.

    Returns:
        ``docs`` (answers, where the task repeats), ``scored``, ``no_letter`` (wrong in ``acc``),
        ``official_no_letter`` (in neither part of ``official_acc``) and ``unanswered`` (reason -> answers,
        which are in no number).
    """
    records = list(records)
    scored = [record for record in records if record["judged"]]
    return {
        "docs": len(records),
        "scored": len(scored),
        "no_letter": sum(record["letter"] is None for record in scored),
        "official_no_letter": sum(record["official_letter"] is None for record in scored),
        "unanswered": dict(Counter(record["reason"] for record in records if not record["judged"])),
    }
