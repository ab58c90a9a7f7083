"""Processes of their own that start at once: forks of one that has imported what takes seconds."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["pytest", "hypothesis", "aiohttp.web", "openai.resources.chat", "soundfile", "lm_eval.evaluator", "lm_eval_tasks"]
    + [f"lm_eval_tasks.{name}" for name in ("commands.judge", "commands.run", "commands.serve", "models", "utils")]
)


def start(log: Path, function: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """Call a module's function in a process with this one's environment and folder, whose output goes to ``log``.

    Its exit status is what the function returns, as of a command; 0 for None.
    """
    given = (log, dict(os.environ), Path.cwd(), function, arguments)
    process = CONTEXT.Process(target=_call, args=given, daemon=True)
    process.start()
    return process


def _call(
    log: Path, environment: dict[str, str], folder: Path, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.exit(function(*arguments))


def command(arguments: list[str]) -> int:
    """``lm-eval-tasks`` with these arguments."""
    from lm_eval_tasks import cli

    return cli.main(arguments)


def until(true: Callable[[], Any], process: BaseProcess, seconds: float = 60) -> None:
    """Wait until something is true, at most as long as the process lives."""
    deadline = time.monotonic() + seconds
    while not true() and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.005)


def ended(process: BaseProcess, log: Path, seconds: float = 60) -> str:
    """What a process wrote that ends well."""
    process.join(seconds)
    wrote = log.read_text(encoding="utf-8")
    assert process.exitcode == 0, wrote[-3000:]
    return wrote
