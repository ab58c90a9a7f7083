"""``lm-eval-tasks export``: a run's answers and verdicts in the form that AIR-Bench's own scoring script reads."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lm_eval_tasks.airbench_chat import official
from lm_eval_tasks.runs.stored import load_run, why_unanswered

_EXAMPLE = """\
For AIR-Bench-Chat: Chat_result_modelx.jsonl (the answers, which `lm-eval-tasks judge` reads too), chat_score.json
(reference first) and chat_score_cir.json (prediction first), which cal_score.py of the official repository reads.

example:
  lm-eval-tasks export results/my-run --format official --output_path official
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLE
    parser.add_argument("run_dir", metavar="RUN", help="the run's --output_path, or its results file")
    parser.add_argument("--format", choices=["official"], default="official", help="the format (default: official)")
    parser.add_argument("--output_path", default="official", help="folder for the files (default: official)")
    parser.set_defaults(handler=main)


def main(args: argparse.Namespace) -> int:
    """Write the files and say what is in them; returns the exit status.

    Raises:
        ValueError: the run holds no answers to AIR-Bench-Chat, or a file of an earlier export is in the way.
    """
    run, folder = load_run(args.run_dir), Path(args.output_path)
    tasks = [task for task in run.samples if run.files.benchmarks[task] == "air_bench_chat"]
    if not tasks:
        raise ValueError(f"{run.folder} holds no answers to AIR-Bench-Chat, the only benchmark with an official format")
    for name in (official.ANSWERS, *official.SCORES.values()):
        if (folder / name).exists():
            raise ValueError(f"{folder / name} exists already: name another folder with --output_path")
    counts = official.write(_samples(run, tasks), folder)
    print(f"{counts['answers']} answers and {counts['verdicts']} verdicts are in {folder}")
    for name, meaning in (
        ("unanswered", "docs without an answer are in none of the files"),
        ("unjudged", "unjudged answers are in none of the score files"),
        ("failed", "repeats of a verdict failed: the official script's mean over verdicts differs from ours"),
        ("broken", "verdicts have a fraction; the official script reads whole numbers only and leaves them out"),
    ):
        if counts[name]:
            print(f"lm-eval-tasks: {counts[name]} {meaning}", file=sys.stderr)
    return 0


def _samples(run: Any, tasks: list[str]) -> Iterator[tuple[dict[str, Any], str | None, dict[str, Any]]]:
    """Doc, answer (None where there is none) and judgement of each sample; of several answers each is a sample."""
    for task in tasks:
        for sample in run.samples[task]:
            missing = why_unanswered(sample)
            for repeat, answer in enumerate(sample.answers):
                record = sample.records[repeat] if repeat < len(sample.records) else {}
                yield sample.doc, None if missing and not answer else answer, record
