"""The command ``lm-eval-tasks``: what lm_eval itself has no command for."""

from __future__ import annotations

import argparse
import errno
import importlib
import logging
import sys
from collections.abc import Collection, Sequence
from functools import partial
from typing import NoReturn

from lm_eval_tasks import INCLUDE_PATH, __version__
from lm_eval_tasks.errors import ModelUnavailable

_COMMANDS = {
    "path": (None, "print the folder for lm_eval --include_path"),
    "run": (None, "lm_eval run, with this pack's tasks and models"),
    "fetch": ("commands.fetch", "download the data in advance"),
    "judge": ("commands.judge", "judge answers from a file, made by any program"),
    "rejudge": ("commands.rejudge", "judge a run's answers: those that are unjudged, or all of them again"),
    "export": ("commands.export", "write a run's answers and verdicts in AIR-Bench's own format"),
    "report": ("report", "write a report of one or more runs: HTML, Markdown, LaTeX or CSV"),
}
"""Command -> the module with its options, and what it does."""

_NOT_WRITTEN = (None, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Wrong use is one line and status 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    0: done, and all judged; 1: nothing judged, no model, or what was found could not be written; 2: wrong use or
    unusable input; 3: some answers are not judged; 130: interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments[:1] == ["run"]:
            from lm_eval_tasks.commands.serve import main as run

            return run(arguments[1:])
        args = _parser(arguments[:1]).parse_args(arguments)
        if arguments == ["path"]:
            print(INCLUDE_PATH)
            return 0
        return args.handler(args)
    except (ValueError, OSError) as error:
        _say(error)
        return 1 if isinstance(error, OSError) and error.errno in _NOT_WRITTEN else 2
    except ModuleNotFoundError as error:
        _say(f"the package {error.name} is missing: pip install it")
        return 2
    except ModelUnavailable as error:
        _say(error)
        return 1
    except KeyboardInterrupt:
        _say("interrupted. Verdicts are cached, and answers with --use_cache: the same command resumes")
        return 130
    except Exception as error:  # a fault of this package, of lm-eval, or of a model's or task's class
        logging.getLogger(f"lm_eval.{__name__}").debug("traceback:", exc_info=True)
        _say(f"{type(error).__name__}: {error} (LMEVAL_LOG_LEVEL=DEBUG shows where)")
        return 1


def _say(what: object) -> None:
    from lm_eval_tasks.server.keys import without_keys

    said = " ".join(str(what).split()) or type(what).__name__  # asyncio's TimeoutError says nothing
    print(f"lm-eval-tasks: {without_keys(said)}", file=sys.stderr)


def _parser(named: Collection[str] = tuple(_COMMANDS)) -> argparse.ArgumentParser:
    """The parser of all commands, with the options of those that are named: a command is imported when it is used."""
    parser = _Parser(
        prog="lm-eval-tasks",
        description="AIR-Bench and INTIMA for lm-evaluation-harness: runs, judging, reports and data.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    one = partial(_Parser, formatter_class=argparse.RawDescriptionHelpFormatter)  # leaves examples as they are
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=one)
    for name, (module, what) in _COMMANDS.items():
        command = commands.add_parser(name, help=what, add_help=name != "run")
        if module and name in named:
            importlib.import_module(f"lm_eval_tasks.{module}").add_arguments(command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
