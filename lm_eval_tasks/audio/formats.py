"""What the bytes of an audio file tell before it is decoded: where the audio begins and whether all of it is there.

libsndfile takes a truncated file for a shorter one, so that the sizes which a header claims are read here.
"""

from __future__ import annotations

import io
import itertools
import re
import struct
from dataclasses import dataclass

from lm_eval_tasks.errors import BadAudio

SEVERAL = "several recordings in one file, of different rates or channels"
"""Why joined recordings are bad that no decoder reads to their end."""

_SLACK = 128
"""Bytes that a header may claim too many: a program that counted the header, or a pad byte."""

_PLACEHOLDER = 0x7F000000
"""What is claimed from here on (2.1 GB) stands for "not known": who streams writes 0x7ffff000, 0xffffffff, ..."""

_WINDOW = 1 << 20  # bytes that are searched at once
_MOST_CHUNKS = 1000
_AU = (b".snd", b"dns.")
_MOST_PAGES = 200_000  # of an Ogg file: an hour has some 3,600 to 180,000
_MOST_TAIL = 2 * 65_307  # bytes behind the last page of an Ogg file; no page is longer than half of that
_W64 = bytes.fromhex("f3acd3118cd100c04f8edb8a")


@dataclass(frozen=True)
class _Chunks:
    """How a container lays out its chunks.

    Attributes:
        first: offset of the first chunk.
        name: bytes of a chunk's name.
        size: ``struct`` format of its size.
        whole: whether the size counts name and size as well.
        align: what the chunks' lengths are rounded up to.
        samples: name of the chunk that holds the audio.
    """

    first: int
    name: int
    size: str
    whole: bool
    align: int
    samples: bytes


_LITTLE = _Chunks(12, 4, "<I", False, 2, b"data")
_CONTAINERS = {
    b"RIFF": _LITTLE,
    b"RF64": _LITTLE,
    b"BW64": _LITTLE,
    b"RIFX": _Chunks(12, 4, ">I", False, 2, b"data"),
    b"FORM": _Chunks(12, 4, ">I", False, 2, b"SSND"),
    b"caff": _Chunks(8, 4, ">q", False, 1, b"data"),
    b"riff": _Chunks(40, 16, "<Q", True, 8, b"data" + _W64),  # Wave64
}


@dataclass(frozen=True)
class Layout:
    """What the bytes of a file tell.

    Attributes:
        magic: the first four bytes after ID3 tags.
        start: where the audio file begins: behind ID3 tags.
        is_cut: whether bytes are missing that the file itself says it has.
        counted: whether the header of an MP3 states the number of its frames.
        patch: offset and bytes of a size that was never filled in and that libsndfile can't do without, or of a count
            of frames that is not that of the whole file.
        parts: where further recordings begin that were put behind the first one (chained Ogg; joined WAV, FLAC, AU).
    """

    magic: bytes
    start: int = 0
    is_cut: bool = False
    counted: bool = False
    patch: tuple[int, bytes] | None = None
    parts: tuple[int, ...] = ()

    @property
    def is_mpeg(self) -> bool:
        """Whether it begins with a frame of MPEG audio (MP3, MP2)."""
        return bool(_mpeg_frame(self.magic))


def read_layout(file: io.FileIO, size: int) -> Layout:
    """Look at an open file of ``size`` bytes. Reads headers only, of Ogg those of its pages, of MP3 and FLAC all."""
    start = _after_tags(file, size)
    head = _read(file, start, 16)
    magic = head[:4]
    if magic in _CONTAINERS:
        is_cut, patch = _container(file, magic, start, size)
        parts = _joined(file, start, size) if not patch else ()
        is_cut |= bool(parts) and _container(file, magic, parts[-1], size)[0]
        return Layout(magic, start, is_cut, patch=patch, parts=parts)
    if magic in _AU and len(head) >= 12:
        parts = _joined(file, start, size)
        last = (start, *parts)[-1]
        offset, claimed = _au_head(_read(file, last, 12))
        return Layout(magic, start, _lacks(claimed, size - last - offset), parts=parts)
    if magic == b"fLaC":
        return Layout(magic, start, parts=_flac_parts(file, start, size))
    if magic == b"OggS":
        is_cut, parts = _ogg(file, start, size)
        return Layout(magic, start, is_cut, parts=parts)
    if _mpeg_frame(magic):
        counted, claimed, tag = _mpeg_count(_read(file, start, 256))
        if counted and claimed and _mpeg_goes_on(file, start, start + claimed, size):  # others were put behind it
            return Layout(magic, start, patch=(start + tag, bytes(4)))
        is_cut = claimed - claimed // 100 > size - start if counted else _mpeg_is_cut(file, start, size)
        return Layout(magic, start, is_cut, counted)
    return Layout(magic, start)


