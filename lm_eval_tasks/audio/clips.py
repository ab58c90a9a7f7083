"""A clip as a reference: checked once, read only when it is asked for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xxhash

from lm_eval_tasks.errors import BadAudio
from lm_eval_tasks.files import open_regular

ARRAY_RATE = 16_000
"""Hz of ``AudioRef["array"]`` unless told otherwise; what the common audio encoders (Whisper, Qwen2-Audio) expect."""

MAX_SECONDS = 600.0
"""The longest clip that is decoded unless told otherwise."""

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""How a file begins that stands for one that Git LFS has not fetched."""

_SAMPLES_PER_SECOND = 1 << 19
"""Over all channels; more than 8 channels at 48 kHz have. With 4 bytes each it bounds the bytes of a file, too."""

_FORMATS = {"WAV": "wav", "WAVEX": "wav", "RF64": "wav"}
_READ = 1 << 16
_INEXACT = 4608
"""Frames that a header may state too many: the delay and padding of a coder."""

CHANGED = "its content changed since the run began"


class AudioRef(dict):
    """One clip as plain JSON data; its samples are read only when ``ref["array"]`` is asked for.

    Keys: ``path`` (absolute), ``format`` (``wav``, ``mp3``, ``flac``, ``ogg``, ``aiff`` and so on, told from the
    content), ``sampling_rate`` (Hz of ``array``), ``native_rate`` (Hz of the file), ``seconds``, ``size`` (bytes),
    ``mtime_ns`` and, once its content has been read, ``hash`` (XXH3, 128 bits; see ``note_hash``). They make a file
    replaced in place another request to every cache. ``start`` is there if the audio begins behind ID3 tags that do
    not belong to its format, and ``rewrite`` if its header lacks a size that other programs need, so that it is sent as
    a new WAV. ``array`` is float32, mono, shape ``(samples,)``. Reading ``repr``, hashing or dumping it reads no file.
    """

    def __missing__(self, key: str) -> Any:
        if key == "array":
            return read_samples(self["path"], self.get("sampling_rate") or ARRAY_RATE, self.get("hash"))
        raise KeyError(key)


def inspect_audio(path: str | Path, max_seconds: float = MAX_SECONDS) -> dict[str, Any]:
    """Look at a file as closely as is needed to know that it can be decoded, without holding its samples.

    Args:
        path: the file.
        max_seconds: a longer clip is bad, and so is a file too big for one; neither is decoded.

    Returns:
        The fields of ``AudioRef`` except ``sampling_rate`` and ``hash``: headers tell nearly all, and reading a whole
        set takes as long as the disk.

    Raises:
        BadAudio: missing, no regular file, empty, a Git LFS pointer, header only, truncated, too long or undecodable.
    """
    import soundfile

    path = os.path.abspath(path)
    try:
        with open_regular(path) as file:
            return _inspect(file, path, max_seconds)
    except FileNotFoundError:
        raise BadAudio("missing") from None
    except OSError as error:
        raise BadAudio(f"unreadable ({error.strerror or type(error).__name__})") from None
    except MemoryError:
        raise BadAudio("not enough memory to decode it") from None
    except soundfile.SoundFileError as error:
        raise BadAudio(f"undecodable ({str(error).rsplit(': ', 1)[-1] or type(error).__name__})") from None


