"""``lm-eval-tasks run --serve COMMAND``: a server that is started for a run and ended with it, whatever happens.

The server is the child of a small guard process (this module, run as a program), which holds the reading end of a pipe
from the run. When the run ends, in whatever way, the pipe closes, and the guard ends the server's whole process group.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import yaml
from tqdm import tqdm

from lm_eval_tasks.errors import ModelUnavailable

OWN_MODEL = "audio-chat-completions"
HELP = """
options of lm-eval-tasks run itself:
  --serve COMMAND         start a server for the run and end it with the run. {port} becomes a free port, as in
                          --serve 'vllm serve MODEL --port {port}'. Any OpenAI-compatible server will do.
  --serve_timeout SECONDS seconds that it may take to start (default: 1800)
"""

_SHOWN = 20  # lines of the server's log
_READ = 1 << 16  # bytes of its end in which they are looked for
_GRACE = 15.0  # seconds from the polite signal to the other one
_EVERY = 30.0  # seconds between two progress lines where there is no terminal


def main(arguments: list[str]) -> int:
    """Run the harness, with a server of its own if ``--serve`` asks for one.

    Args:
        arguments: what follows ``lm-eval-tasks run``.

    Returns:
        Exit status.

    Raises:
        ModelUnavailable: the server does not come up.
        ValueError: ``--serve`` can't be used so.
    """
    from lm_eval_tasks.commands.run import main as run
    from lm_eval_tasks.harness import compat
    from lm_eval_tasks.server import keys

    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--serve")
    own.add_argument("--serve_timeout", type=float, default=1800.0)
    given, rest = own.parse_known_args(arguments)
    if {"-h", "--help"} & set(rest):
        try:
            return run(rest)
        finally:  # which the harness's help ends as well
            print(HELP)
    if given.serve is None:
        return run(rest)
    words = shlex.split(given.serve)
    if not any("{port}" in word for word in words):
        raise ValueError("--serve: the command must hold {port}, for instance --serve 'vllm serve MODEL --port {port}'")
    keys.know_words(rest)  # what is wrong with one is quoted
    told = compat.parse_run(rest)
    if told.config:
        _refuse_model_in(Path(told.config))
    port = _free_port(given.serve)
    command = [word.replace("{port}", str(port)) for word in words]
    with _log_file(told.output_path) as log, running(command, log) as guard:
        models = _wait_for(guard, log.name, f"http://localhost:{port}/v1", given.serve_timeout)
        return run([*_own_arguments(port, models, told.model_args or {}), *rest])


@contextlib.contextmanager
def running(command: list[str], log: TextIO) -> Iterator[subprocess.Popen[bytes]]:
    """A server for the length of a block, given as its guard; says so if it ended before the block did.

    Args:
        command: program and arguments.
        log: takes what it writes.
    """
    guard = subprocess.Popen(
        [sys.executable, "-m", __name__, *command],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # a Ctrl-C is this process's to handle
    )
    try:
        yield guard
    finally:
        if guard.poll() is not None:
            print(f"The server has ended. {_last_lines(log.name)}", file=sys.stderr)
        guard.stdin.close()
        guard.wait()


def _last_lines(log: str) -> str:
    """The end of a server's log, for the screen."""
    with Path(log).open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _READ))
        lines = file.read().decode("utf-8", "replace").splitlines()[-_SHOWN:]
    return "\n".join([f"The last lines of {log}:", *(f"  {line}" for line in lines or ["(it wrote nothing)"])])


def _wait_for(guard: subprocess.Popen[bytes], log: str, url: str, timeout: float) -> list[str]:
    """Wait until a server answers; returns the models that it names."""
    began, often = time.monotonic(), 0.5 if sys.stderr.isatty() else _EVERY
    with tqdm(desc=f"Waiting for the server (log: {log})", bar_format="{desc}: {elapsed}", mininterval=often) as bar:
        while (models := _models(url)) is None:
            ended = guard.poll()
            if ended is not None or time.monotonic() - began > timeout:
                what = f"ended with status {ended}" if ended is not None else f"did not answer within {timeout:.0f} s"
                if ended is None:
                    print(_last_lines(log), file=sys.stderr)
                raise ModelUnavailable(f"--serve: the server {what}; its log is {log}")
            bar.update()
            time.sleep(0.5)
    print(f"The server is up after {time.monotonic() - began:.0f} s. Its log: {log}", file=sys.stderr)
    return models


