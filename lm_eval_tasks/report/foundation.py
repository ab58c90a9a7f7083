"""What the report shows of AIR-Bench Foundation: its tasks beside chance and the published rows."""

from __future__ import annotations

from collections.abc import Iterable

from lm_eval_tasks.air_bench_foundation.scoring import TASKS
from lm_eval_tasks.report import facts
from lm_eval_tasks.report.records import Run, mapping, number
from lm_eval_tasks.report.table import DASH, Cell, Row, Table, count_cell, rate_cell
from lm_eval_tasks.report.texts import t

MODELS = ("Qwen-Audio-Turbo", "Qwen-Audio", "PandaGPT", "SALMONN", "Next-GPT", "BLSP", "SpeechGPT", "Whisper+GPT-4")
PUBLISHED = {
    "Speech_Grounding": (45.4, 56.1, 23.0, 25.3, 25.4, 25.0, 28.8, 35.0),
    "Spoken_Language_Identification": (95.9, 92.8, 34.6, 28.1, 23.7, 30.8, 39.6, 96.8),
    "Speaker_Gender_Recognition": (82.5, 67.2, 66.5, 35.5, 57.0, 33.2, 29.2, 21.9),
    "Speaker_Emotion_Recontion": (60.0, 43.2, 26.0, 29.9, 25.7, 27.4, 37.6, 59.5),
    "Speaker_Age_Prediction": (58.8, 36.0, 42.5, 48.7, 62.4, 51.2, 20.4, 41.1),
    "Speech_Entity_Reconition": (48.1, 71.2, 34.0, 51.7, 26.1, 37.2, 35.9, 69.8),
    "Speaker_Intent_Classification": (56.4, 77.8, 28.5, 36.7, 25.6, 46.6, 45.8, 87.7),
    "Speaker_Number_Verification": (54.3, 35.3, 43.2, 34.3, 25.4, 28.1, 32.6, 30.0),
    "Synthesized_Voice_Detection": (69.3, 48.3, 53.1, 50.0, 30.8, 50.0, 39.2, 40.5),
    "Audio_Grounding": (41.6, 23.9, 38.3, 24.0, 62.2, 34.6, 26.1),
    "vocal_sound_classification": (78.1, 84.9, 31.6, 45.3, 23.5, 29.8, 26.2),
    "Acoustic_Scene_Classification": (61.3, 67.5, 55.7, 34.1, 24.1, 25.2, 23.7),
    "Sound_AQA": (62.8, 64.6, 48.7, 28.4, 18.8, 36.1, 33.9),
    "Music_Instruments_Classfication": (59.6, 59.1, 47.7, 41.3, 24.3, 22.8, 29.1),
    "Music_Genre_Recognition": (77.1, 71.2, 39.8, 45.3, 28.1, 26.1, 29.3),
    "Music_Midi_Pitch_Analysis": (30.1, 28.6, 26.4, 26.4, 25.1, 23.5, 24.1),
    "Music_Midi_Velocity_Analysis": (25.1, 25.4, 27.2, 22.8, 23.1, 24.9, 25.2),
    "Music_AQA": (62.5, 48.2, 50.7, 54.6, 47.1, 31.0, 31.3),
    "Music_Mood_Recognition": (39.0, 36.1, 36.7, 32.2, 25.4, 28.3, 29.7),
}
"""Task -> percent of each model, as the official repository's README prints it (the last has no sound and music)."""

PUBLISHED_AVERAGE = (57.8, 54.5, 40.2, 36.0, 31.5, 31.4, 30.0)


def tables(runs: Iterable[Run]) -> list[Table]:
    """Returns a table for each run that holds anything of the track, with the published rows as columns."""
    return [table(run) for run in runs if run.has(facts.FOUNDATION)]


def table(run: Run) -> Table:
    """Returns a run's groups and tasks: both metrics, chance, what was scored and what was not, and published rows."""
    rows = [
        Row(t(title), (*_metrics(run, group), *[Cell(DASH)] * 4, *_published_average(title)), "", None, "group")
        for title, group in facts.FOUNDATION_GROUPS.items()
        if group in run.results
    ]
    for name, task in TASKS.items():
        full = f"{facts.FOUNDATION}_{name}"
        if full not in run.results:
            continue
        summary = run.scoring.get(full, {})
        counts = [count_cell(number(summary.get(key))) for key in ("scored", "no_letter")]
        reasons = mapping(summary.get("unanswered")).values()
        unanswered = count_cell(sum(number(count) or 0 for count in reasons) if summary else None)
        chance = Cell(f"{100 * task.chance:.0f}", value=100 * task.chance)
        published = _published(PUBLISHED[name])
        rows.append(Row(name, (*_metrics(run, full), chance, *counts, unanswered, *published), "", None, "task"))
    notes = (
        t(
            "acc: an answer without a letter counts as wrong. official_acc: the official rule, which leaves such an "
            "answer out; the published values follow it. A doc that the model did not answer is in neither. A "
            "category is the mean of its tasks, the average that of the three categories; where two data sets make "
            "one task, their questions are pooled."
        ),
        t("Published: the official repository's README, in percent, printed there without standard errors."),
    )
    head = ("Category or task", "acc, %", "official_acc, %", "Chance, %", "Scored", "No letter", "Unanswered")
    return Table(
        "foundation", t("Accuracy by category and task"), (*map(t, head), *MODELS), tuple(rows), notes, run.label
    )


def _metrics(run: Run, name: str) -> tuple[Cell, Cell]:
    return rate_cell(run.estimate(name, "acc")), rate_cell(run.estimate(name, "official_acc"))


def _published_average(title: str) -> list[Cell]:
    return _published(PUBLISHED_AVERAGE if title == "Average" else ())


def _published(values: tuple[float, ...]) -> list[Cell]:
    """Returns the cells of the published models; the last of them have no value where `values` ends before."""
    missing = [Cell(DASH, reason=t("not published"))] * (len(MODELS) - len(values))
    return [*(Cell(f"{value:.1f}", value=value) for value in values), *missing]
