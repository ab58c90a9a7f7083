"""Where the page finds a sample's clip: a path beside the report, a file URL, or the clip itself inside the page.

A path comes from a samples file, so it is trusted with nothing: a link is only built from a path, and only a file that
begins like audio is ever read into the page.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from lm_eval_tasks.report.records import mapping, text

MAX_CLIP = 25 * 1024 * 1024
MAX_TOTAL = 350 * 1024 * 1024  # browsers refuse strings of about half a gigabyte, and base64 adds a third


@dataclass
class Clips:
    """The clips of a report.

    Attributes:
        report: the HTML file, which relative links start from.
        embed: whether clips are stored in the page.
        embedded: place of the clip in the page -> data URI.
        failed: why a clip has no player -> how many.
    """

    report: Path
    embed: bool = False
    embedded: dict[str, str] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    _seen: dict[Path, tuple[str, str]] = field(default_factory=dict)
    _total: int = 0

    def source(self, doc: dict) -> tuple[str, str]:
        """Returns (source, "") for a doc's clip, or ("", why there is none).

        The source is a relative or file URL, or "#3" for the third embedded clip.
        """
        name = text(mapping(doc.get("audio")).get("path"))
        if not name or "\x00" in name:
            return self._none("the sample names no audio file")
        path = Path(name)
        if not path.is_absolute():
            return self._none("the sample's audio path is not absolute")
        if path not in self._seen:
            self._seen[path] = self._find(path)
        source, reason = self._seen[path]
        return (source, "") if source else self._none(reason)

    def _none(self, reason: str) -> tuple[str, str]:
        self.failed[reason] = self.failed.get(reason, 0) + 1
        return "", reason

    def _find(self, path: Path) -> tuple[str, str]:
        try:
            with path.open("rb") as file:
                start = file.read(16)
            size = path.stat().st_size
        except OSError:
            return "", "the audio file is not on this machine"
        kind = sniff(start)
        if not kind:
            return "", "the audio file does not begin like audio"
        if not self.embed:
            return self._link(path), ""
        if size > MAX_CLIP:
            return "", f"the clip is over {MAX_CLIP // 2**20} MB, too big to embed"
        self._total += size
        if self._total > MAX_TOTAL:
            raise ValueError(
                f"the clips are over {MAX_TOTAL // 2**20} MB together, more than a browser opens: "
                "leave --embed-audio out (the report then plays the files from their folder) or report fewer tasks"
            )
        key = str(len(self.embedded))
        self.embedded[key] = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
        return f"#{key}", ""

    def _link(self, path: Path) -> str:
        home = self.report.resolve().parent
        resolved = path.resolve()
        if resolved.is_relative_to(home):
            return "./" + quote(resolved.relative_to(home).as_posix())
        return resolved.as_uri()


def sniff(start: bytes) -> str:
    """Returns the media type that the first bytes of a file show, or "" where they show no audio."""
    if start[:4] in (b"RIFF", b"RF64") and start[8:12] == b"WAVE":
        return "audio/wav"
    if start[:3] == b"ID3" or (len(start) > 1 and start[0] == 0xFF and start[1] & 0xE6 in (0xE2, 0xE4, 0xE6)):
        return "audio/mpeg"
    if start[:4] == b"fLaC":
        return "audio/flac"
    if start[:4] == b"OggS":
        return "audio/ogg"
    return ""
