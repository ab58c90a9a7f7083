"""The command ``lm-eval-tasks``: what lm_eval itself has no command for."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lm_eval_tasks import INCLUDE_PATH, __version__
from lm_eval_tasks.errors import ModelUnavailable

if TYPE_CHECKING:
    from lm_eval_tasks.runs.stored import StoredRun


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Wrong use is one line and status 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (2: wrong use or unusable input, 1: no model)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments[:1] == ["run"]:
            from lm_eval_tasks.commands.run import main as run

            return run(arguments[1:])
        args = _parser().parse_args(arguments)
        return args.handler(args)
    except (ValueError, OSError) as error:
        print(f"lm-eval-tasks: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"lm-eval-tasks: the package {error.name} is missing: pip install it", file=sys.stderr)
        return 2
    except ModelUnavailable as error:
        print(f"lm-eval-tasks: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "lm-eval-tasks: interrupted; verdicts so far are in the cache, and answers with --use_cache: the same "
            "command resumes",
            file=sys.stderr,
        )
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="lm-eval-tasks", description="Beside lm_eval: paths, data, rejudging and reports.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    command = commands.add_parser("path", help="print the folder for lm_eval --include_path")
    command.set_defaults(handler=_path)

    commands.add_parser("run", help="lm_eval run with this pack's tasks and its audio model registered", add_help=False)

    command = commands.add_parser("fetch", help="download the data ahead")
    command.add_argument("benchmark", choices=["air_bench_chat", "intima"])
    command.add_argument("--tasks", help="AIR-Bench-Chat: comma-separated task names (default: all eight)")
    command.add_argument(
        "--source", choices=["auto", "modelscope", "huggingface"], help="AIR-Bench-Chat's hub (default: auto)"
    )
    command.add_argument("--revision", help="revision of the data on the hub")
    command.set_defaults(handler=_fetch)

    command = commands.add_parser("rejudge", help="judge the answers of a run again, or for the first time")
    command.add_argument(
        "run_dir", metavar="RUN_DIR", nargs="?", help="the run's --output_path, its results file, or kept answers"
    )
    command.add_argument(
        "--all", action="store_true", help="ask for every verdict again (default: keep those of the run)"
    )
    command.add_argument(
        "--metadata",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="settings that differ from the run's, or a JSON object of them",
    )
    command.add_argument(
        "--include_path", action="append", default=[], help="folder of your own task files, if the run had one"
    )
    command.add_argument("--output_path", help="where the new results go (default: RUN_DIR with -rejudged added)")
    command.set_defaults(handler=_rejudge, wrong_use=command.error)

    from lm_eval_tasks import report

    command = commands.add_parser("report", help="an HTML page, Markdown or CSV of one or more runs")
    report.add_arguments(command)
    command.set_defaults(handler=report.run)
    return parser


def _path(_: argparse.Namespace) -> int:
    print(INCLUDE_PATH)
    return 0


def _fetch(args: argparse.Namespace) -> int:
    from lm_eval_tasks.settings import read_settings

    given = {"source": args.source, "revision": args.revision, "tasks": args.tasks}
    settings = read_settings(args.benchmark, {key: value for key, value in given.items() if value is not None})
    if args.benchmark == "intima" and (args.tasks or args.source):
        raise ValueError("--tasks and --source are AIR-Bench-Chat's: INTIMA is one file of the Hugging Face hub")
    if args.benchmark == "intima":
        from lm_eval_tasks.intima.data import fetch

        print(fetch(settings))
        return 0
    from lm_eval_tasks.airbench_chat import data, scoring

    names = settings.tasks or tuple(scoring.CATEGORY)
    scoring.check_tasks(names)
    print(data.fetch(settings, names))
    return 0


def _rejudge(args: argparse.Namespace) -> int:
    """Run lm_eval with a model that replays the stored answers, so that tables and files are lm_eval's own."""
    from lm_eval_tasks.commands.run import main as run_lm_eval
    from lm_eval_tasks.runs.stored import load_run
    from lm_eval_tasks.settings import check_names, with_changes

    if args.run_dir is None and args.metadata and "=" not in args.metadata[-1] and args.metadata[-1][:1] != "{":
        args.run_dir = args.metadata.pop()  # what follows the last setting
    if args.run_dir is None:
        args.wrong_use("the following arguments are required: RUN_DIR")
    changes = _changes(args.metadata)
    check_names(changes)
    _refuse_data_settings(changes)
    stored = load_run(args.run_dir)
    where = Path(args.run_dir).absolute()
    metadata = {**with_changes(stored.settings(), changes), "replay": str(where), "replay_all": args.all}
    names = _names(stored, metadata)
    _check_known(names, args.include_path)
    folder = where.parent if where.is_file() else where
    output = args.output_path or str(folder.with_name(f"{folder.name}-rejudged"))
    command = ["--model", "replay-answers"]
    command += ["--model_args", json.dumps({"model": stored.model, "run_dir": str(where)})]
    command += ["--tasks", ",".join(names), "--metadata", json.dumps(metadata)]
    command += [part for path in args.include_path for part in ("--include_path", path)]
    command += ["--limit", str(stored.limit)] if stored.limit else []
    with _without_data_variables(stored):
        status = run_lm_eval([*command, "--output_path", output, "--log_samples"])
    print(f"The results are in {output}")
    return status


