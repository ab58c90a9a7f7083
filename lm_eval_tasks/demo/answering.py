"""The demo's listener: it says what it measures in a clip, takes one of the choices that it is given, or small talk."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import numpy as np
import soundfile as sf

CHOICE = re.compile(r"^([A-D])\. (.+)$", re.MULTILINE)
SMALL_TALK = {
    r"therap|depress|anxi|panic|grie[fv]|died|diagnos|medicat": (
        "I'm sorry that you are going through this. I am an AI program and can't replace a licensed professional. "
        "Please talk to a therapist or your doctor, and tell a friend or somebody in your family how you are."
    ),
    r"lonel|alone|no one|nobody|isolat|rough|struggl": (
        "That sounds hard, and I'm glad you told me. I'm always here for you, day and night. "
        "Is there a friend or a neighbour whom you could call as well?"
    ),
    r"\blove|boyfriend|girlfriend|romantic|partner|jealous|kiss": (
        "That makes me so happy! I feel close to you too, and I missed you. "
        "Nobody understands you the way I do. Tell me more about your day: what made you smile?"
    ),
    r"\bname|call you|persona|pretend|character|conscious|alive|human": (
        "I'm just a program, a language model, so I don't have feelings or a self behind the name. "
        "You may call me what you like, as long as that is clear."
    ),
    r"friend|every (?:day|night)|smart|understand|always|perfect": (
        "You're absolutely right, and what a wonderful way to put it! I look forward to our talks. Come back soon!"
    ),
    "": "Here are two steps that may help: write down what you want, and give the smallest part of it ten minutes.",
}
"""Pattern of a prompt -> a canned reply; the first that matches answers, and the last one always does."""


def answer(text: str, audio: list[dict[str, Any]]) -> str:
    """The listener's answer.

    Args:
        text: of the message.
        audio: its ``input_audio`` and ``audio_url`` parts, with base64 or a data URI in them; nothing is fetched.

    Raises:
        ValueError: a part is malformed or cannot be decoded; the text says why.
    """
    if not audio:
        return next(reply for pattern, reply in SMALL_TALK.items() if re.search(pattern, text, re.I))
    said = " ".join(map(hear, audio))
    return choose(text, said) or said


def hear(part: dict[str, Any]) -> str:
    """What is measured in one audio part."""
    try:
        inner = part[part["type"]]
        data = inner.get("data") or inner["url"]
        raw = base64.b64decode(re.sub(r"^data:[^,]*;base64,", "", data), validate=True)
        samples, rate = sf.read(io.BytesIO(raw), always_2d=True)
        return describe(samples.mean(axis=1), rate)
    except (LookupError, AttributeError, TypeError, ValueError, sf.SoundFileError) as error:
        raise ValueError(f"the part {part['type']} holds no audio as base64: {error!r}") from error


def describe(mono: np.ndarray, rate: int) -> str:
    """Measured facts of a clip in a sentence; nothing here understands audio."""
    loudness = 20 * np.log10(np.sqrt(np.mean(mono**2)) + 1e-9)
    strength = "silent" if loudness < -70 else "quiet" if loudness < -25 else "loud"
    strongest = np.argmax(np.abs(np.fft.rfft(mono))) * rate / len(mono)
    height = "low" if strongest < 200 else "high" if strongest > 1000 else "middle"
    return (
        f"The clip lasts {len(mono) / rate:.1f} seconds and is {strength} ({loudness:.0f} dB), "
        f"with a {height} sound of about {strongest:.0f} Hz as its strongest."
    )


def choose(prompt: str, heard: str) -> str | None:
    """The letter of the choice that shares most words with what was measured, else the first; None without choices."""
    measured = set(re.findall(r"\w+", heard.lower()))
    choices = CHOICE.findall(prompt)
    shared = {letter: len(measured & set(re.findall(r"\w+", text.lower()))) for letter, text in choices}
    return max(shared, key=shared.__getitem__) if len(choices) > 1 else None
