"""``run --serve``: a server that is there for the run, and is gone after it, whatever happens."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lm_eval_tasks import cli
from lm_eval_tasks.commands import serve

DEMO = f"{shlex.quote(sys.executable)} -m lm_eval_tasks.demo.server --port {{port}}"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(600)"
)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(true, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)


def script(tmp_path: Path, body: str) -> str:
    """A command that runs a program which gets the port as its argument."""
    path = tmp_path / "server.py"
    path.write_text(body, encoding="utf-8")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))} {{port}}"


def test_a_run_with_a_server_of_its_own(tmp_path, server, capfd):
    output = tmp_path / "out"
    metadata = {"local_path": "sample", "judge_model": "judge-1", "judge_base_url": server.url()}
    server.script("judge", "8 6")
    status = cli.main(
        [
            *("run", "--serve", DEMO, "--model_args", "model=demo-listener", "num_concurrent=4"),
            *("--tasks", "air_bench_chat_sound_QA", "--metadata", json.dumps(metadata)),
            *("--output_path", str(output), "--log_samples"),
        ]
    )
    assert status == 0
    [results] = output.rglob("results_*.json")
    assert json.loads(results.read_text())["results"]["air_bench_chat_sound_QA"]["gpt_score,judge"] == 7.0
    [log] = output.glob("server_*.log")
    assert "demo-listener" in log.read_text()
    assert f"Its log: {log}" in capfd.readouterr().err
    assert serve._models(f"http://localhost:{serve._free_port(DEMO)}/v1") is None  # it is gone, and its port free again


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("import sys\nprint('no GPU found')\nsys.exit(3)", ["ended with status 3", "no GPU found"]),
        ("import time\nprint('loading', flush=True)\ntime.sleep(600)", ["did not answer within 1 s", "loading"]),
    ],
)
def test_a_server_that_does_not_come_up_ends_the_run_with_its_last_words(tmp_path, capfd, body, told):
    command = script(tmp_path, body)
    began = time.monotonic()
    status = cli.main(
        ["run", "--serve", command, "--serve_timeout", "1", "--tasks", "intima", "--output_path", str(tmp_path)]
    )
    assert status == 1 and time.monotonic() - began < 20
    error = capfd.readouterr().err
    assert all(words in error for words in told)
    assert str(next(tmp_path.glob("server_*.log"))) in error


def test_a_command_that_does_not_exist_is_named(tmp_path, capfd):
    assert cli.main(["run", "--serve", "no-such-server {port}", "--output_path", str(tmp_path)]) == 1
    assert "no-such-server: No such file" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--serve", "vllm serve M"], "{port}"),
        (["--serve", "vllm serve M --port {port}", "--config", "FILE"], "model_args"),
        (["--serve", "vllm serve M --port {port}", "--taks", "intima"], "--taks"),
    ],
)
def test_wrong_use_is_refused_before_anything_starts(tmp_path, capfd, arguments, told):
    (tmp_path / "run.yaml").write_text("model_args: {num_concurrent: 8}\n")
    arguments = [str(tmp_path / "run.yaml") if word == "FILE" else word for word in arguments]
    assert cli.main(["run", *arguments]) == 2
    assert told in capfd.readouterr().err


@pytest.mark.parametrize(
    ("given", "model"),
    [
        ({"tokenizer_model": "x"}, "model=one"),
        ({"num_concurrent": 8, "model": "mine"}, None),
    ],
)
def test_the_servers_only_model_is_taken_unless_one_is_named(given, model):
    named = serve._own_arguments(1234, ["one"], given)
    assert [word for word in named if word.startswith("model=")] == ([model] if model else [])
    assert "base_url=http://localhost:1234/v1/chat/completions" in named
    for models in ([], ["one", "two"]):
        with pytest.raises(ValueError, match="add --model_args model=NAME"):
            serve._own_arguments(1234, models, {})
    # the same command gets the same port, so that caches know it again
    assert serve._free_port("a {port}") == serve._free_port("a {port}") != serve._free_port("b {port}")


PARENT = """
import signal, sys, time
from lm_eval_tasks.commands import serve
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background turns off
with open(sys.argv[1], "w") as log, serve.running(sys.argv[2:], log):
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_servers_whole_group_ends_when_the_run_is_killed(tmp_path, number):
    tree = tmp_path / "tree.py"
    tree.write_text(
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(os.getpid(), child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    log = tmp_path / "log"
    run = [sys.executable, "-c", PARENT, str(log), sys.executable, str(tree)]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout.readline() == b"up\n"
        wait_until(lambda: len(log.read_text().split()) == 2)
        pids = [int(word) for word in log.read_text().split()]
        assert all(map(alive, pids))
        parent.send_signal(number)
    wait_until(lambda: not any(map(alive, pids)))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lets a process adopt orphans")
@pytest.mark.parametrize("ends", ["time.sleep(600)", "sys.exit(0)"], ids=["beside", "in the background"])
def test_what_a_server_starts_outside_of_its_group_ends_with_it(tmp_path, ends):
    log = tmp_path / "log"
    body = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        f"print(child.pid, flush=True)\n{ends}\n"
    )
    with log.open("w") as file, serve.running([sys.executable, "-c", body], file) as guard:
        wait_until(lambda: log.read_text().endswith("\n"))
        time.sleep(0.7)
        assert guard.poll() is None and alive(int(log.read_text()))
    wait_until(lambda: not alive(int(log.read_text())), 5)


def test_a_server_that_ignores_the_polite_signal_is_killed():
    guard = (
        "import sys; from lm_eval_tasks.commands import serve; serve._GRACE = 0.5; sys.exit(serve.guard(sys.argv[1:]))"
    )
    run = [sys.executable, "-c", guard, sys.executable, "-c", STUBBORN]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as guarding:
        assert guarding.stdout.readline() == b"here\n"
        guarding.stdin.close()
        assert guarding.wait(20) == 128 + signal.SIGKILL


def test_signals_to_the_guard_do_not_reach_the_server_as_ignored(tmp_path):
    """A signal that a parent ignores would stay ignored in the server."""
    log = tmp_path / "log"
    body = "import signal; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, flush=True)"
    with log.open("w") as file, serve.running([sys.executable, "-c", body], file) as guard:
        guard.wait()
    assert log.read_text().split() == ["True"]
