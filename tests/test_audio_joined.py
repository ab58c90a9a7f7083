"""Several recordings in one audio file: heard to the end, or refused."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import soundfile
from audio_files import GOOD
from conftest import reference, write_tone

from lm_eval_tasks.audio.clips import BadAudio, inspect_audio, read_samples
from lm_eval_tasks.audio.encode import encoded_audio

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
