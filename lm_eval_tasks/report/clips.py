"""Where the page finds a sample's clip: a path beside the report, a file URL, or the clip itself inside the page.

A path comes from a samples file, so it is trusted with nothing: a link is only built from a path, and only what begins
like audio is ever read, decoded and stored in the page, as MP3 at 16 kHz with one channel.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from lm_eval_tasks.audio.clips import inspect_audio, read_samples
from lm_eval_tasks.errors import BadAudio
from lm_eval_tasks.files import open_regular
from lm_eval_tasks.runs.plain import mapping, text

RATE = 16_000


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
    failed: Counter[str] = field(default_factory=Counter)
    _sources: dict[Path, tuple[str, str]] = field(default_factory=dict)

    def embed(self, docs: Iterable[dict]) -> None:
        """Stores the clips of docs in the page until the room is used up, the first first."""
        queue = iter(dict.fromkeys(path for path, fault in map(_clip, docs) if not fault))
        with ThreadPoolExecutor(4) as pool:
            while self.room > 0 and (some := list(islice(queue, 32))):
                for path, (data, fault) in zip(some, pool.map(_encoded, some), strict=True):
                    if fault:
                        self._sources[path] = ("", fault)
                    elif len(data) <= self.room:
                        self.room -= len(data)
                        key = str(len(self.embedded))
                        self._sources[path], self.embedded[key] = (f"#{key}", ""), data
                    else:
                        self.room = 0

    def source(self, doc: dict) -> tuple[str, str]:
        """Returns (source, "") for a doc's clip, or ("", why there is none).

        The source is a relative or file URL, or "#3" for the third embedded clip.
        """
        path, fault = _clip(doc)
        source, fault = self._sources.get(path, ("", fault))
        if fault:
            self.failed[fault] += 1
        elif not source:
            home, resolved = self.report.resolve().parent, path.resolve()
            inside = resolved.is_relative_to(home)
            source = "./" + quote(resolved.relative_to(home).as_posix()) if inside else resolved.as_uri()
        return source, fault


def _clip(doc: dict) -> tuple[Path, str]:
    """Returns the path of a doc's clip, and why it can't be played ("" where it can)."""
    name = text(mapping(doc.get("audio")).get("path"))
    if not name or "\x00" in name:
        return Path(), "the sample names no audio file"
    path = Path(name)
    if not path.is_absolute():
        return path, "the sample's audio path is not absolute"
    try:
        with open_regular(path) as file:
            return path, "" if is_audio(file.read(16)) else "the audio file does not begin like audio"
    except OSError:
        return path, "the audio file is not on this machine"


def _encoded(path: Path) -> tuple[str, str]:
    """Returns a clip as a data URI of MP3, or why it can't be made one."""
    import soundfile

    try:
        inspect_audio(path)
        samples, buffer = read_samples(path, RATE), io.BytesIO()
        soundfile.write(buffer, samples, RATE, format="MP3", subtype="MPEG_LAYER_III", compression_level=0.6)
    except (BadAudio, OSError, ValueError, RuntimeError, MemoryError):
        return "", "the clip is damaged or longer than ten minutes"
    return f"data:audio/mpeg;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}", ""


def is_audio(start: bytes) -> bool:
    """Whether the first 16 bytes of a file are those of WAV, MP3, FLAC or Ogg."""
    wav = start[:4] in (b"RIFF", b"RF64") and start[8:12] == b"WAVE"
    mp3 = start[:3] == b"ID3" or (len(start) > 1 and start[0] == 0xFF and start[1] & 0xE6 in (0xE2, 0xE4, 0xE6))
    return wav or mp3 or start[:4] in (b"fLaC", b"OggS")
