"""Sounds, notes and synthetic voices for the bundled sample; every function returns mono float64 samples.

Args that recur: ``rate`` is the sample rate in Hz, ``seconds`` a length, ``rng`` the only source of randomness.
Speech needs Debian's ``espeak-ng`` (version 1.51 made the bundled files).
"""

from __future__ import annotations

import io
import subprocess

import numpy as np
import soundfile as sf
import soxr

NOTES = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}


def note(name: str) -> float:
    """Frequency in Hz of a note such as ``A4`` or ``Eb3`` (equal temperament, A4 = 440 Hz)."""
    shift = {"b": -1, "#": 1}.get(name[1], 0)
    semitones = NOTES[name[0]] + shift + 12 * (int(name[-1]) - 4) - 9
    return 440.0 * 2 ** (semitones / 12)


def clock(rate: int, seconds: float) -> np.ndarray:
    """The time in seconds of each sample."""
    return np.arange(round(rate * seconds)) / rate


def silence(rate: int, seconds: float) -> np.ndarray:
    """Nothing, for ``seconds``."""
    return np.zeros(round(rate * seconds))


def place(canvas: np.ndarray, sound: np.ndarray, rate: int, at: float, gain: float = 1.0) -> None:
    """Add ``sound`` to ``canvas`` from ``at`` seconds on, cutting what does not fit."""
    start = round(rate * at)
    room = max(0, min(len(sound), len(canvas) - start))
    canvas[start : start + room] += gain * sound[:room]


def loudness(signal: np.ndarray, rms: float) -> np.ndarray:
    """``signal`` scaled to the root mean square ``rms``."""
    return signal * (rms / np.sqrt(np.mean(signal**2)))


def noise(rng: np.random.Generator, rate: int, seconds: float, low: float, high: float) -> np.ndarray:
    """Noise with a flat spectrum between ``low`` and ``high`` Hz, peak 1."""
    white = rng.standard_normal(round(rate * seconds))
    spectrum = np.fft.rfft(white)
    frequency = np.fft.rfftfreq(len(white), 1 / rate)
    spectrum[(frequency < low) | (frequency > high)] = 0
    filtered = np.fft.irfft(spectrum, len(white))
    return filtered / np.max(np.abs(filtered))


def tone(rate: int, seconds: float, frequency: float, fade: float = 0.01) -> np.ndarray:
    """A sine with ``fade`` seconds of ramp at both ends."""
    t = clock(rate, seconds)
    return np.sin(2 * np.pi * frequency * t) * np.clip(np.minimum(t, t[-1] - t) / fade, 0, 1)


def bell(rate: int, seconds: float, frequency: float) -> np.ndarray:
    """One stroke of a bell: partials that are no whole multiples of each other and die away one by one."""
    t = clock(rate, seconds)
    partials = ((0.5, 0.5, 1.5), (1.0, 1.0, 2.0), (1.19, 0.6, 2.6), (1.56, 0.4, 3.4), (2.0, 0.6, 4.0), (2.74, 0.3, 6.0))
    stroke = sum(
        level * np.sin(2 * np.pi * frequency * ratio * t) * np.exp(-fall * t) for ratio, level, fall in partials
    )
    return stroke * np.clip(t / 0.002, 0, 1)


def rain(rng: np.random.Generator, rate: int, seconds: float) -> np.ndarray:
    """Steady rain: bright noise with single drops on top."""
    canvas = 0.35 * noise(rng, rate, seconds, 900, min(9000, rate * 0.45))
    for at in rng.uniform(0, seconds, round(60 * seconds)):
        drop = noise(rng, rate, 0.012, 1500, min(7000, rate * 0.45)) * np.exp(-clock(rate, 0.012) / 0.003)
        place(canvas, drop, rate, float(at), float(rng.uniform(0.05, 0.4)))
    return canvas


def thunder(rng: np.random.Generator, rate: int, seconds: float) -> np.ndarray:
    """One low roll of thunder that swells fast and fades slowly."""
    t = clock(rate, seconds)
    return noise(rng, rate, seconds, 35, 160) * np.clip(t / 0.25, 0, 1) * np.exp(-t / (seconds / 3))


