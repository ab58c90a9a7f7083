#!/usr/bin/env python3
"""Make the clips of the bundled sample of the AIR-Bench chat track again: two for each of its ten folders.

    python scripts/make_sample.py [FOLDER]

Writes them below FOLDER/Chat (default: lm_eval_tasks/airbench_chat/sample/Chat) in AIR-Bench's own layout, for the
records of the bundled Chat_meta.json, which also say what is spoken. All sounds are synthesised here, speech by
Debian's espeak-ng; seeds depend on the file's name alone, so that the same versions of espeak-ng, numpy, soxr and
libsndfile give the same bytes. A clip that is silent, clipped, too long or too loud stops the script.
"""

from __future__ import annotations

import argparse
import ast
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import soundfile as sf
from sample_clips import Clip, clips

SAMPLE = Path(__file__).resolve().parent.parent / "lm_eval_tasks" / "airbench_chat" / "sample"
SIZE_LIMIT = 4_000_000


def spoken(record: dict[str, Any]) -> Any:
    """What a record's description says is spoken: words, a list of (speaker, words), or None."""
    about = ast.literal_eval(record["meta_info"])
    if not isinstance(about, dict):
        return None
    lines = [line.split(": ", 1) for line in about.get("dialogue", ())]
    return about.get("text") or about.get("speech") or lines


def render(name: str, clip: Clip) -> np.ndarray:
    """The clip's samples (frames, channels) with peak 0.7 (0.25 for a quiet one), and 50 ms of silence at both ends."""
    samples = clip.make(np.random.default_rng(zlib.crc32(name.encode())), clip.rate)
    samples = samples.reshape(len(samples), -1)
    if samples.shape[1] != clip.channels:
        raise SystemExit(f"{name}: {samples.shape[1]} channels were made, {clip.channels} were meant")
    edge = np.zeros((round(0.05 * clip.rate), clip.channels))
    return np.concatenate([edge, samples * (clip.peak / np.max(np.abs(samples))), edge])


def measure(path: Path, clip: Clip) -> str:
    """Decode a written file and check it against what was meant; returns one line for the reader."""
    samples, rate = sf.read(path, always_2d=True)
    peak, rms, seconds = np.max(np.abs(samples)), np.sqrt(np.mean(samples**2)), len(samples) / rate
    fits = rate == clip.rate and samples.shape[1] == clip.channels and 2.5 <= seconds <= 16
    if not fits or not 0.1 < peak < 0.95 or rms < 0.01:
        raise SystemExit(f"{path}: {rate} Hz, {samples.shape[1]} ch, {seconds:.1f} s, peak {peak:.2f}, rms {rms:.3f}")
    size = path.stat().st_size / 1000
    return f"{rate:6d} Hz {samples.shape[1]} ch {seconds:5.2f} s  peak {peak:.2f}  rms {rms:.3f}  {size:5.0f} kB"


def main() -> None:
    """Write all clips."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=SAMPLE, help="default: the package's sample folder")
    chat = parser.parse_args().folder / "Chat"
    records = json.loads((SAMPLE / "Chat" / "Chat_meta.json").read_text(encoding="utf-8"))
    made = clips({record["path"]: spoken(record) for record in records})
    for record in records:
        folder, clip = chat / f"{record['task_name']}_{record['dataset_name']}", made[record["path"]]
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / record["path"]
        subtype = {"wav": "PCM_16", "mp3": "MPEG_LAYER_III"}[file.suffix[1:]]
        sf.write(file, render(file.name, clip), clip.rate, format=file.suffix[1:].upper(), subtype=subtype)
        print(measure(file, clip), f"{folder.name}/{file.name}")
    size = sum(file.stat().st_size for file in chat.rglob("*") if file.is_file())
    print(f"{len(records)} clips, {size / 1e6:.2f} MB in all")
    if size > SIZE_LIMIT:
        raise SystemExit(f"the sample may hold at most {SIZE_LIMIT / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
