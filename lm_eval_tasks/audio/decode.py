"""Decoding by libsndfile, whatever a file is called and whatever its header leaves open."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import replace

import numpy
import soundfile

from lm_eval_tasks.audio.formats import SEVERAL, Layout, read_layout
from lm_eval_tasks.errors import BadAudio

_BLOCK = 1 << 17
"""Samples that are decoded at once, over all channels."""

_END = 1024
"""Frames that are read to see that a file has an end."""

_FAR = 1 << 40
_TAIL = 1 << 16
_UNKNOWN = 1 << 60
"""So many frames or more are libsndfile's way to say that a header does not tell."""


class Sound(soundfile.SoundFile):
    """An open clip that is read straight on.

    After each block soundfile seeks to where it is, which fails in some whole files and makes libmpg123 complain.
    """

    def __init__(self, file: io.FileIO, layout: Layout | None = None, end: int | None = None) -> None:
        size = os.fstat(file.fileno()).st_size
        self.source, self.layout = file, layout or read_layout(file, size)
        file.seek(self.layout.start)
        endless = self.layout.is_mpeg and not self.layout.counted
        end = next(iter(self.layout.parts), end)
        if endless or self.layout.patch or end:
            super().__init__(_Told(file, self.layout, _FAR if endless else end or size))
        else:  # libsndfile begins where the descriptor stands, and no name can mislead it
            super().__init__(file.fileno(), closefd=False)

    def seekable(self) -> bool:
        """Not, as far as soundfile need know."""
        return False

    @property
    def stated(self) -> int | None:
        """Frames that the header states of all; None where it does not, or where libsndfile has made an estimate."""
        return None if self.layout.parts else self._stated

    @property
    def _stated(self) -> int | None:
        is_estimate = self.layout.is_mpeg and not self.layout.counted
        return None if is_estimate or self.frames >= _UNKNOWN else self.frames

    def blocks_to_the_end(self, dtype: str = "float32") -> Iterator[numpy.ndarray]:
        """What there is from here on, shape ``(frames, channels)``, over all recordings that were put together.

        Raises:
            BadAudio: their rates or channels differ.
        """
        yield from self._blocks(dtype)
        ends = (*self.layout.parts[1:], os.fstat(self.source.fileno()).st_size)
        for part, end in zip(self.layout.parts, ends, strict=False):
            with Sound(self.source, replace(self.layout, start=part, parts=()), end) as sound:
                if (sound.samplerate, sound.channels) != (self.samplerate, self.channels):
                    raise BadAudio(SEVERAL)
                yield from sound._blocks(dtype)

    def _blocks(self, dtype: str) -> Iterator[numpy.ndarray]:
        behind = self.tell() if super().seekable() else 0  # of a codec without seeking nothing has been read before
        left = _UNKNOWN if self._stated is None else self._stated - behind
        while left > 0 and len(block := self.read(min(left, max(1, _BLOCK // self.channels)), dtype, always_2d=True)):
            left -= len(block)  # what follows the last frame may be a tag, which a decoder takes for damage
            yield block

    def count(self, most: int) -> int:
        """How many frames there are from here on; it stops counting beyond ``most``."""
        there = 0
        for block in self.blocks_to_the_end():
            there += len(block)
            if there > most:
                break
        return there

    def count_by_a_look_at_the_end(self) -> int | None:
        """The frames that the header states if the last of them can be read, else None."""
        if self.stated is None or self.layout.is_mpeg or not super().seekable():
            return None
        try:
            if self.stated > 2 * _END:
                self.seek(self.stated - _END)
            return self.stated if len(self.read(_END)) else None
        except soundfile.SoundFileError:
            return None


class _Told(io.RawIOBase):
    """A file from ``layout.start`` on, with its patch, and with the length that libsndfile is to believe in.

    An MP3 without a count of its frames is read to the length that libmpg123 estimates from the first one, be it a
    fifth of the real one; told of a file without end, it reads what there is.
    """

    def __init__(self, file: io.FileIO, layout: Layout, length: int) -> None:
        self.file, self.start, self.length, self.at = file, layout.start, length - layout.start, 0
        self.patch_at, self.patch = layout.patch or (0, b"")

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: self.length}[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: memoryview) -> int:
        if self.at >= _FAR - _TAIL:  # libmpg123 looks for tags at the end that it was told of
            count = max(0, min(len(buffer), self.length - self.at))
            buffer[:count] = bytes(count)
            self.at += count
            return count
        buffer = memoryview(buffer)[: max(0, self.length - self.at)]  # another recording may follow
        begin = self.start + self.at
        self.file.seek(begin)
        count = self.file.readinto(buffer) or 0
        for number, byte in enumerate(self.patch, self.patch_at - begin):
            if 0 <= number < count:
                buffer[number : number + 1] = bytes([byte])
        self.at += count
        return count


def read_all(file: io.FileIO, dtype: str = "float32") -> tuple[numpy.ndarray, int, str]:
    """All samples of an open file, shape ``(frames, channels)``, its rate in Hz and how they are coded.

    Raises:
        BadAudio: it cannot be decoded; the text is libsndfile's.
    """
    try:
        with Sound(file) as sound:
            blocks = [*sound.blocks_to_the_end(dtype)]
            samples = numpy.concatenate(blocks) if blocks else numpy.empty((0, sound.channels), dtype)
            return samples, sound.samplerate, sound.subtype
    except soundfile.SoundFileError as error:
        raise BadAudio(f"undecodable ({str(error).rsplit(': ', 1)[-1]})") from None


def finite(samples: numpy.ndarray) -> numpy.ndarray:
    """Float samples without what is no number, scaled down where the peak is above 1."""
    samples = numpy.nan_to_num(samples, copy=False, posinf=0.0, neginf=0.0)
    peak = float(numpy.abs(samples).max(initial=0.0))
    return samples / peak if peak > 1.0 else samples
