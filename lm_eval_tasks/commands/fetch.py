"""``lm-eval-tasks fetch``: the data ahead of a run."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from lm_eval_tasks.air_bench_foundation.data import FOUNDATION
from lm_eval_tasks.airbench_chat.data import CHAT
from lm_eval_tasks.data import hub
from lm_eval_tasks.settings import BENCHMARKS, read_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("benchmark", choices=BENCHMARKS, help="what to download")
    parser.add_argument(
        "--tasks", help="AIR-Bench's tasks, separated by commas, or all (default for AIR-Bench-Chat: all eight)"
    )
    parser.add_argument(
        "--source", choices=["auto", "modelscope", "huggingface"], help="hub for AIR-Bench (default: auto)"
    )
    parser.add_argument("--revision", help="revision of the data on the hub")
    parser.set_defaults(handler=main)


def main(args: argparse.Namespace) -> int:
    """Download what the options and the environment say, and print where it is."""
    tasks = None if args.tasks == "all" else args.tasks
    given = {"source": args.source, "revision": args.revision, "tasks": tasks}
    settings = read_settings(args.benchmark, {key: value for key, value in given.items() if value is not None})
    if args.benchmark == "intima":
        if args.tasks or args.source:
            raise ValueError("--tasks and --source are for AIR-Bench only: INTIMA is one file on the Hugging Face hub")
        from lm_eval_tasks.intima.data import fetch  # which takes a library that the others do without

        print(fetch(settings))
    elif args.benchmark == "air_bench_foundation":
        print(_fetch_foundation(settings, everything=args.tasks == "all"))
    else:
        names = settings.tasks or tuple(CHAT.tasks)
        CHAT.check_tasks(names)
        print(hub.fetch(CHAT, settings, names))
    return 0


def _fetch_foundation(settings: Any, everything: bool) -> Any:
    """Fetch the tasks that were named, after saying how much that is: the track is most of the hub's 49 GB."""
    names = tuple(FOUNDATION.tasks) if everything else settings.tasks
    if not names:
        raise ValueError(
            f"air_bench_foundation is most of the hub's 49 GB: name the tasks with --tasks "
            f"({', '.join(FOUNDATION.tasks)}), or fetch them all with --tasks all"
        )
    FOUNDATION.check_tasks(names)
    if settings.local_path is None:
        size = hub.size(FOUNDATION, settings.source, settings.revision, names)
        known = "of unknown size (the hub does not tell)" if size is None else f"{size / 1e9:.2f} GB on the hub"
        print(f"{len(names)} tasks, {known}; what is already here is not fetched again", file=sys.stderr, flush=True)
    return hub.fetch(FOUNDATION, settings, names)
