"""The command ``lm-eval-tasks``: what lm_eval itself has no command for."""

from __future__ import annotations

import argparse
import errno
import logging
import sys
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from lm_eval_tasks import __version__
from lm_eval_tasks.errors import ModelUnavailable

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
        args = _parser().parse_args(arguments)
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

    print(f"lm-eval-tasks: {without_keys(' '.join(str(what).split()))}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    from lm_eval_tasks import report
    from lm_eval_tasks.commands import data, export, judge, rejudge

    parser = _Parser(
        prog="lm-eval-tasks",
        description="AIR-Bench and INTIMA for lm-evaluation-harness: runs, judging, reports and data.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    one = partial(_Parser, formatter_class=argparse.RawDescriptionHelpFormatter)  # leaves examples as they are
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=one)
    commands.add_parser("path", help="print the folder for lm_eval --include_path").set_defaults(handler=data.path)
    commands.add_parser("run", help="lm_eval run, with this pack's tasks and models", add_help=False)
    data.add_arguments(commands.add_parser("fetch", help="download the data in advance"))
    judge.add_arguments(commands.add_parser("judge", help="judge answers from a file, made by any program"))
    rejudge.add_arguments(
        commands.add_parser("rejudge", help="judge a run's answers: those that are unjudged, or all of them again")
    )
    export.add_arguments(
        commands.add_parser("export", help="write a run's answers and verdicts in AIR-Bench's own format")
    )
    command = commands.add_parser("report", help="write a report of one or more runs: HTML, Markdown, LaTeX or CSV")
    report.add_arguments(command)
    command.set_defaults(handler=report.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