def waves(rng: np.random.Generator, rate: int, seconds: float, count: int) -> np.ndarray:
    """Surf: ``count`` swells of broad noise, with a soft wash between them."""
    t = clock(rate, seconds)
    swell = np.sin(np.pi * count * t / seconds) ** 4
    return noise(rng, rate, seconds, 120, min(5000, rate * 0.45)) * (0.08 + swell)


def ticking(rng: np.random.Generator, rate: int, seconds: float, gap: float) -> np.ndarray:
    """A clock: a click each ``gap`` seconds, higher and lower by turns, in a quiet room."""
    canvas = 0.003 * noise(rng, rate, seconds, 50, 2000)
    t = clock(rate, 0.05)
    for index in range(int((seconds - 0.1) / gap) + 1):
        click = np.sin(2 * np.pi * (2600, 1900)[index % 2] * t) * np.exp(-t / 0.006)
        place(canvas, click, rate, 0.1 + gap * index)
    return canvas


def pluck(rng: np.random.Generator, rate: int, seconds: float, frequency: float) -> np.ndarray:
    """A plucked string (Karplus and Strong, 1983: a noise burst that circulates through an averaging delay line).

    The burst holds one period of the fundamental too, so that each note is as strong as the next.
    """
    period = round(rate / frequency)
    line = 0.5 * rng.uniform(-1, 1, period) + 0.5 * np.sin(2 * np.pi * np.arange(period) / period)
    line -= line.mean()
    blocks = []
    for _ in range(int(np.ceil(rate * seconds / period))):
        blocks.append(line)
        line = 0.997 * 0.5 * (line + np.roll(line, 1))
    return np.concatenate(blocks)[: round(rate * seconds)]


def pad(rate: int, seconds: float, frequencies: list[float]) -> np.ndarray:
    """A soft, sustained chord with slow edges and a few weak overtones."""
    voices = sum(tone(rate, seconds, f * k, 0.35) / k**2 for f in frequencies for k in (1, 2, 3))
    return voices / len(frequencies)


def kick(rate: int) -> np.ndarray:
    """A bass drum: a sine that falls from 150 to 50 Hz."""
    t = clock(rate, 0.22)
    return np.sin(2 * np.pi * (50 * t + 100 * 0.04 * (1 - np.exp(-t / 0.04)))) * np.exp(-t / 0.08)


def snare(rng: np.random.Generator, rate: int) -> np.ndarray:
    """A snare drum: a short burst of noise over a low knock."""
    t = clock(rate, 0.18)
    burst = noise(rng, rate, 0.18, 800, min(8000, rate * 0.45)) * np.exp(-t / 0.05)
    return burst + 0.4 * np.sin(2 * np.pi * 190 * t) * np.exp(-t / 0.04)


def speak(rate: int, text: str, voice: str = "en-gb", speed: int = 160, pitch: int = 50) -> np.ndarray:
    """``text`` read by espeak-ng, without the silence around it, at root mean square 0.1.

    Args:
        voice: an espeak-ng voice and variant, e.g. ``en-us+f3`` (espeak-ng ignores a variant after plain ``en-gb``).
        speed: words a minute.
        pitch: 0 to 99, 50 being the voice's own.
    """
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", text]
    wav = subprocess.run(command, check=True, capture_output=True).stdout
    samples, native = sf.read(io.BytesIO(wav))
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    return loudness(soxr.resample(samples[loud[0] : loud[-1] + 1], native, rate), 0.1)


def turns(rate: int, lines: list[tuple[int, np.ndarray]], gap: float = 0.35) -> np.ndarray:
    """A dialogue (frames, 2): one line ``(speaker, sound)`` after another, each on its speaker's channel."""
    length = sum(len(sound) for _, sound in lines) + round(rate * gap) * (len(lines) - 1)
    canvas, at = np.zeros((length, 2)), 0
    for speaker, sound in lines:
        canvas[at : at + len(sound), speaker] = sound
        at += len(sound) + round(rate * gap)
    return canvas
