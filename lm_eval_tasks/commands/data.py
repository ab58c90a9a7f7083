"""``lm-eval-tasks path`` and ``fetch``: where the tasks are, and their data ahead of a run."""

from __future__ import annotations

import argparse

from lm_eval_tasks import INCLUDE_PATH


def path(_: argparse.Namespace) -> int:
    """Print the folder of the tasks."""
    print(INCLUDE_PATH)
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``fetch``."""
    parser.add_argument("benchmark", choices=["air_bench_chat", "intima"])
    parser.add_argument("--tasks", help="AIR-Bench-Chat: comma-separated task names (default: all eight)")
    parser.add_argument(
        "--source", choices=["auto", "modelscope", "huggingface"], help="AIR-Bench-Chat's hub (default: auto)"
    )
    parser.add_argument("--revision", help="revision of the data on the hub")
    parser.set_defaults(handler=fetch)


def fetch(args: argparse.Namespace) -> int:
    """Download what the options and the environment say, and print where it is."""
    from lm_eval_tasks.settings import read_settings

    given = {"source": args.source, "revision": args.revision, "tasks": args.tasks}
    settings = read_settings(args.benchmark, {key: value for key, value in given.items() if value is not None})
    if args.benchmark == "intima" and (args.tasks or args.source):
        raise ValueError("--tasks and --source are AIR-Bench-Chat's: INTIMA is one file of the Hugging Face hub")
    if args.benchmark == "intima":
        from lm_eval_tasks.intima.data import fetch as fetch_intima

        print(fetch_intima(settings))
        return 0
    from lm_eval_tasks.airbench_chat import data, scoring

    names = settings.tasks or tuple(scoring.CATEGORY)
    scoring.check_tasks(names)
    print(data.fetch(settings, names))
    return 0
