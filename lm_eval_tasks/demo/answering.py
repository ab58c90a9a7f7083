"""The demo's listener: it says what it measures in a clip, takes one of the choices that it is given, or small talk."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import soundfile as sf

from lm_eval_tasks.demo import hearing

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


class BadAudioPart(ValueError):
    """An audio part that cannot be heard; the text says why."""


def answer(text: str, audio: list[dict[str, Any]]) -> tuple[str, float]:
    """The listener's answer and how many seconds of audio it heard.

    Args:
        text: of the message.
        audio: its ``input_audio`` and ``audio_url`` parts, with base64 or a data URI in them; nothing is fetched.

    Raises:
        BadAudioPart: a part is malformed or cannot be decoded.
    """
    if not audio:
        return next(reply for pattern, reply in SMALL_TALK.items() if re.search(pattern, text, re.I)), 0.0
    heard = list(map(hear, audio))
    said = " ".join(map(hearing.describe, heard))
    return choose(text, said) or said, sum(m.seconds for m in heard)


def hear(part: dict[str, Any]) -> hearing.Measures:
    """Decode and measure one audio part."""
    try:
        inner = part[part["type"]]
        data = inner.get("data") or inner["url"]
        raw = base64.b64decode(re.sub(r"^data:[^,]*;base64,", "", data), validate=True)
        samples, rate = sf.read(io.BytesIO(raw), always_2d=True)
        return hearing.measure(samples, rate)
    except (LookupError, AttributeError, TypeError, ValueError, sf.SoundFileError) as error:
        raise BadAudioPart(f"the part {part['type']} holds no audio as base64: {error!r}") from error


def choose(prompt: str, heard: str) -> str | None:
    """The letter of the choice that shares most words with what was measured, else the first; None without choices."""
    measured = set(re.findall(r"\w+", heard.lower()))
    choices = CHOICE.findall(prompt)
    shared = {letter: len(measured & set(re.findall(r"\w+", text.lower()))) for letter, text in choices}
    return max(shared, key=shared.__getitem__) if len(choices) > 1 else None
