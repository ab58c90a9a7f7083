"""What is sent of a clip, and whether it is the clip that was checked."""

from __future__ import annotations

import base64
import errno
import io
import mmap
import os
import random
import stat
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
from conftest import reference, write_tone

from lm_eval_tasks.audio.clips import BadAudio, inspect_audio, note_hash
from lm_eval_tasks.audio.encode import audio_part, encoded_audio, file_part

FOREIGN = {
    "FLAC": ("flac", {"format": "FLAC"}),
    "Ogg": ("ogg", {"format": "OGG"}),
    "Opus": ("ogg", {"format": "OGG", "subtype": "OPUS"}),
    "AIFF": ("aiff", {"format": "AIFF"}),
    "AU": ("au", {"format": "AU"}),
    "CAF": ("caf", {"format": "CAF"}),
    "Wave64": ("w64", {"format": "W64"}),
    "FLAC, 24 bits": ("flac", {"format": "FLAC", "subtype": "PCM_24"}),
    "AIFF, float": ("aiff", {"format": "AIFF", "subtype": "FLOAT"}),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_the_server_may_not_take_is_sent_as_wav_of_its_rate_and_channels(tmp_path, kind):
    path, (form, options) = tmp_path / "clip.wav", FOREIGN[kind]
    wave = 0.5 * np.sin(2 * np.pi * 440 * np.arange(48000) / 48000)
    soundfile.write(path, np.stack([wave, -wave], axis=1), 48000, **options)
    for way, resample, shape in (("input_audio", None, (48000, 2)), ("input_audio_data_uri", 16000, (16000,))):
        ref = reference(path, part=way, resample=resample)
        assert ref["format"] == form
        data, sent = encoded_audio(ref)
        samples, rate = soundfile.read(io.BytesIO(base64.b64decode(data)), dtype="int16")
        assert (sent, rate, samples.shape) == ("wav", resample or 48000, shape)
        if not resample and kind in ("FLAC", "AIFF", "AU", "CAF", "Wave64"):
            assert (samples == soundfile.read(path, dtype="int16")[0]).all()
    path.write_bytes(path.read_bytes()[: int(0.6 * path.stat().st_size)])
    with pytest.raises(BadAudio):
        inspect_audio(path)


def test_samples_are_read_when_they_are_asked_for(tmp_path):
    ref = reference(write_tone(tmp_path / "clip.wav", seconds=0.5, rate=8000))
    assert ref["array"].shape == (8000,) and ref["sampling_rate"] == 16000
    other = reference(tmp_path / "clip.wav", sampling_rate=24000)
    assert other["array"].shape == (12000,)
    with pytest.raises(KeyError):
        ref["samples"]


def test_a_clip_changed_under_the_same_size_and_time_is_another_reference_and_is_not_sent_for_the_first(tmp_path):
    path = write_tone(tmp_path / "clip.wav", 440)
    before = reference(path, part="input_audio")
    assert encoded_audio(before) and before["hash"]
    write_tone(path, 880)
    os.utime(path, ns=(before["mtime_ns"], before["mtime_ns"]))
    after = reference(path, part="input_audio")
    note_hash(after)
    assert {key for key in before if before[key] != after[key]} == {"hash"}
    for changed in (before, {**before, "resample": 16000}, {**before, "format": "flac"}):
        with pytest.raises(BadAudio, match="content changed since the run began"):
            encoded_audio(changed)
    with pytest.raises(BadAudio, match="content changed"):
        before["array"]
    assert encoded_audio(after)


# Sending


@pytest.mark.parametrize(("kind", "mime"), [("WAV", "audio/wav"), ("MP3", "audio/mpeg")])
def test_the_files_own_bytes_are_sent_untouched(tmp_path, kind, mime):
    path = write_tone(tmp_path / "clip.wav", rate=16000, format=kind)
    ref = reference(path, part="input_audio")
    data, form = encoded_audio(ref)
    assert base64.b64decode(data) == path.read_bytes() and form == kind.lower()
    text = bytes(data).decode()
    assert audio_part(ref, text, form)["input_audio"] == {"data": text, "format": form}
    uri = f"data:{mime};base64,{text}"
    assert audio_part({**ref, "part": "input_audio_data_uri"}, text, form)["input_audio"]["data"] == uri
    assert audio_part({**ref, "part": "audio_url"}, text, form) == {"type": "audio_url", "audio_url": {"url": uri}}


@pytest.mark.parametrize("size", [1, 2, 3, 49151, 49152, 49153, 98304, 200_000, 1_000_001])
def test_base64_of_a_file_of_any_size_is_what_the_standard_library_makes_of_it(tmp_path, size):
    path = tmp_path / "clip.wav"
    path.write_bytes(random.Random(size).randbytes(size))
    data, _ = encoded_audio({"path": str(path), "format": "wav"})
    assert bytes(data) == base64.b64encode(path.read_bytes())


@pytest.mark.parametrize("told", [0, 999, 1004, 2000])
def test_a_file_that_changes_its_size_while_it_is_read_is_bad_audio(tmp_path, monkeypatch, told):
    path = tmp_path / "clip.wav"
    path.write_bytes(b"x" * 1000)
    monkeypatch.setattr(os, "fstat", lambda _: SimpleNamespace(st_size=told, st_mode=stat.S_IFREG))
    with pytest.raises(BadAudio, match=r"clip\.wav: its size changed"):
        encoded_audio({"path": str(path), "format": "wav"})


def test_no_memory_for_a_clip_concerns_that_clip(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    path = write_tone(tmp_path / "clip.wav")
    monkeypatch.setattr(mmap, "mmap", refuse)
    for resample in (None, 16000):
        with pytest.raises(BadAudio, match=r"clip\.wav: not enough memory"):
            encoded_audio(reference(path, resample=resample))


def test_a_file_url_names_the_file_with_its_name_escaped(tmp_path):
    path = write_tone(tmp_path / "a clip \u00e4#?.wav")
    url = file_part(reference(path))["audio_url"]["url"]
    assert url.startswith("file:///") and url.endswith("/a%20clip%20%C3%A4%23%3F.wav")


def test_a_file_that_has_gone_since_it_was_checked_is_bad_audio_with_its_name(tmp_path):
    ref = reference(write_tone(tmp_path / "clip.wav"))
    (tmp_path / "clip.wav").unlink()
    for resample in (None, 16000):
        with pytest.raises(BadAudio, match=r"clip\.wav"):
            encoded_audio({**ref, "resample": resample})
