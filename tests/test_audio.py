"""Audio files of every kind: told from their content, checked and read."""

from __future__ import annotations

import base64
import io
import os
import socket
import struct
import time

import numpy as np
import pytest
import soundfile
from conftest import reference, write_tone
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_tasks.audio.clips import BadAudio, inspect_audio, read_samples
from lm_eval_tasks.audio.encode import encoded_audio
from lm_eval_tasks.audio.formats import read_layout

# Good files

GOOD = {
    "16-bit": {"subtype": "PCM_16"},
    "24-bit": {"subtype": "PCM_24"},
    "8-bit": {"subtype": "PCM_U8"},
    "float": {"subtype": "FLOAT"},
    "mu-law": {"subtype": "ULAW"},
    "RF64": {"format": "RF64"},
    "extensible": {"format": "WAVEX"},
    "big-endian": {"endian": "BIG"},
    "MP3": {"format": "MP3", "rate": 16000},
    "FLAC": {"format": "FLAC"},
    "Ogg": {"format": "OGG"},
    "GSM": {"subtype": "GSM610"},  # which can't be sought in
}


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


def chunk(name, content):
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def wav(*extra, data=b"\1\0" * 4000, claimed=None):
    head = chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16))
    body = head + b"".join(extra) + b"data" + struct.pack("<I", len(data) if claimed is None else claimed) + data
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body


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


# Hostile files


def sparse(path, head=b"", size=10 << 30):
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
    return path


COUNTED = b"\xff\xfb\x90\x64" + bytes(32) + b"Xing" + struct.pack(">III", 3, 10, 417) + bytes(365)
"""A frame of MP3 that counts ten and claims the bytes of one."""

