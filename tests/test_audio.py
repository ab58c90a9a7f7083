"""Audio files of every good kind: told from their content, and read."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import soundfile
from audio_files import GOOD, chunk, wav
from conftest import reference, write_tone

from lm_eval_tasks.audio.clips import BadAudio, inspect_audio, read_samples
from lm_eval_tasks.audio.encode import encoded_audio
from lm_eval_tasks.audio.formats import read_layout


@pytest.mark.parametrize("kind", GOOD)
def test_is_taken_as_its_content_says_whatever_its_name(tmp_path, kind):
    found = inspect_audio(write_tone(tmp_path / "clip.bin", seconds=0.5, **{"format": "WAV", **GOOD[kind]}))
    expected = {"MP3": "mp3", "FLAC": "flac", "Ogg": "ogg"}.get(kind, "wav")
    assert found["format"] == expected and abs(found["seconds"] - 0.5) < 0.1


@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (16000, 2), (44100, 8), (192_000, 1)])
def test_rate_and_length_are_those_of_the_file_and_the_array_is_mono_at_the_rate_asked_for(tmp_path, rate, channels):
    path = tmp_path / "clip.wav"
    wave = 0.5 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
    soundfile.write(path, np.stack([wave] * channels, axis=1), rate)
    found = inspect_audio(path)
    assert (found["native_rate"], found["seconds"], found["size"]) == (rate, 1.0, path.stat().st_size)
    array = read_samples(path, 16000)
    assert array.dtype == np.float32 and array.shape == (16000,)
    assert abs(np.sqrt(np.mean(array[2000:-2000] ** 2)) - 0.5 / np.sqrt(2)) < 0.01


@pytest.mark.parametrize(
    ("samples", "read"),
    [([0.0, 2.0, -4.0, 1.0], [0.0, 0.5, -1.0, 0.25]), ([0.5, np.nan, np.inf, -0.5], [0.5, 0.0, 0.0, -0.5])],
    ids=["beyond one: scaled down", "no numbers: silence"],
)
def test_odd_float_samples_are_read_as_numbers_within_one(tmp_path, samples, read):
    path = tmp_path / "odd.wav"
    soundfile.write(path, np.array(samples), 16000, subtype="FLOAT")
    assert read_samples(path, 16000).tolist() == read


def test_extra_chunks_before_and_after_the_samples_are_no_fault(tmp_path):
    path = tmp_path / "clip.wav"
    path.write_bytes(wav(chunk(b"LIST", b"INFOodd"), chunk(b"bext", b"x" * 602)) + chunk(b"id3 ", b"ID3" + b"\0" * 50))
    assert inspect_audio(path)["seconds"] == 0.5


SIZES = [0, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFDB, 0x7FFFF000, 0x7FFFFFFF, 0x80000000, 8001, 8008, 8044, 8080]


@pytest.mark.parametrize("claimed", SIZES)
def test_a_size_that_is_a_placeholder_or_a_few_bytes_too_large_is_no_fault(tmp_path, claimed):
    path = tmp_path / "streamed.wav"
    path.write_bytes(wav(claimed=claimed))
    found = inspect_audio(path)
    assert (found["format"], found["seconds"]) == ("wav", 0.5)


TAG = b"ID3\x04\0\0" + bytes([0, 0, 2, 10]) + b"x" * 266  # its size has 7 bits a byte


@pytest.mark.parametrize(("kind", "sent"), [("WAV", "WAV"), ("FLAC", "WAV"), ("MP3", "MP3")])
def test_what_stands_behind_id3_tags_tells_the_format(tmp_path, kind, sent):
    bare = write_tone(tmp_path / "bare", rate=16000, seconds=1, format=kind).read_bytes()
    path = tmp_path / "clip.mp3"
    path.write_bytes(TAG + TAG + bare)
    ref = reference(path, part="input_audio")
    assert ref["format"] == kind.lower() and abs(ref["seconds"] - 1) < 0.1
    data, form = encoded_audio(ref)
    assert form == sent.lower()
    with soundfile.SoundFile(io.BytesIO(base64.b64decode(data))) as sound:
        assert sound.format == sent and abs(sound.frames - 16000) < 1700
    data, form = encoded_audio({**ref, "part": "audio_url"})
    assert form == kind.lower() and base64.b64decode(data).endswith(bare)
    assert ref["array"].shape == (round(ref["seconds"] * 16000),)


def uncounted_mp3(tmp_path):
    """Two seconds of silence and eight of noise at a variable rate, without the frame that counts the others."""
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 160_000)
    noise[:32_000] = 0
    path = tmp_path / "counted.mp3"
    soundfile.write(path, noise, 16000, format="MP3", bitrate_mode="VARIABLE", compression_level=0.0)
    data = path.read_bytes()
    with path.open("rb", buffering=0) as file:
        assert read_layout(file, len(data)).counted
    return data[data.index(data[:2], 4) :]


def test_an_mp3_that_does_not_count_its_frames_is_read_to_its_end(tmp_path):
    data = uncounted_mp3(tmp_path)
    path = tmp_path / "clip.mp3"
    path.write_bytes(data)
    found = inspect_audio(path)
    assert abs(found["seconds"] - 10) < 0.3
    assert abs(len(read_samples(path, 16000)) - 160_000) < 5000
    path.write_bytes(data[:-30])
    with pytest.raises(BadAudio, match="truncated"):
        inspect_audio(path)


def flac_without_a_count(tmp_path):
    data = bytearray(write_tone(tmp_path / "whole.flac", seconds=3, format="FLAC").read_bytes())
    data[21] &= 0xF0
    data[22:26] = bytes(4)  # the number of samples in STREAMINFO: unknown
    return bytes(data)


def caf_of_unknown_size(tmp_path):
    data = write_tone(tmp_path / "whole.caf", seconds=3, format="CAF").read_bytes()
    at = data.index(b"data") + 4
    return data[:at] + b"\xff" * 8 + data[at + 8 :]


def rf64_never_closed(tmp_path):
    data = write_tone(tmp_path / "whole.rf64", seconds=3, format="RF64").read_bytes()
    at = data.index(b"ds64") + 8
    return data[:at] + bytes(24) + data[at + 24 :]


@pytest.mark.parametrize("make", [flac_without_a_count, caf_of_unknown_size, rf64_never_closed])
def test_a_length_that_the_header_does_not_tell_is_counted(tmp_path, make):
    path = tmp_path / "clip"
    path.write_bytes(make(tmp_path))
    ref = reference(path, part="input_audio")
    assert abs(ref["seconds"] - 3) < 0.01 and abs(len(ref["array"]) - 48000) < 10
    for part in ("input_audio", "audio_url"):
        data, form = encoded_audio({**ref, "part": part})
        with soundfile.SoundFile(io.BytesIO(base64.b64decode(data))) as sound:
            assert form == "wav" and abs(sound.frames - 24000) < 10


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3", "AIFF", "CAF", "AU"])
@pytest.mark.parametrize("tail", [b"TAG" + b"x" * 125, bytes(999), b"APETAGEX" + b"x" * 24])
def test_what_stands_behind_the_audio_is_no_part_of_it(tmp_path, kind, tail):
    path = tmp_path / "clip"
    path.write_bytes(write_tone(tmp_path / "bare", rate=16000, seconds=1, format=kind).read_bytes() + tail)
    ref = reference(path, part="input_audio")
    assert abs(ref["seconds"] - 1) < 0.1 and abs(len(ref["array"]) - ref["seconds"] * 16000) < 10
    with soundfile.SoundFile(io.BytesIO(base64.b64decode(encoded_audio(ref)[0]))) as sound:
        assert abs(sound.frames - 16000) < 1700
