"""Makes data sets in the layout of AIR-Bench's tracks whose clips are noise: sizes are real, content means nothing."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

from lm_eval_tasks.air_bench_foundation.scoring import RECORDS as FOUNDATION
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


def make_foundation(root: Path, records: int, clips: int = 500) -> Path:
    """Write about ``records`` records of AIR-Bench Foundation below ``root``; a set that is there is left as it is.

    Args:
        root: where ``Foundation/`` goes.
        records: how many; the 19 tasks keep their shares.
        clips: how many clips are written; the records link to them again and again, so that 20,000 fit on a disk.
    """
    metadata = root / "Foundation" / "Foundation_meta.json"
    if metadata.exists():
        return root
    rng = random.Random(records)
    found: list[dict[str, str]] = []
    for task, share in FOUNDATION.items():
        folder = metadata.parent / f"{task}_noise"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(round(records * share / sum(FOUNDATION.values()))):
            path, written = folder / f"{number}.wav", metadata.parent / f"{len(found) % clips}.wav"
            if not written.exists():
                written.write_bytes(_noise(rng))
            os.link(written, path)
            choices = {f"choice_{letter}": _text(rng, 20) + f" {letter}" for letter in "abcd"}
            record = {"uniq_id": str(len(found)), "task_name": task, "dataset_name": "noise", "path": path.name}
            found.append(
                record | {"question": f"What is heard in {number}?", **choices, "answer_gt": choices["choice_b"]}
            )
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