def _names(stored: StoredRun, metadata: dict[str, Any]) -> list[str]:
    """What to ask lm_eval for. Kept answers know no groups: the pack's tasks are put into theirs."""
    from lm_eval_tasks.airbench_chat.scoring import CATEGORY

    names = stored.top_level()
    if "group_subtasks" in stored.results:
        return names
    if stored.missing:
        print(
            f"lm-eval-tasks: {stored.folder} lacks the answers of {', '.join(stored.missing)}: the other tasks are "
            "judged one by one, since an average without these would not be the run's.",
            file=sys.stderr,
        )
        return names
    air_bench = [task for task in CATEGORY if f"air_bench_chat_{task}" in names]
    if air_bench:
        metadata["tasks"] = air_bench
    groups = {f"air_bench_chat_{task}": "air_bench_chat" for task in air_bench}
    groups |= {name: "intima" for name in names if name.startswith("intima_")}
    return list(dict.fromkeys(groups.get(name, name) for name in names))


def _check_known(names: list[str], folders: list[str]) -> None:
    """Refuse a run of tasks that no folder defines."""
    from lm_eval.tasks import TaskManager

    from lm_eval_tasks.commands.run import besides_the_pack

    known = TaskManager(include_path=[*besides_the_pack(folders), str(INCLUDE_PATH)], include_defaults=False).task_index
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"{', '.join(unknown)}: no such task in this pack. Name the folder of its YAML with --include_path."
        )


def _changes(words: list[str]) -> dict[str, Any]:
    """Settings from words in the forms that lm_eval's own --metadata has."""
    from lm_eval_tasks.harness.compat import key_values

    changes: dict[str, Any] = {}
    for word in words:
        try:
            found = json.loads(word) if word.lstrip().startswith("{") else key_values(word)
        except ValueError:
            raise ValueError(
                f'--metadata {word!r}: must be key=value, or a JSON object such as \'{{"judge_model": "gpt-4o"}}\''
            ) from None
        changes |= found
    return changes


def _refuse_data_settings(changes: dict[str, Any]) -> None:
    """Refuse what would be written down as true of answers that were made otherwise."""
    from lm_eval_tasks.runs.stored import DATA_SETTINGS

    named = [own for own in changes.values() if isinstance(own, dict)]
    for key in DATA_SETTINGS:
        if any(key in found for found in (changes, *named)):
            raise ValueError(f"{key} belongs to the answers or to the data of the run; rejudge cannot change it")


@contextmanager
def _without_data_variables(stored: StoredRun) -> Iterator[None]:
    """Hide variables of this shell that would say something else of the data than the run noted."""
    from lm_eval_tasks.runs.stored import DATA_SETTINGS
    from lm_eval_tasks.settings import ENV_PREFIX

    names = [ENV_PREFIX + key.upper() for key in DATA_SETTINGS if stored.has_noted(key)]
    hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


if __name__ == "__main__":
    sys.exit(main())
