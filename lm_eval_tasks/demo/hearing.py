"""What the demo's listener measures in a clip, and how it says it.

Nothing here understands audio. The sentences hold measured facts and one guess at the kind of sound from thresholds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FRAME_SECONDS = 0.04
HOP_SECONDS = 0.02
QUIET_DB = -32.0
"""A frame this far below the loudest one counts as a pause."""
PITCH_HZ = (65.0, 1000.0)


class Measures(NamedTuple):
    """Facts of one clip.

    Attributes:
        seconds: length.
        loudness_db: root mean square, in dB relative to full scale.
        pitch_hz: median pitch of the frames that have one, None where fewer than one in ten do.
        voiced: share of the louder frames that have a pitch, 0 to 1.
        filled: share of the frames that are not quiet, 0 to 1.
        flatness: geometric over arithmetic mean of the spectrum up to 4 kHz: near 0 for tones, towards 1 for noise.
    """

    seconds: float
    loudness_db: float
    pitch_hz: float | None
    voiced: float
    filled: float
    flatness: float


def measure(samples: np.ndarray, rate: int) -> Measures:
    """Measure a clip.

    Args:
        samples: (frames, channels), -1 to 1, at least one frame; all is measured on the mean of the channels.
        rate: sample rate in Hz.
    """
    mono = samples.mean(axis=1)
    frames = split(mono, rate)
    energy = np.sqrt(np.mean(frames**2, axis=1))
    loud = 20 * np.log10(energy / max(energy.max(), 1e-9) + 1e-9) > QUIET_DB
    pitches = np.array([pitch(frame, rate) for frame in frames[loud]])
    found = pitches[pitches > 0]
    voiced = len(found) / max(1, len(pitches))
    power = np.mean(np.abs(np.fft.rfft(frames * np.hanning(frames.shape[1]), axis=1)) ** 2, axis=0) + 1e-12
    frequency = np.fft.rfftfreq(frames.shape[1], 1 / rate)
    band = power[(frequency >= 100) & (frequency <= 4000)]
    return Measures(
        seconds=len(samples) / rate,
        loudness_db=float(20 * np.log10(np.sqrt(np.mean(mono**2)) + 1e-9)),
        pitch_hz=float(np.median(found)) if voiced >= 0.1 else None,
        voiced=voiced,
        filled=float(np.mean(loud)),
        flatness=float(np.exp(np.mean(np.log(band))) / np.mean(band)),
    )


def split(mono: np.ndarray, rate: int) -> np.ndarray:
    """Overlapping frames (count, length) of 40 ms, one each 20 ms; a shorter clip is padded to one frame."""
    length, hop = round(FRAME_SECONDS * rate), round(HOP_SECONDS * rate)
    padded = np.pad(mono, (0, max(0, length - len(mono))))
    return np.lib.stride_tricks.sliding_window_view(padded, length)[::hop]


def pitch(frame: np.ndarray, rate: int) -> float:
    """The frame's pitch in Hz by autocorrelation, 0 where it repeats too little to have one."""
    centred = frame - frame.mean()
    spectrum = np.fft.rfft(centred, 2 * len(centred))
    likeness = np.fft.irfft(np.abs(spectrum) ** 2)[: len(centred)]
    first, last = int(rate / PITCH_HZ[1]), min(int(rate / PITCH_HZ[0]), len(centred) - 1)
    if likeness[0] <= 1e-9 or last <= first:
        return 0.0
    curve = likeness[first:last] / likeness[0] * len(centred) / (len(centred) - np.arange(first, last))
    best = float(curve.max())
    peaks = 1 + np.flatnonzero((curve[1:-1] >= curve[:-2]) & (curve[1:-1] > curve[2:]) & (curve[1:-1] > 0.85 * best))
    if best < 0.55 or not len(peaks):
        return 0.0
    return rate / (first + int(peaks[0]))


def kind(m: Measures) -> str:
    """A guess at what the clip holds, from thresholds alone."""
    if m.loudness_db < -70:
        return "silence"
    if m.filled < 0.4:
        return "short sounds or clicks with near silence between them"
    if m.voiced < 0.25:
        return "noise, as of rain, wind or water"
    if m.pitch_hz is not None and m.pitch_hz < 350 and m.flatness > 0.15:
        return "speech, perhaps with something behind it"
    return "music or another tonal sound"


def describe(m: Measures) -> str:
    """A clip's measures in a sentence or two."""
    strength = "quiet" if m.loudness_db < -28 else "loud" if m.loudness_db > -16 else "of medium loudness"
    tone = f"a pitch of about {m.pitch_hz:.0f} Hz" if m.pitch_hz else "no clear pitch"
    return (
        f"The clip lasts {m.seconds:.1f} seconds and is {strength} ({m.loudness_db:.0f} dB). "
        f"It sounds like {kind(m)}, with {tone}."
    )