def _read(file: io.FileIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)


def _after_tags(file: io.FileIO, size: int) -> int:
    """Where the audio begins: behind as many ID3 tags as there are, whose sizes have 7 bits a byte."""
    start = 0
    for _ in range(_MOST_CHUNKS):
        head = _read(file, start, 10)
        if head[:3] != b"ID3" or len(head) < 10 or max(head[6:10]) > 127:
            break
        length = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
        start += 10 + length + (10 if head[5] & 0x10 else 0)
    return start


def _lacks(claimed: int, there: int) -> bool:
    return 0 < claimed < _PLACEHOLDER and claimed > there + _SLACK


def _container(file: io.FileIO, magic: bytes, start: int, size: int) -> tuple[bool, tuple[int, bytes] | None]:
    """Whether the chunk of samples claims more than there is, and the patch if it does not tell."""
    layout = _CONTAINERS[magic]
    width = layout.name + struct.calcsize(layout.size)
    position, long = start + layout.first, None
    for _ in range(_MOST_CHUNKS):
        head = _read(file, position, width)
        if len(head) < width:
            break
        name, claimed = head[: layout.name], struct.unpack(layout.size, head[layout.name :])[0]
        inside = position + width
        length = claimed - width if layout.whole else claimed
        if name == b"ds64":
            long = inside + 8
        if name == layout.samples:
            there = size - inside
            if long is not None and claimed == 0xFFFFFFFF:
                length = int.from_bytes(_read(file, long, 8), "little")
                if not 0 < length < 1 << 63:
                    return False, (long, struct.pack("<Q", there))
            if magic == b"caff" and claimed < 0:
                return False, (inside - 8, struct.pack(">q", there))
            if length == 0 and layout.samples == b"data" and not _is_chunk(_read(file, inside, width), layout, there):
                return False, (inside - 4, struct.pack(layout.size, there)) if there > 0 else None
            return _lacks(length, there), None
        if length < 0:
            break
        position = inside + length + -length % layout.align
    return False, None


def _is_chunk(head: bytes, layout: _Chunks, there: int) -> bool:
    """Whether this is the head of another chunk, and so the one before it really empty."""
    if len(head) < layout.name + 4 or not head[: layout.name].isascii():
        return False
    return 0 < struct.unpack(layout.size, head[layout.name :])[0] <= there


def _ogg(file: io.FileIO, start: int, size: int) -> tuple[bool, tuple[int, ...]]:
    """Whether pages are missing or the last one is cut, and where further recordings begin.

    The pages of a stream are numbered. The last one must be as long as its own table of segments says, with no more
    than a tag behind it. A recording begins at a page that begins a stream and does not follow another such page.
    """
    position, parts, beginning, numbers = start, [], True, {}
    for _ in range(_MOST_PAGES):
        if position >= size or len(parts) >= _MOST_CHUNKS:
            break
        head = _read(file, position, 27 + 255)
        if head[:5] != b"OggS\0":
            found = _read(file, position, 1 << 17).find(b"OggS\0", 1)
            if found < 0:  # a tag, or the rest of a download that has the room for it already
                return size - position > _MOST_TAIL, tuple(parts)
            position += found
            continue
        if len(head) < 27:
            return True, tuple(parts)
        begins = bool(head[5] & 2)
        if begins and not beginning:
            parts.append(position)
        beginning = begins
        stream, number = head[14:18], int.from_bytes(head[18:22], "little")
        if not begins and number > numbers.get(stream, number):
            return True, tuple(parts)
        numbers[stream] = number + 1
        segments = head[27 : 27 + head[26]]
        position += 27 + head[26] + sum(segments)
    return position > size, tuple(parts)


def _flac_parts(file: io.FileIO, start: int, size: int) -> tuple[int, ...]:
    """Where further FLAC files begin: at the mark with the head of the block that must follow it."""
    position, parts = start + 4, []
    while position < size and len(parts) < _MOST_CHUNKS:
        found = re.search(rb"fLaC[\x00\x80]\x00\x00\x22", _read(file, position, _WINDOW))
        if found:
            parts.append(position + found.start())
        position += found.end() if found else _WINDOW - 7  # bytes of a mark that begins at the window's end
    return tuple(parts)


