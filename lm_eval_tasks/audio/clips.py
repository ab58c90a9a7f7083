"""Audio as a reference: told from the file's content, checked once, read only when it is sent."""

from __future__ import annotations

import io
import mmap
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import pybase64

ARRAY_RATE = 16_000
"""Hz of ``AudioRef["array"]`` unless told otherwise; what the common audio encoders (Whisper, Qwen2-Audio) expect."""

_MIME = {"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac", "ogg": "audio/ogg"}
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""How a file begins that stands for one that Git LFS has not fetched."""

_BLOCK = 3 << 16
"""Bytes that are encoded at once; a multiple of 3, so that the pieces of base64 text join."""

_MEMORY = {}  # what mmap is told beside the size
if hasattr(mmap, "MAP_POPULATE"):  # Linux: all pages at once take half the time
    _MEMORY["flags"] = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE

_UNKNOWN_SIZES = (0, 0xFFFFFFFF)  # what a program writes that streams a WAV and can't come back to fill the size in


class BadAudio(ValueError):
    """A file that cannot be sent as audio; the text is the cause, in a few words."""


class AudioRef(dict):
    """One clip as plain JSON data; its samples are read only when ``ref["array"]`` is asked for.

    Keys: ``path`` (absolute), ``format`` (``wav``, ``mp3``, ``flac`` or ``ogg``, told from the content),
    ``sampling_rate`` (Hz of ``array``), ``native_rate`` (Hz of the file), ``seconds``, ``size`` (bytes) and
    ``mtime_ns``. Size and time are there so that a file replaced in place is another request to every cache.
    ``array`` is float32, mono, shape ``(samples,)``. Reading ``repr``, hashing or dumping it touches no file.
    """

    def __missing__(self, key: str) -> Any:
        if key == "array":
            return read_samples(self["path"], self.get("sampling_rate") or ARRAY_RATE)
        raise KeyError(key)


def sniff_format(head: bytes) -> str | None:
    """The audio format that the first bytes of a file tell, or None. 12 bytes are enough."""
    if head[:4] in (b"RIFF", b"RIFX", b"RF64") and head[8:12] == b"WAVE":
        return "wav"
    if head[:4] == b"fLaC":
        return "flac"
    if head[:4] == b"OggS":
        return "ogg"
    if head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0 and head[1] & 0x06):
        return "mp3"
    return None


def inspect_audio(path: str | Path) -> dict[str, Any]:
    """Look at a file as closely as is needed to know that it can be decoded, without holding its samples.

    Returns:
        The fields of ``AudioRef`` except ``sampling_rate``.

    Raises:
        BadAudio: missing, empty, a Git LFS pointer, header only, truncated or undecodable.
    """
    import soundfile

    path = os.path.abspath(path)
    try:
        stat = os.stat(path)
        with open(path, "rb") as file:
            head = file.read(64)
            cut = _wav_is_cut(file, stat.st_size) if sniff_format(head) == "wav" else False
    except FileNotFoundError:
        raise BadAudio("missing") from None
    except OSError as error:
        raise BadAudio(f"unreadable ({error.strerror})") from None
    if stat.st_size == 0:
        raise BadAudio("empty file")
    if head.startswith(LFS_POINTER):
        raise BadAudio("Git LFS pointer instead of the audio (run `git lfs pull` in the data folder)")
    try:
        with soundfile.SoundFile(path) as sound:
            frames, rate, kind = sound.frames, sound.samplerate, sound.format
            if frames <= 0:
                raise BadAudio("no audio (header only)")
            # the end as well: a damaged tail is found before anything is paid for
            there = _samples_there(sound) if kind == "MP3" else _last_sample(sound)
            if there == 0:
                raise BadAudio("no audio (header only)")
            cut = cut or there < 0.95 * frames  # less may be a header's inexact estimate
    except soundfile.SoundFileError as error:
        raise BadAudio(f"undecodable ({str(error).rsplit(': ', 1)[-1]})") from None
    if cut:
        raise BadAudio("truncated (shorter than its header says)")
    return {
        "path": path,
        "format": sniff_format(head) or kind.lower(),
        "native_rate": rate,
        "seconds": round(frames / rate, 3),
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
    }


def _samples_there(sound: Any) -> int:
    """How many samples an open file really has, counted from its start.

    An MP3 is read so from the first: libmpg123 complains to the terminal about a valid file in which it has to jump.
    """
    if sound.tell():
        sound.seek(0)
    there = 0
    while block := len(sound.read(1 << 16)):
        there += block
    return there


def _last_sample(sound: Any) -> int:
    """How many samples an open file has, by a look at its end; counted where there is nothing at its end."""
    if len(sound.read(1024)) == 0:
        return 0
    if sound.frames > 2048:
        sound.seek(sound.frames - 1024)
        if len(sound.read(1024)) == 0:
            return _samples_there(sound)
    return sound.frames


def _wav_is_cut(file: Any, size: int) -> bool:
    """Whether the ``data`` chunk of an open RIFF file claims more bytes than the file has."""
    file.seek(0)
    order = ">" if file.read(4) == b"RIFX" else "<"
    position = 12
    while position + 8 <= size:
        file.seek(position)
        name, length = struct.unpack(f"{order}4sI", file.read(8))
        if name == b"data":
            return length not in _UNKNOWN_SIZES and position + 8 + length > size
        position += 8 + length + (length & 1)
    return False


def read_samples(path: str | Path, rate: int) -> Any:
    """Decode a file to mono float32 at ``rate`` Hz, shape ``(samples,)``; a peak above 1 is scaled down to 1.

    Raises:
        BadAudio: the file can no longer be decoded.
    """
    import numpy
    import soundfile
    import soxr

    try:
        samples, native = soundfile.read(path, dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, OSError) as error:
        raise BadAudio(f"{path}: {error}") from None
    mono = numpy.nan_to_num(samples, posinf=0.0, neginf=0.0).mean(axis=1)
    if native != rate:
        mono = soxr.resample(mono, native, rate)
    peak = float(numpy.abs(mono).max(initial=0.0))
    return (mono / peak if peak > 1.0 else mono).astype(numpy.float32)


def encoded_audio(ref: dict[str, Any]) -> tuple[mmap.mmap, str]:
    """Base64 of what is sent of one clip, as bytes, and its format; reads, and resamples where asked to, now.

    Args:
        ref: the fields of ``AudioRef`` and ``resample`` (Hz or None; None sends the file's own bytes untouched).

    Raises:
        BadAudio: the file has gone or changed into something that cannot be decoded since it was checked.
    """
    path = ref["path"]
    if ref.get("resample"):
        wav = _as_wav(path, ref["resample"])
        return _base64(wav, wav.getbuffer().nbytes, path), "wav"
    try:
        with open(path, "rb") as file:
            return _base64(file, os.fstat(file.fileno()).st_size, path), ref["format"]
    except OSError as error:
        raise BadAudio(f"{path}: {error.strerror}; it was there when the run began") from None


def _base64(file: BinaryIO, size: int, path: str) -> mmap.mmap:
    """Base64 of a file in memory of its own, which goes back to the system when it is no longer used.

    Where malloc puts clips of all sizes, the holes that they leave grow with their number.
    """
    try:
        text = mmap.mmap(-1, 4 * max(1, -(-size // 3)), **_MEMORY)
    except OSError as error:  # which would look like a fault of the file
        raise MemoryError(f"{path}: no memory for its {size} bytes ({error.strerror})") from None
    try:
        while block := file.read(_BLOCK):
            text.write(pybase64.b64encode(block))
        whole = text.tell() == len(text)
    except ValueError:  # it is longer than its size said
        whole = False
    if not whole:
        raise BadAudio(f"{path}: its size changed while it was read")
    return text


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
    """The part of a chat message that names a clip's file, which the server reads (``audio_part=file_url``)."""
    return {"type": "audio_url", "audio_url": {"url": Path(ref["path"]).as_uri()}}


def _as_wav(path: str, rate: int) -> io.BytesIO:
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, read_samples(path, rate), rate, format="WAV", subtype="PCM_16")
    buffer.seek(0)
    return buffer


def find_audio(root: str | Path, folder: str, name: str) -> str:
    """Where a clip lies: exactly there, or under the same name in another case or Unicode form.

    Args:
        root: the data folder, which no name may leave.
        folder: folder below ``root``.
        name: path below that folder, as the metadata gives it.

    Raises:
        ValueError: the path leaves the data folder.
        BadAudio: no such file, or two that differ from the name in nothing but case.
    """
    within = os.path.join(os.path.abspath(root), "")
    exact = os.path.normpath(os.path.join(within, folder, name))
    if "\0" in name or not exact.startswith(within) or exact == within or os.path.isabs(name):
        raise ValueError(f"path {name!r} in folder {folder!r} leaves the data folder {root}")
    if os.path.lexists(exact):  # unlike exists(), false for a name that no file system takes
        return exact
    there, asked = os.path.split(exact)
    alike = [other for other in _listing(there) if _folded(other) == _folded(asked)]
    if len(alike) > 1:
        raise BadAudio(f"ambiguous: {', '.join(sorted(alike))}")
    if not alike:
        raise BadAudio("missing")
    return os.path.join(there, alike[0])


def _listing(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


def _folded(name: str) -> str:
    import unicodedata

    return unicodedata.normalize("NFC", name).casefold()