HOSTILE = {
    "a sparse WAV of 10 GB": (lambda p: sparse(p, wav(data=b"", claimed=0)), "too big"),
    "a sparse file of 10 GB": (sparse, "too big"),
    "a gigabyte of RIFF without samples": (lambda p: sparse(p, wav(data=b"")[:-8], 1 << 30), "undecodable|header only"),
    "a WAV at 1 Hz": (lambda p: soundfile.write(p, np.zeros(8000), 1, format="WAV"), "longer than 600 s"),
    "hours in a small FLAC": (lambda p: soundfile.write(p, np.zeros(8000 * 3600), 8000, format="FLAC"), "longer than"),
    "an MP3 with a tail of marks": (lambda p: p.write_bytes(COUNTED + b"\xff" * (16 << 20)), "undecodable"),
    "tags without an end": (lambda p: p.write_bytes(b"ID3\4\0\0\0\0\0\0" * (1 << 20)), "undecodable"),
    "a pipe": (os.mkfifo, "unreadable .a pipe, not a file"),
    "a device": (lambda p: p.symlink_to("/dev/zero"), "unreadable .a device, not a file"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_at_once(tmp_path, kind):
    make, cause = HOSTILE[kind]
    make(tmp_path / "clip.wav")
    begin = time.process_time()
    with pytest.raises(BadAudio, match=cause):
        inspect_audio(tmp_path / "clip.wav")
    assert time.process_time() - begin < 1


def test_a_socket_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # its name must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        with pytest.raises(BadAudio, match="a socket, not a file"):
            inspect_audio("s")


# Bad files


def cut(data, share):
    return data[: int(len(data) * share)]


def tone_cut(share, **options):
    return lambda folder: cut(write_tone(folder / "whole", seconds=2.0, rate=16000, **options).read_bytes(), share)


def with_a_hole(subtype):
    def make(folder):
        whole = write_tone(folder / "whole", seconds=20.0, rate=16000, format="OGG", subtype=subtype).read_bytes()
        third = len(whole) // 3
        return whole[:third] + bytes(third) + whole[2 * third :]

    return make


BAD = {
    "an empty file": (lambda _: b"", "empty file"),
    "one byte": (lambda _: b"R", "undecodable"),
    "a web page": (lambda _: b"<html><body>404</body></html>" * 50, "undecodable"),
    "zeros": (lambda _: b"\0" * 4096, "undecodable"),
    "a Git LFS pointer": (
        lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n",
        "Git LFS pointer",
    ),
    "a header alone": (lambda _: wav(data=b""), "header only"),
    "a header that claims samples": (lambda _: wav(data=b"", claimed=8000), "header only|truncated"),
    "half a header": (lambda _: wav()[:30], "undecodable|header only"),
    "a WAV cut in half": (tone_cut(0.5, format="WAV"), "truncated"),
    "a WAV that lacks its last 10 ms": (tone_cut(0.995, format="WAV"), "truncated"),
    "a FLAC cut in half": (tone_cut(0.5, format="FLAC"), "undecodable|truncated"),
    "an MP3 cut in half": (tone_cut(0.5, format="MP3"), "undecodable|truncated"),
    "an Ogg file of which half was downloaded": (
        lambda folder: tone_cut(0.5, format="OGG")(folder) + b"\0" * 200_000,
        "truncated",
    ),
    "a Vorbis file with a hole": (with_a_hole("VORBIS"), "truncated"),
    "an Opus file with a hole": (with_a_hole("OPUS"), "truncated"),
    "an MP3 header alone": (lambda _: b"ID3\x03\0\0\0\0\0\0", "undecodable|header only"),
    "an MP4": (lambda _: b"\0\0\0\x18ftypM4A \0\0\0\0M4A mp42isom" + b"\0" * 500, "undecodable"),
}


@pytest.mark.parametrize("kind", BAD)
def test_is_found_bad_with_its_cause(tmp_path, kind):
    make, cause = BAD[kind]
    path = tmp_path / "clip.wav"
    path.write_bytes(make(tmp_path))
    with pytest.raises(BadAudio, match=cause) as caught:
        inspect_audio(path)
    assert path.name not in str(caught.value)  # so that causes can be counted


def test_a_missing_file_and_a_folder_are_bad_with_their_cause(tmp_path):
    with pytest.raises(BadAudio, match="missing"):
        inspect_audio(tmp_path / "none.wav")
    with pytest.raises(BadAudio, match="unreadable"):
        inspect_audio(tmp_path)


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda rest: wav()[:60] + rest))
def test_any_bytes_are_audio_or_bad_audio(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.wav"
    path.write_bytes(content)
    try:
        assert inspect_audio(path)["seconds"] >= 0
    except BadAudio as error:
        assert str(error)


# Several recordings in one file


GOOD_TOGETHER = GOOD | {"opus": {"format": "OGG", "subtype": "OPUS"}}


def two_tones(folder, kind, tags=b""):
    """Half a second at 300 Hz and half a second at 900 Hz, one file behind the other."""
    options = {"rate": 16000, "format": "WAV", **GOOD_TOGETHER.get(kind, {"format": kind})}
    parts = [write_tone(folder / f"{hertz}.part", hertz, 0.5, **options).read_bytes() for hertz in (300, 900)]
    path = folder / "joined.bin"
    path.write_bytes(tags.join(parts))
    return path


ID3 = b"ID3\x04\0\0\0\0\x20\0" + bytes(4096)


@pytest.mark.parametrize(
    ("kind", "tags"),
    [
        ("OGG", b""),
        ("opus", b""),
        ("OGG", bytes(999)),
        ("MP3", b""),
        ("MP3", ID3),
        ("MP3", b"TAG" + bytes(125)),
        ("16-bit", b""),
        ("24-bit", b""),
        ("FLAC", b""),
        ("AU", b""),
    ],
)
def test_recordings_joined_in_one_file_are_all_heard(tmp_path, kind, tags):
    path = two_tones(tmp_path, kind, tags)
    found = inspect_audio(path)
    assert 0.95 < found["seconds"] < 1.25
    samples = read_samples(path, 16000)
    for half, hertz in ((samples[2000:6000], 300), (samples[-6000:-2000], 900)):
        spectrum = np.abs(np.fft.rfft(half))
        assert abs(np.argmax(spectrum) * 16000 / len(half) - hertz) < 20
    sent, rate = soundfile.read(io.BytesIO(base64.b64decode(bytes(encoded_audio(reference(path))[0]))))
    assert abs(len(sent) / rate - found["seconds"]) < 0.1  # whatever the server decodes it with


def test_one_and_the_same_recording_twice_is_heard_twice(tmp_path):
    once = write_tone(tmp_path / "a.ogg", seconds=0.5, rate=16000, format="OGG").read_bytes()
    (tmp_path / "b.ogg").write_bytes(once * 3)
    assert inspect_audio(tmp_path / "b.ogg")["seconds"] == pytest.approx(1.5, abs=0.05)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("kind", ["OGG", "MP3", "WAV", "FLAC", "AU"])
def test_joined_recordings_of_two_rates_are_told(tmp_path, kind, counted):
    parts = [
        write_tone(tmp_path / f"{rate}.part", seconds=0.5, rate=rate, format=kind).read_bytes()
        for rate in (16000, 44100)
    ]
    first = parts[0] if counted else parts[0].replace(b"Xing", bytes(4)).replace(b"Info", bytes(4))
    (tmp_path / "both").write_bytes(first + parts[1])
    with pytest.raises(BadAudio, match="several recordings in one file"):
        inspect_audio(tmp_path / "both")


def test_a_joined_recording_that_is_cut_is_truncated(tmp_path):
    once = write_tone(tmp_path / "a.wav", seconds=0.5, rate=16000).read_bytes()
    (tmp_path / "b.wav").write_bytes(once + once[:-4000])
    with pytest.raises(BadAudio, match="truncated"):
        inspect_audio(tmp_path / "b.wav")
