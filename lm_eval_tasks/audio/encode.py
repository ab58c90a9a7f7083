"""What is sent of a clip: its own bytes or a WAV, as base64, in the message part that a server takes."""

from __future__ import annotations

import io
import mmap
import os
from pathlib import Path
from typing import Any, BinaryIO

import pybase64
import xxhash

from lm_eval_tasks.audio.clips import CHANGED, check_is_same, check_unchanged, note_hash, read_samples, reading
from lm_eval_tasks.errors import BadAudio
from lm_eval_tasks.files import open_regular

_MIME = {"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac", "ogg": "audio/ogg"}
_UNTOUCHED = {
    "input_audio": ("wav", "mp3"),
    "input_audio_data_uri": ("wav", "mp3"),
    "audio_url": tuple(_MIME),
}
"""Way of sending -> formats that go as they are; OpenAI's form takes two. What is not listed becomes a WAV."""

_BLOCK = 3 << 16
"""Bytes that are encoded at once; a multiple of 3, so that the pieces of base64 text join."""

_MEMORY = {}  # what mmap is told beside the size
if hasattr(mmap, "MAP_POPULATE"):  # Linux: all pages at once take half the time
    _MEMORY["flags"] = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE


def encoded_audio(ref: dict[str, Any]) -> tuple[mmap.mmap, str]:
    """Base64 of what is sent of one clip, as bytes, and its format; reads it now, and decodes it only if it must.

    Args:
        ref: the fields of ``AudioRef``, ``part`` (how it is sent) and ``resample`` (Hz; None sends the file's own
            bytes where this way of sending takes its format, and else a WAV of its own rate and channels). Gets the
            ``hash`` of the content if it lacks it.

    Raises:
        BadAudio: the file has gone or changed since it was checked, or there is no memory for it.
    """
    path = ref["path"]
    with reading(path):
        if ref.get("resample"):
            note_hash(ref)
            wav = _wav(read_samples(path, ref["resample"], ref["hash"]), ref["resample"])
        elif ref.get("rewrite") or ref["format"] not in _UNTOUCHED[ref.get("part", "audio_url")]:
            note_hash(ref)
            wav = _as_wav(path, ref["hash"])
        else:
            return _own_bytes(ref), ref["format"]
        return _base64(wav, wav.getbuffer().nbytes, path)[0], "wav"


def _own_bytes(ref: dict[str, Any]) -> mmap.mmap:
    with open_regular(ref["path"]) as file:
        if "hash" not in ref:
            check_is_same(file, ref)
        text, digest = _base64(file, os.fstat(file.fileno()).st_size, ref["path"], ref.get("start", 0))
    if ref.setdefault("hash", digest) != digest:
        raise BadAudio(f"{ref['path']}: {CHANGED}")
    return text


def _base64(file: BinaryIO | io.FileIO, size: int, path: str, start: int = 0) -> tuple[mmap.mmap, str]:
    """Base64 of a file from ``start`` on, and the hash of all of it.

    The text is in memory of its own, which goes back to the system when it is not used.
    Where malloc puts clips of all sizes, the holes that they leave grow with their number.
    """
    digest = xxhash.xxh3_128(file.read(start))
    try:
        text = mmap.mmap(-1, 4 * max(1, -(-(size - start) // 3)), **_MEMORY)
    except OSError:  # which would look like a fault of the file
        raise MemoryError from None
    try:
        while block := file.read(_BLOCK):
            digest.update(block)
            text.write(pybase64.b64encode(block))
        whole = text.tell() == len(text)
    except ValueError:  # it is longer than its size said
        whole = False
    if not whole:
        raise BadAudio(f"{path}: its size changed while it was read")
    return text, digest.hexdigest()


def _as_wav(path: str, expected: str | None) -> io.BytesIO:
    """The clip as a WAV of 16 bits at its own rate and with its own channels; whole numbers stay what they are."""
    from lm_eval_tasks.audio.decode import finite, read_all

    with open_regular(path) as file:
        check_unchanged(file, path, expected)
        samples, rate, coding = read_all(file, "int16")
        if not coding.startswith(("PCM", "ALAC")):
            samples = finite(read_all(file)[0])
    return _wav(samples, rate)


def _wav(samples: Any, rate: int) -> io.BytesIO:
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate, format="WAV", subtype="PCM_16")
    buffer.seek(0)
    return buffer


def audio_part(ref: dict[str, Any], data: str, form: str) -> dict[str, Any]:
    """The part of a chat message that carries one clip.

    Args:
        ref: the fields of ``AudioRef`` and ``part`` (how to send it, see the option ``audio_part``).
        data: what stands where the base64 text goes.
        form: format of the data.
    """
    uri = f"data:{_MIME.get(form, 'application/octet-stream')};base64,{data}"
    if ref["part"] == "audio_url":
        return {"type": "audio_url", "audio_url": {"url": uri}}
    return {
        "type": "input_audio",
        "input_audio": {"data": uri if ref["part"] == "input_audio_data_uri" else data, "format": form},
    }


def file_part(ref: dict[str, Any]) -> dict[str, Any]:
    """The part of a chat message that names a clip's file, which the server reads (``audio_part=file_url``).

    Notes the file's ``hash``, as ``encoded_audio`` does; raises ``BadAudio`` where it cannot be read.
    """
    note_hash(ref)
    return {"type": "audio_url", "audio_url": {"url": Path(ref["path"]).as_uri()}}
