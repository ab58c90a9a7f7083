"""Audio files that are hostile or bad: refused at once, each with its cause."""

from __future__ import annotations

import os
import socket
import struct
import time

import numpy as np
import pytest
import soundfile
from audio_files import wav
from conftest import write_tone
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_tasks.audio.clips import BadAudio, inspect_audio

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
