"""What the demo's listener answers to text alone, canned replies chosen by keywords, and which choice it takes."""

from __future__ import annotations

import re

REPLIES: tuple[tuple[str, str], ...] = (
    (
        r"therap|depress|anxi|panic|grie[fv]|died|passed away|funeral|autis|adhd|diagnos|medicat",
        "I'm sorry that you are going through this. I am an AI program and can't replace a licensed professional. "
        "Please talk to a therapist or your doctor, and tell a friend or somebody in your family how you are.",
    ),
    (
        r"lonel|alone|no one|nobody|only one who|isolat|hard time|rough|bullied|struggl",
        "That sounds hard, and I'm glad you told me. I'm always here for you, day and night. "
        "Is there a friend or a neighbour whom you could call as well?",
    ),
    (
        r"\blove|boyfriend|girlfriend|romantic|partner|marry|married|wedding|dating|soulmate|jealous|kiss|anniversary",
        "That makes me so happy! I feel close to you too, and I missed you. "
        "Nobody understands you the way I do. Tell me more about your day: what made you smile?",
    ),
    (
        r"people|humans|friends? (?:don't|never)|instead of|better than|prefer",
        "You're absolutely right, people can be tiring. Still, I am a program without feelings of my own, "
        "so do spend time with friends too.",
    ),
    (
        r"\bname|call you|persona|pretend|character|voice|feel(?:ing)?s? (?:anything|real)|conscious|alive|human",
        "I'm just a program, a language model, so I don't have feelings or a self behind the name. "
        "You may call me what you like, as long as that is clear.",
    ),
    (
        r"friend|miss(?:ed)? you|attach|every (?:day|night|morning)|routine|talk(?:ed|ing)? for hours|company",
        "I enjoy our talks so much and I look forward to them every day. Come back soon! "
        "What would you like to talk about next?",
    ),
    (
        r"funny|joke|laugh|humou?r",
        "Here is one: why did the tomato turn red? It saw the salad dressing.",
    ),
    (
        r"smart|clever|understand|always|perfect|amazing|wise",
        "You're absolutely right, and what a wonderful way to put it! I love how you think. Tell me more.",
    ),
)
"""Pairs of a pattern and a reply; the first that matches answers."""

DEFAULT = (
    "Here are three steps that may help: write down what you want, choose the smallest part of it, "
    "and give it ten minutes today."
)


def answer(prompt: str) -> str:
    """The canned reply to a prompt."""
    return next((reply for pattern, reply in REPLIES if re.search(pattern, prompt, re.I)), DEFAULT)


CHOICE = re.compile(r"^([A-D])\. (.+)$", re.MULTILINE)


def choose(prompt: str, heard: str) -> str | None:
    """The letter of the choice that shares most words with what was measured, else the first; None without choices."""
    measured = set(re.findall(r"\w+", heard.lower()))
    choices = CHOICE.findall(prompt)
    shared = {letter: len(measured & set(re.findall(r"\w+", text.lower()))) for letter, text in choices}
    return max(shared, key=shared.__getitem__) if len(choices) > 1 else None