def _inspect(file: Any, path: str, max_seconds: float) -> dict[str, Any]:
    from lm_eval_tasks.audio.decode import Sound
    from lm_eval_tasks.audio.formats import read_layout

    stat = os.fstat(file.fileno())
    if stat.st_size == 0:
        raise BadAudio("empty file")
    if stat.st_size > 4 * _SAMPLES_PER_SECOND * max_seconds:
        raise BadAudio(f"too big for a clip of {max_seconds:g} s (max_audio_seconds)")
    if file.read(len(LFS_POINTER)) == LFS_POINTER:
        raise BadAudio("Git LFS pointer instead of the audio (run `git lfs pull` in the data folder)")
    layout = read_layout(file, stat.st_size)
    if layout.is_cut:
        raise BadAudio("truncated (shorter than its header says)")
    with Sound(file, layout) as sound:
        rate, stated = sound.samplerate, sound.stated
        most = int(max_seconds * min(rate, _SAMPLES_PER_SECOND / sound.channels))
        if stated is not None and stated > most:
            raise _too_long(max_seconds)
        kind, endless = _format(sound), stated is None and not layout.is_mpeg
        # the end as well as the beginning: a damaged tail is found before anything is paid for
        frames = sound.count_by_a_look_at_the_end()
    if frames is None:
        with Sound(file, layout) as sound:
            frames = sound.count(most)
    if frames > most:
        raise _too_long(max_seconds)
    if frames == 0:
        raise BadAudio("no audio (header only)")
    if stated is not None and frames < stated - max(stated // 100, _INEXACT):
        raise BadAudio("truncated (shorter than its header says)")
    found = {
        "path": path,
        "format": kind,
        "native_rate": rate,
        "seconds": round(frames / rate, 3),
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
    }
    found |= {"start": layout.start} if layout.start and kind != "mp3" else {}
    return found | ({"rewrite": True} if layout.patch or endless else {})


def _format(sound: Any) -> str:
    if sound.format == "MP3":
        return "mp3" if sound.subtype == "MPEG_LAYER_III" else "mp2"
    return _FORMATS.get(sound.format, sound.format.lower())


def _too_long(max_seconds: float) -> BadAudio:
    return BadAudio(f"longer than {max_seconds:g} s (max_audio_seconds)")


def content_hash(file: Any) -> str:
    """XXH3 of all of an open file, 128 bits in hexadecimal."""
    digest = xxhash.xxh3_128()
    file.seek(0)
    while block := file.read(_READ):
        digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Reads, in its block, a clip that could be read when it was checked; raises ``BadAudio`` where it cannot now."""
    try:
        yield
    except MemoryError:
        raise BadAudio(f"{path}: not enough memory for it") from None
    except OSError as error:
        raise BadAudio(f"{path}: {error.strerror}; it was there when the run began") from None


def note_hash(ref: dict[str, Any]) -> None:
    """Note the hash of a clip's content in ``ref["hash"]`` unless it is there; reads all of the file then.

    Raises:
        BadAudio: it has gone, cannot be read, or is not the file that was checked.
    """
    if "hash" not in ref:
        with reading(ref["path"]), open_regular(ref["path"]) as file:
            check_is_same(file, ref)
            ref["hash"] = content_hash(file)


def check_is_same(file: Any, ref: dict[str, Any]) -> None:
    """Raise ``BadAudio`` if an open file has another size or time than when it was checked."""
    stat = os.fstat(file.fileno())
    if any(name in ref and ref[name] != getattr(stat, f"st_{name}") for name in ("size", "mtime_ns")):
        raise BadAudio(f"{ref['path']}: {CHANGED}")


def check_unchanged(file: Any, path: str | Path, expected: str | None) -> None:
    """Raise ``BadAudio`` unless an open file has the content that was checked; None checks nothing."""
    if expected is not None and content_hash(file) != expected:
        raise BadAudio(f"{path}: {CHANGED}")


def read_samples(path: str | Path, rate: int, expected: str | None = None) -> Any:
    """Decode a file to mono float32 at ``rate`` Hz, shape ``(samples,)``; a peak above 1 is scaled down to 1.

    Raises:
        BadAudio: the file can no longer be decoded, or its content is not the one with the hash ``expected``.
    """
    import numpy
    import soxr

    from lm_eval_tasks.audio.decode import finite, read_all

    with reading(path), open_regular(path) as file:
        check_unchanged(file, path, expected)
        samples, native, _ = read_all(file)
        mono = numpy.nan_to_num(samples, copy=False, posinf=0.0, neginf=0.0).mean(axis=1)
        if native != rate:
            mono = soxr.resample(mono, native, rate)
        return finite(mono).astype(numpy.float32)
