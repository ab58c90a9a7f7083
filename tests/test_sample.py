"""The bundled sample: AIR-Bench's own layout, and clips that hold what their descriptions say."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

import lm_eval_tasks
from lm_eval_tasks.demo import hearing

CHAT = Path(lm_eval_tasks.__file__).parent / "airbench_chat" / "sample" / "Chat"
RECORDS = json.loads((CHAT / "Chat_meta.json").read_text(encoding="utf-8"))
FOLDERS = {
    "speech_QA_common_voice_en",
    "speech_QA_iemocap",
    "speech_dialogue_QA_fisher",
    "speech_dialogue_QA_spokenwoz",
    "sound_QA_clotho",
    "sound_generation_QA_clotho",
    "music_QA_musiccaps",
    "music_generation_analysis_QA_musiccaps",
    "speech_and_sound_QA_audiocaps_cv",
    "speech_and_music_QA_musiccaps_cv",
}


def file_of(record):
    return CHAT / f"{record['task_name']}_{record['dataset_name']}" / record["path"]


def record_of(name):
    return next(record for record in RECORDS if record["path"] == name)


def mono(name):
    samples, rate = sf.read(file_of(record_of(name)), always_2d=True)
    return samples.mean(axis=1), rate


def onsets(name):
    """Times in seconds at which the loudness jumps."""
    samples, rate = mono(name)
    hop = round(0.02 * rate)
    energy = np.sqrt(np.mean(samples[: len(samples) // hop * hop].reshape(-1, hop) ** 2, axis=1))
    steep = np.flatnonzero(np.diff(energy, prepend=0.0) > 0.25 * energy.max())
    return [0.02 * index for index, gap in zip(steep, np.diff(steep, prepend=-100), strict=True) if gap > 6]


def test_each_of_the_ten_folders_holds_two_clips():
    assert Counter(file_of(record).parent.name for record in RECORDS) == dict.fromkeys(FOLDERS, 2)
    assert {path.name for path in CHAT.iterdir() if path.is_dir()} == FOLDERS


def test_files_and_records_match_one_to_one():
    assert {file_of(record) for record in RECORDS} == {
        path for path in CHAT.rglob("*") if path.suffix in (".wav", ".mp3")
    }


def test_records_have_the_fields_of_the_original():
    fields = {"path", "question", "answer_gt", "task_name", "dataset_name", "meta_info", "uniq_id"}
    assert all(set(record) == fields for record in RECORDS)
    assert all(record[field].strip() for record in RECORDS for field in fields - {"uniq_id"})
    assert [record["uniq_id"] for record in RECORDS] == list(range(len(RECORDS)))
    assert len({record["question"] for record in RECORDS}) == len(RECORDS)


def test_descriptions_are_the_repr_of_a_dict_or_list():
    kinds = Counter(type(ast.literal_eval(record["meta_info"])) for record in RECORDS)
    assert set(kinds) == {dict, list}


def test_the_whole_sample_stays_under_four_megabytes():
    assert sum(path.stat().st_size for path in CHAT.rglob("*") if path.is_file()) < 4_000_000


def test_formats_rates_and_channels_are_covered():
    infos = [sf.info(file_of(record)) for record in RECORDS]
    assert {info.format for info in infos} == {"WAV", "MP3"}
    assert {info.samplerate for info in infos} == {8000, 16000, 44100}
    assert {info.channels for info in infos} == {1, 2}
    assert {(info.format, info.samplerate) for info in infos} >= {("MP3", 8000), ("WAV", 8000), ("WAV", 44100)}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["path"])
def test_clips_are_neither_silent_nor_clipped(record):
    samples, rate = sf.read(file_of(record), always_2d=True)
    assert 2.5 <= len(samples) / rate <= 16
    assert 0.2 < np.max(np.abs(samples)) < 0.95
    assert np.all(np.sqrt(np.mean(samples**2, axis=0)) > 0.01)
    assert sf.info(file_of(record)).format == Path(record["path"]).suffix[1:].upper()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["path"])
def test_the_listener_tells_speech_from_music_and_noise(record):
    samples, rate = sf.read(file_of(record), always_2d=True)
    guess = hearing.kind(hearing.measure(samples, rate))
    assert guess.startswith("speech") == record["task_name"].startswith("speech")


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("ferry.mp3", 170, 250), ("good_news.wav", 250, 330), ("apple_trees.mp3", 80, 140), ("no_call.wav", 70, 110)],
)
def test_the_voices_have_the_pitch_that_their_description_says(name, low, high):
    samples, rate = mono(name)
    assert low < hearing.measure(samples.reshape(-1, 1), rate).pitch_hz < high


def test_the_bell_is_struck_three_times():
    assert onsets("bell.wav") == pytest.approx([0.04, 1.24, 2.44], abs=0.05)


def test_the_clock_ticks_twice_a_second():
    assert np.diff(onsets("clock.wav")) == pytest.approx(0.5, abs=0.03)


def test_the_drums_keep_120_beats_a_minute():
    assert np.diff(onsets("drum_and_bass_line.mp3")) == pytest.approx(0.5, abs=0.03)


def test_the_scale_climbs():
    samples, rate = mono("scale.wav")
    pitches = [
        hearing.pitch(samples[start : start + 2000], rate) for start in (round((0.2 + 0.4 * k) * rate) for k in (0, 4))
    ]
    assert pitches[1] > 1.3 * pitches[0]


def test_the_waves_move_from_left_to_right():
    samples, rate = sf.read(file_of(record_of("surf.mp3")))
    first, last = samples[: 3 * rate], samples[-3 * rate :]
    left_minus_right = [np.std(part[:, 0]) - np.std(part[:, 1]) for part in (first, last)]
    assert left_minus_right[0] > 0.01 and left_minus_right[1] < -0.01
