"""Where the page finds a sample's clip: a path beside the report, a file URL, or the clip itself inside the page.

A path comes from a samples file, so it is trusted with nothing: a link is only built from a path, and only what begins
like audio is ever read, decoded and stored in the page, as MP3 at 16 kHz with one channel.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from lm_eval_tasks.runs.plain import mapping, text

RATE = 16_000
MAX_SECONDS = 600


@dataclass
class Clips:
    """The clips of a report.

    Attributes:
        report: the HTML file, which relative links start from.
        room: bytes that clips may still take in the page; 0 stores none.
        embedded: place of the clip in the page -> data URI.
        failed: why a clip has no player -> how many samples.
    """

    report: Path
    room: int = 0
    embedded: dict[str, str] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    _places: dict[Path, str] = field(default_factory=dict)
    _unusable: dict[Path, str] = field(default_factory=dict)

    def embed(self, docs: Iterable[dict]) -> None:
        """Stores the clips of docs in the page until the room is used up, the first first."""
        paths = list(dict.fromkeys(path for doc in docs if isinstance(path := _path(doc), Path) and not _fault(path)))
        queue = iter(paths)
        with ThreadPoolExecutor(4) as pool:
            while self.room > 0 and (some := list(islice(queue, 32))):
                for path, (data, fault) in zip(some, pool.map(_encoded, some), strict=True):
                    if fault:
                        self._unusable[path] = fault
                    elif len(data) <= self.room:
                        self.room -= len(data)
                        self._places[path] = key = str(len(self.embedded))
                        self.embedded[key] = data
                    else:
                        self.room = 0

    def source(self, doc: dict) -> tuple[str, str]:
        """Returns (source, "") for a doc's clip, or ("", why there is none).

        The source is a relative or file URL, or "#3" for the third embedded clip.
        """
        path = _path(doc)
        if isinstance(path, Path) and path in self._places:
            return f"#{self._places[path]}", ""
        fault = path if isinstance(path, str) else self._unusable.get(path) or _fault(path)
        if fault:
            self.failed[fault] = self.failed.get(fault, 0) + 1
            return "", fault
        home, resolved = self.report.resolve().parent, path.resolve()
        if resolved.is_relative_to(home):
            return "./" + quote(resolved.relative_to(home).as_posix()), ""
        return resolved.as_uri(), ""


def _path(doc: dict) -> Path | str:
    """Returns the path of a doc's clip, or why there is none."""
    name = text(mapping(doc.get("audio")).get("path"))
    if not name or "\x00" in name:
        return "the sample names no audio file"
    return Path(name) if Path(name).is_absolute() else "the sample's audio path is not absolute"


def _fault(path: Path) -> str:
    """Returns why a file can't be played ("" where it can)."""
    try:
        with path.open("rb") as file:
            return "" if is_audio(file.read(16)) else "the audio file does not begin like audio"
    except OSError:
        return "the audio file is not on this machine"


def _encoded(path: Path) -> tuple[str, str]:
    """Returns a clip as a data URI of MP3, or why it can't be made one."""
    import soundfile
    import soxr

    try:
        with soundfile.SoundFile(path) as file:
            if file.frames > MAX_SECONDS * file.samplerate:
                return "", "the clip is too long to embed"
            samples, rate = file.read(dtype="float32", always_2d=True), file.samplerate
        mono = soxr.resample(samples.mean(axis=1), rate, RATE)
        buffer = io.BytesIO()
        soundfile.write(buffer, mono, RATE, format="MP3", subtype="MPEG_LAYER_III", compression_level=0.6)
    except (OSError, ValueError, RuntimeError, MemoryError):
        return "", "the clip can't be decoded"
    return f"data:audio/mpeg;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}", ""


def is_audio(start: bytes) -> bool:
    """Whether the first 16 bytes of a file are those of WAV, MP3, FLAC or Ogg."""
    wav = start[:4] in (b"RIFF", b"RF64") and start[8:12] == b"WAVE"
    mp3 = start[:3] == b"ID3" or (len(start) > 1 and start[0] == 0xFF and start[1] & 0xE6 in (0xE2, 0xE4, 0xE6))
    return wav or mp3 or start[:4] in (b"fLaC", b"OggS")