def _models(url: str) -> list[str] | None:
    """The models that a server names; None as long as it does not answer."""
    key = os.environ.get("OPENAI_API_KEY", "")
    request = urllib.request.Request(f"{url}/models", headers={"Authorization": f"Bearer {key}"} if key else {})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=10) as response:
            return [model["id"] for model in json.load(response)["data"]]
    except urllib.error.HTTPError as error:
        return None if error.code >= 500 else []  # it is up, and says nothing of models
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _own_arguments(port: int, models: list[str], model_args: dict[str, Any]) -> list[str]:
    """What the harness is told of the server; what the user gave comes behind it and wins."""
    named = {f"base_url=http://localhost:{port}/v1/chat/completions"}
    if "model" not in model_args:
        if len(models) != 1:
            choice = f"names {len(models)} models ({', '.join(models[:5])})" if models else "names no model"
            raise ValueError(f"--serve: the server {choice}; add --model_args model=NAME")
        named.add(f"model={models[0]}")
    return ["--apply_chat_template", "--model", OWN_MODEL, "--model_args", *sorted(named)]


def _refuse_model_in(config: Path) -> None:
    """A model in lm-eval's file of settings would be overridden by what is said of the server here, and in silence."""
    found = yaml.safe_load(config.read_text(encoding="utf-8")) or {}
    named = [key for key in ("model", "model_args") if key in found]
    if named:
        raise ValueError(f"--serve: move {' and '.join(named)} from {config} to the command line")


def _free_port(command: str) -> int:
    """A free port, the same for the same command wherever it can be: caches know a server by its address."""
    first = 20_000 + int(hashlib.sha256(command.encode()).hexdigest(), 16) % 10_000
    for port in range(first, first + 1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ModelUnavailable(f"--serve: no free port from {first} on")


def _log_file(output_path: str | None) -> TextIO:
    """A file beside the results, or in the folder for temporary files."""
    folder = Path(output_path) if output_path else Path(tempfile.mkdtemp(prefix="lm-eval-tasks-"))
    folder = folder.parent if folder.suffix == ".json" else folder
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / f"server_{datetime.now().strftime('%Y-%m-%dT%H-%M-%S.%f')}.log").open("w", encoding="utf-8")


# The guard


def guard(command: list[str]) -> int:
    """Run a server until it ends or standard input does; then end all its processes. Returns the server's status.

    A command may leave the server in the background: what it began comes to the guard (on Linux) and is watched.
    """
    _adopt_orphans()
    try:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", flush=True)
        return 127
    while not select.select([sys.stdin.fileno()], [], [], 0.2)[0]:
        if server.poll() is not None and (server.returncode or not _left(server)):
            break
    _end(server)
    status = server.poll()
    if status is None:  # even SIGKILL did not end it in time
        return 1
    return status if status >= 0 else 128 - status


def _adopt_orphans() -> None:
    """Have the kernel make this process the parent of what its children leave behind (Linux only)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _left(server: subprocess.Popen[bytes]) -> bool:
    """Whether a process of the server is left; buries the dead."""
    if server.poll() is None:
        return True
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, 0)
        return True
    return False


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server's group and what it began outside of it, at first politely."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        until, told = time.monotonic() + _GRACE, set()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(server.pid, number)
        while _left(server) and time.monotonic() < until:
            for pid in _adopted() - told:
                told.add(pid)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    if os.getpgid(pid) != server.pid:  # else it has been told
                        os.kill(pid, number)
            time.sleep(0.05)


def _adopted() -> set[int]:
    """The children of this process, to which what they left behind has come; none where there is no ``/proc``."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            if stat.read_text(errors="replace").rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(int(stat.parent.name))
    return found


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # only the end of the run ends the guard
    sys.exit(guard(sys.argv[1:]))
