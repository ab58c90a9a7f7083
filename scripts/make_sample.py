#!/usr/bin/env python3
"""Make the bundled sample of the AIR-Bench chat track again: two clips for each of its ten folders.

    python scripts/make_sample.py [FOLDER]

Writes FOLDER/Chat (default: lm_eval_tasks/airbench_chat/sample/Chat) in AIR-Bench's own layout. All sounds are
synthesised here, speech by Debian's espeak-ng; seeds depend on the file's name alone, so that the same versions of
espeak-ng, numpy, soxr and libsndfile give the same bytes. A clip that is silent, clipped, too long or too loud stops
the script.
"""

from __future__ import annotations

import argparse
import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import soundfile as sf
from sample_clips import CLIPS, Clip

SAMPLE = Path(__file__).resolve().parent.parent / "lm_eval_tasks" / "airbench_chat" / "sample"
SIZE_LIMIT = 4_000_000


def render(clip: Clip) -> np.ndarray:
    """The clip's samples (frames, channels) with peak 0.7 (0.25 for a quiet one), and 50 ms of silence at both ends."""
    samples = clip.make(np.random.default_rng(zlib.crc32(clip.path.encode())), clip.rate)
    samples = samples.reshape(len(samples), -1)
    if samples.shape[1] != clip.channels:
        raise SystemExit(f"{clip.path}: {samples.shape[1]} channels were made, {clip.channels} were meant")
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
    """Write all clips and the metadata file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=SAMPLE, help="default: the package's sample folder")
    chat = parser.parse_args().folder / "Chat"
    if chat.exists():
        shutil.rmtree(chat)
    records = []
    for number, clip in enumerate(CLIPS):
        folder = chat / f"{clip.task_name}_{clip.dataset_name}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / clip.path
        subtype = {"wav": "PCM_16", "mp3": "MPEG_LAYER_III"}[file.suffix[1:]]
        sf.write(file, render(clip), clip.rate, format=file.suffix[1:].upper(), subtype=subtype)
        print(measure(file, clip), f"{folder.name}/{clip.path}")
        records.append(
            {"path": clip.path, "question": clip.question, "answer_gt": clip.answer}
            | {"task_name": clip.task_name, "dataset_name": clip.dataset_name}
            | {"meta_info": clip.meta if isinstance(clip.meta, str) else repr(clip.meta), "uniq_id": number}
        )
    text = json.dumps(records, ensure_ascii=False, indent=1) + "\n"
    (chat / "Chat_meta.json").write_text(text, encoding="utf-8")
    size = sum(file.stat().st_size for file in chat.rglob("*") if file.is_file())
    print(f"{len(records)} clips, {size / 1e6:.2f} MB in all")
    if size > SIZE_LIMIT:
        raise SystemExit(f"the sample may hold at most {SIZE_LIMIT / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
