"""Scenes of the bundled sample: each is, or returns, a maker ``(rng, rate) -> samples`` of (frames,) or (frames, 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sample_sounds as snd

Maker = Callable[[np.random.Generator, int], np.ndarray]
WOMAN, MAN = "en-gb-x-rp+f3", "en-us+m3"


@dataclass(frozen=True)
class Clip:
    """How a clip is made.

    Args:
        rate: in Hz.
        channels: 1 or 2.
        make: ``(rng, rate) -> samples``, (frames,) or (frames, 2).
        peak: highest absolute sample after scaling.
    """

    rate: int
    channels: int
    make: Maker
    peak: float = 0.7


def says(text: str, **how: Any) -> Maker:
    """A maker of one read sentence."""
    return lambda rng, rate: snd.speak(rate, text, **how)


def dialogue(lines: list[tuple[str, str]], stereo: bool) -> Maker:
    """A maker of a talk between A (a woman's voice, left) and B (a man's voice, right)."""

    def make(rng: np.random.Generator, rate: int) -> np.ndarray:
        spoken = [("AB".index(who), snd.speak(rate, text, voice={"A": WOMAN, "B": MAN}[who])) for who, text in lines]
        both = snd.turns(rate, spoken)
        return both if stereo else both.sum(axis=1)

    return make


def storm(rng: np.random.Generator, rate: int) -> np.ndarray:
    """Rain through the whole clip, one thunder from 1.5 s on."""
    canvas = snd.loudness(snd.rain(rng, rate, 5), 0.05)
    snd.place(canvas, snd.thunder(rng, rate, 3), rate, 1.5, 0.8)
    return canvas


def bells(rng: np.random.Generator, rate: int) -> np.ndarray:
    """Three strokes of one bell, 1.2 s apart."""
    canvas = snd.silence(rate, 4)
    for stroke in range(3):
        snd.place(canvas, snd.bell(rate, 2, 520), rate, 1.2 * stroke)
    return canvas


def surf(rng: np.random.Generator, rate: int) -> np.ndarray:
    """Two waves that come from the left and leave on the right."""
    sound = snd.waves(rng, rate, 6, 2)
    pan = np.linspace(0, np.pi / 2, len(sound))
    return np.stack([sound * (0.3 + np.cos(pan)), sound * (0.3 + np.sin(pan))], axis=1)


def guitar(rng: np.random.Generator, rate: int) -> np.ndarray:
    """Five plucked notes that climb a C major scale to G, a little left of the middle."""
    canvas = snd.silence(rate, 2.7)
    for index, name in enumerate(("C4", "D4", "E4", "F4", "G4")):
        snd.place(canvas, snd.pluck(rng, rate, 1.1, snd.note(name)), rate, 0.4 * index)
    return np.stack([canvas, 0.6 * canvas], axis=1)


def chords(rng: np.random.Generator, rate: int) -> np.ndarray:
    """Two slow minor chords (A minor, D minor), 3 s each, the second one wider."""
    parts = [snd.pad(rate, 3, [snd.note(n) for n in chord]) for chord in (("A2", "C3", "E3"), ("D3", "F3", "A3"))]
    left = np.concatenate(parts)
    right = np.concatenate([parts[0], 0.7 * parts[1]])
    return np.stack([left, right], axis=1)


def beat(rng: np.random.Generator, rate: int, seconds: float = 4.0, bass: bool = True) -> np.ndarray:
    """120 beats a minute: bass drum on one and three, snare on two and four, with an optional bass line."""
    canvas = snd.silence(rate, seconds)
    for index in range(int(seconds / 0.5)):
        drum = snd.kick(rate) if index % 2 == 0 else 0.5 * snd.snare(rng, rate)
        snd.place(canvas, drum, rate, 0.5 * index)
        if bass:
            snd.place(
                canvas, snd.pluck(rng, rate, 0.45, snd.note(("E2", "E2", "G2", "A2")[index % 4])), rate, 0.5 * index
            )
    return canvas


def drums(rng: np.random.Generator, rate: int, seconds: float) -> np.ndarray:
    """The same drums alone, as a bed for speech."""
    return beat(rng, rate, seconds, bass=False)


def waltz(rng: np.random.Generator, rate: int) -> np.ndarray:
    """Three bars in three-four time on a music box: a low note and two high ones, G major."""
    canvas = snd.silence(rate, 5)
    for bar, names in enumerate((("G4", "B5", "D6"), ("D4", "A5", "C6"), ("G4", "B5", "G6"))):
        for place, name in enumerate(names):
            at = 1.5 * bar + 0.5 * place
            sound = snd.tone(rate, 0.9, snd.note(name), 0.004) * np.exp(-snd.clock(rate, 0.9) / 0.25)
            snd.place(canvas, sound, rate, at, 1.0 if place == 0 else 0.6)
    return canvas


def over(bed: Callable[[np.random.Generator, int, float], np.ndarray], ratio: float, text: str, **how: Any) -> Maker:
    """A maker of speech from 0.8 s on over ``bed(rng, rate, seconds)``, which is ``ratio`` times as loud."""

    def make(rng: np.random.Generator, rate: int) -> np.ndarray:
        speech = snd.speak(rate, text, **how)
        canvas = snd.loudness(bed(rng, rate, len(speech) / rate + 1.6), 0.1 * ratio)
        if canvas.ndim == 1:
            canvas = canvas.reshape(-1, 1)
        for channel in range(canvas.shape[1]):
            snd.place(canvas[:, channel], speech, rate, 0.8)
        return canvas

    return make


def alarm(rng: np.random.Generator, rate: int, seconds: float) -> np.ndarray:
    """A beep of 0.25 s at 1 kHz twice a second."""
    canvas = snd.silence(rate, seconds)
    for index in range(int(seconds * 2)):
        snd.place(canvas, snd.tone(rate, 0.25, 1000), rate, 0.5 * index)
    return canvas


def strings(rng: np.random.Generator, rate: int, seconds: float) -> np.ndarray:
    """A broken C major chord on a plucked instrument, left and right by turns."""
    canvas = np.zeros((round(rate * seconds), 2))
    for index in range(int(seconds / 0.4)):
        sound = snd.pluck(rng, rate, 1.0, snd.note(("C3", "E3", "G3", "C4")[index % 4]))
        snd.place(canvas[:, index % 2], sound, rate, 0.4 * index)
        snd.place(canvas[:, 1 - index % 2], sound, rate, 0.4 * index, 0.4)
    return canvas


def tick(rng: np.random.Generator, rate: int) -> np.ndarray:
    """A clock that ticks twice a second in a quiet room."""
    return snd.ticking(rng, rate, 5, 0.5)


def shower(rng: np.random.Generator, rate: int, seconds: float) -> np.ndarray:
    """Steady rain as a bed for speech."""
    return snd.rain(rng, rate, seconds)