def _au_head(head: bytes) -> tuple[int, int]:
    """Where the samples begin, and how many bytes they are said to have."""
    return struct.unpack(">II" if head[:4] == b".snd" else "<II", head[4:12])


def _joined(file: io.FileIO, start: int, size: int) -> tuple[int, ...]:
    """Where further WAV or AU files begin: each where the one before says that it ends."""
    position, parts = start, []
    while position < size and len(parts) <= _MOST_CHUNKS and (length := _length(_read(file, position, 12))):
        parts.append(position)
        position += length
    return tuple(parts[1:])


def _length(head: bytes) -> int:
    """How long a WAV or AU file says to be, by its first 12 bytes; 0 for anything else."""
    if head[:4] == b"RIFF" and head[8:] == b"WAVE":
        length = int.from_bytes(head[4:8], "little")
        return 8 + length + length % 2
    return sum(_au_head(head)) if head[:4] in _AU and len(head) == 12 else 0


_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_KBPS = {
    (3, 1): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (3, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (2, 1): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Bit rates by version (3: MPEG-1, else 2) and layer code (1: III, 2: II), as ISO 11172-3 and 13818-3 list them."""


def _mpeg_frame(head: bytes) -> int | None:
    """The length in bytes of the MPEG audio frame (layer II or III) that a header begins, or None."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    rate, bits = head[2] >> 2 & 3, head[2] >> 4
    if version == 1 or layer not in (1, 2) or rate == 3 or not 0 < bits < 15:
        return None
    kbps = _KBPS[3 if version == 3 else 2, layer if version == 3 else 1][bits - 1]
    per_byte = 72_000 if version != 3 and layer == 1 else 144_000
    return per_byte * kbps // _RATES[version][rate] + (head[2] >> 1 & 1)


def _mpeg_count(head: bytes) -> tuple[bool, int, int]:
    """Whether the first frame counts the frames, how many bytes of audio it claims (0 where it does not), and where."""
    if b"VBRI" in head:
        at = head.index(b"VBRI")
        return True, int.from_bytes(head[at + 10 : at + 14], "big"), at
    for tag in (b"Xing", b"Info"):
        if tag in head:
            at = head.index(tag) + 4
            flags = int.from_bytes(head[at : at + 4], "big")
            at += 8 if flags & 1 else 4
            claimed = int.from_bytes(head[at : at + 4], "big") if flags & 2 else 0
            return bool(flags & 1), claimed, head.index(tag)
    return False, 0, 0


def _mpeg_goes_on(file: io.FileIO, start: int, at: int, size: int) -> bool:
    """Whether frames of MPEG audio follow behind what the first one counts; what is there may be tags as well.

    Raises:
        BadAudio: they are of another rate or other channels, where every decoder ends.
    """
    kind = _mpeg_kind(_read(file, start, 4))
    rest = _read(file, at, max(0, size - at))
    for found in itertools.islice(_MPEG_HEAD.finditer(rest), _MOST_PLACES):
        place = position = found.start()
        frames = 0
        while frames < _IN_A_ROW and (length := _mpeg_frame(rest[position : position + 4])):
            position, frames = position + length, frames + 1
        if frames == _IN_A_ROW:
            if _mpeg_kind(rest[place : place + 4]) != kind:
                raise BadAudio(SEVERAL)
            return True
    return False


def _mpeg_kind(head: bytes) -> tuple[int, int, bool]:
    """Version, rate and whether it is mono, as the header of a frame has them."""
    return head[1] & 0x18, head[2] & 0x0C, head[3] >= 0xC0


_MPEG_HEAD = re.compile(rb"\xff[\xe2-\xe5\xf2-\xf5\xfa-\xfd][\x10-\xef]")
_MOST_PLACES = 100_000
"""Places that look like a frame's header and of which no other follows; no tag has more."""
_IN_A_ROW = 8
"""So many headers of frames, each where the one before says that it ends, are no chance."""


def _mpeg_is_cut(file: io.FileIO, start: int, size: int) -> bool:
    """Whether the last frame of an MP3 is not whole; only its own frames tell where none is counted in a header."""
    file.seek(start)
    data = memoryview(file.read(size - start))
    position, kind = 0, _mpeg_kind(bytes(data[:4]))
    while length := _mpeg_frame(head := bytes(data[position : position + 4])):
        if _mpeg_kind(head) != kind:
            raise BadAudio(SEVERAL)
        position += length
    return position > len(data)
