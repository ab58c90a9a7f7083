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


def test_each_of_the_ten_folders_holds_two_clips_with_records_like_the_originals():
    assert Counter(file_of(record).parent.name for record in RECORDS) == dict.fromkeys(FOLDERS, 2)
    files = [path for path in CHAT.rglob("*") if path.is_file()]
    assert {file_of(record) for record in RECORDS} == {file for file in files if file.suffix in (".wav", ".mp3")}
    assert sum(file.stat().st_size for file in files) < 4_000_000
    fields = {"path", "question", "answer_gt", "task_name", "dataset_name", "meta_info", "uniq_id"}
    assert all(set(record) == fields for record in RECORDS)
    assert all(record[field].strip() for record in RECORDS for field in fields - {"uniq_id"})
    assert [record["uniq_id"] for record in RECORDS] == list(range(len(RECORDS)))
    assert {type(ast.literal_eval(record["meta_info"])) for record in RECORDS} == {dict, list}


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
