"""Requests as the pack's tasks make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from lm_eval_tasks.audio.clips import AudioRef, inspect_audio
from lm_eval_tasks.harness.chat import with_audio
from lm_eval_tasks.harness.requests import PackRequest

GREEDY = {"until": ["<|endoftext|>"], "do_sample": False, "temperature": 0.0, "max_gen_toks": 12}
SECONDS = [1.5, 12.0, 4.0, 7.3, 2.2]


def write_clip(path: Path, seconds: float, seed: int = 0, rate: int = 16_000) -> Path:
    """Noise that comes and goes: two clips differ all along."""
    generator = np.random.default_rng(seed)
    samples = generator.normal(0, 0.1, round(seconds * rate))
    samples *= 1 + np.sin(np.linspace(0, seconds * (3 + seed), len(samples)))
    soundfile.write(path, np.clip(samples, -1, 1), rate)
    return path


def request(model: Any, clip: Path | None, question: str = "What is heard?", number: int = 0, **options: Any) -> Any:
    """One request with a clip, or with text alone."""
    chat = model.apply_chat_template([{"role": "user", "content": question}])
    if clip:
        reference = AudioRef({"sampling_rate": 16_000, **inspect_audio(clip)})
        chat = with_audio(chat, [reference], "input_audio", None)
    return PackRequest(
        request_type="generate_until",
        doc={"question": question},
        arguments=(chat, {**GREEDY, **options}),
        idx=0,
        metadata=("task", number, 1),
    )


def requests(model: Any, folder: Path, seconds: list[float] | None = None) -> list[Any]:
    """Requests with clips of different lengths."""
    lengths = seconds or SECONDS
    return [
        request(model, write_clip(folder / f"{number}.wav", length, number), f"What is heard, {number}?", number)
        for number, length in enumerate(lengths)
    ]
