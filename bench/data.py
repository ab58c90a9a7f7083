"""Makes a data set in AIR-Bench-Chat's layout whose clips are noise: its size is real, its content means nothing."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

from lm_eval_tasks.airbench_chat.scoring import RECORDS

CLIP_BYTES = (40_000, 1_800_000)
"""Smallest and largest clip; the mean is that of the real set, about 0.9 MB."""
LONG_DESCRIPTION = 6000
"""Characters of ``meta_info`` of the dialogue task, whose real ones are transcripts."""
WORDS = ("a", "voice", "says", "that", "rain", "falls", "while", "two", "people", "talk", "and", "one", "dog", "barks")


def make(root: Path, records: int, source: Path | None = None) -> Path:
    """Write about ``records`` records below ``root``; a set that is there already is left as it is.

    Args:
        root: where ``Chat/`` goes.
        records: how many; the eight tasks keep their shares.
        source: another set whose clips are linked instead of written, again and again if it has fewer.
    """
    metadata = root / "Chat" / "Chat_meta.json"
    if metadata.exists():
        return root
    clips = sorted(source.glob("Chat/*/*.wav")) if source else []
    rng = random.Random(records)
    found: list[dict[str, str]] = []
    for task, share in RECORDS.items():
        folder = metadata.parent / f"{task}_noise"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(round(records * share / sum(RECORDS.values()))):
            path = folder / f"{number}.wav"
            if clips:
                os.link(clips[len(found) % len(clips)], path)
            else:
                path.write_bytes(_noise(rng))
            found.append(_record(rng, task, path.name, len(found)))
    metadata.write_text(json.dumps(found), encoding="utf-8")
    return root


def _noise(rng: random.Random) -> bytes:
    samples = rng.randbytes(2 * (rng.randint(*CLIP_BYTES) // 2))
    rate = 16_000
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    return (
        struct.pack("<4sI4s", b"RIFF", 36 + len(samples), b"WAVE")
        + form
        + struct.pack("<4sI", b"data", len(samples))
        + samples
    )


def _record(rng: random.Random, task: str, path: str, number: int) -> dict[str, str]:
    return {
        "uniq_id": str(number),
        "task_name": task,
        "dataset_name": "noise",
        "path": path,
        "question": f"What is heard in clip {number}?",
        "answer_gt": _text(rng, 80),
        "meta_info": _text(rng, LONG_DESCRIPTION if task == "speech_dialogue_QA" else 250),
    }


def _text(rng: random.Random, size: int) -> str:
    return " ".join(rng.choices(WORDS, k=size // 5))
