"""What the demo's listener measures in a clip, and how it says it.

Nothing here understands audio. The sentences hold measured facts (length, loudness, pauses, onsets, pitch, brightness)
and one guess at the kind of sound from fixed thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FRAME_SECONDS = 0.04
HOP_SECONDS = 0.02
PAUSE_SECONDS = 0.2
QUIET_DB = -32.0
"""A frame this far below the loudest one counts as a pause."""
PITCH_HZ = (65.0, 1000.0)


@dataclass(frozen=True)
class Measures:
    """Facts of one clip.

    Args:
        seconds: length.
        channels: channels of the file; all else is measured on their mean.
        loudness_db: root mean square, in dB relative to full scale.
        pauses: quiet stretches of at least 0.2 s between louder ones.
        onsets: sudden rises of the loudness.
        pitch_hz: median pitch of the frames that have one, None where fewer than one in ten do.
        pitch_spread: spread of that pitch in semitones (half the distance of its 10th and 90th percentile).
        voiced: share of the louder frames that have a pitch, 0 to 1.
        filled: share of the frames that are not quiet, 0 to 1.
        brightness_hz: centre of the spectrum.
        flatness: geometric over arithmetic mean of the spectrum up to 4 kHz: near 0 for tones, towards 1 for noise.
    """

    seconds: float
    channels: int
    loudness_db: float
    pauses: int
    onsets: int
    pitch_hz: float | None
    pitch_spread: float
    voiced: float
    filled: float
    brightness_hz: float
    flatness: float


def measure(samples: np.ndarray, rate: int) -> Measures:
    """Measure a clip.

    Args:
        samples: (frames, channels), -1 to 1, at least one frame.
        rate: sample rate in Hz.
    """
    mono = samples.mean(axis=1)
    frames = split(mono, rate)
    energy = np.sqrt(np.mean(frames**2, axis=1))
    level = 20 * np.log10(energy / max(energy.max(), 1e-9) + 1e-9)
    loud = level > QUIET_DB
    pitches = np.array([pitch(frame, rate) for frame in frames[loud]])
    found = pitches[pitches > 0]
    voiced = len(found) / max(1, len(pitches))
    power = np.mean(np.abs(np.fft.rfft(frames * np.hanning(frames.shape[1]), axis=1)) ** 2, axis=0) + 1e-12
    frequency = np.fft.rfftfreq(frames.shape[1], 1 / rate)
    band = power[(frequency >= 100) & (frequency <= 4000)]
    low, high = np.percentile(found, [10, 90]) if len(found) else (1.0, 1.0)
    return Measures(
        seconds=len(samples) / rate,
        channels=samples.shape[1],
        loudness_db=float(20 * np.log10(np.sqrt(np.mean(mono**2)) + 1e-9)),
        pauses=inner_runs(~loud, round(PAUSE_SECONDS / HOP_SECONDS)),
        onsets=rises(energy),
        pitch_hz=float(np.median(found)) if voiced >= 0.1 else None,
        pitch_spread=float(6 * np.log2(high / low)),
        voiced=voiced,
        filled=float(np.mean(loud)),
        brightness_hz=float(np.sum(frequency * power) / np.sum(power)),
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


def inner_runs(quiet: np.ndarray, least: int) -> int:
    """How many runs of at least ``least`` quiet frames lie between louder frames."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], quiet.astype(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    return int(np.sum((ends - starts >= least) & (starts > 0) & (ends < len(quiet))))


def rises(energy: np.ndarray) -> int:
    """How many times the energy rises by a quarter of its maximum within one hop, counted once in 0.12 s."""
    steep = np.flatnonzero(np.diff(energy, prepend=0.0) > 0.25 * energy.max())
    return int(np.sum(np.diff(steep, prepend=-100) > round(0.12 / HOP_SECONDS))) if len(steep) else 0


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


def describe(samples: np.ndarray, rate: int) -> str:
    """One or two sentences on a clip, as ``measure`` takes it."""
    m = measure(samples, rate)
    guess = kind(m)
    if guess == "silence":
        return f"The clip lasts {m.seconds:.1f} seconds and is silent."
    strength = "quiet" if m.loudness_db < -28 else "loud" if m.loudness_db > -16 else "of medium loudness"
    colour = "dark" if m.brightness_hz < 500 else "bright" if m.brightness_hz > 2000 else "neither dark nor bright"
    tone = f"a pitch of about {m.pitch_hz:.0f} Hz" if m.pitch_hz else "no clear pitch"
    sides = {1: "one channel", 2: "two channels"}.get(m.channels, f"{m.channels} channels")
    return (
        f"The clip lasts {m.seconds:.1f} seconds on {sides} and is {strength} ({m.loudness_db:.0f} dB), "
        f"with {amount(m.pauses, 'pause')} and {amount(m.onsets, 'sudden onset')}. "
        f"It sounds like {guess}: {tone}, and a {colour} spectrum (centre {m.brightness_hz:.0f} Hz)."
    )


def amount(count: int, noun: str) -> str:
    """``no pauses``, ``1 pause``, ``2 pauses``."""
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"
