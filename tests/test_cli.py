"""The command ``lm-eval-tasks``: help, wrong use, and what it prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lm_eval_tasks import INCLUDE_PATH, __version__, cli
from lm_eval_tasks.data import hub

COMMANDS = ("path", "run", "fetch", "rejudge", "report")


def status_of(*arguments: str) -> int:
    """The exit status, also where argparse ends the process."""
    try:
        return cli.main(list(arguments))
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize("arguments", [(), *((command,) for command in COMMANDS)], ids=lambda a: a[0] if a else "all")
def test_every_command_has_help(arguments, capsys):
    assert status_of(*arguments, "--help") == 0
    told = capsys.readouterr().out
    assert told.startswith("usage: lm-eval")
    assert arguments or all(command in told for command in COMMANDS)


def test_the_version_is_the_packages_and_path_the_folder_of_its_tasks(capsys):
    assert status_of("--version") == status_of("path") == 0
    version, folder = capsys.readouterr().out.splitlines()
    assert (version, Path(folder)) == (__version__, INCLUDE_PATH)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "COMMAND"),
        (("judge",), "judge"),
        (("path", "there"), "there"),
        (("fetch",), "benchmark"),
        (("fetch", "mmlu"), "mmlu"),
        (("fetch", "air_bench_chat", "--source", "s3"), "s3"),
        (("fetch", "air_bench_chat", "--tasks", "speech_QA,song_QA"), "song_QA"),
        (("fetch", "air_bench_chat", "--revison", "v1"), "--revison"),
        (("fetch", "intima", "--tasks", "speech_QA"), "--tasks"),
        (("rejudge",), "RUN_DIR"),
        (("rejudge", "nowhere"), "nowhere does not exist"),
        (("rejudge", "."), "holds no results"),
        (("rejudge", ".", "--metadata", "judge_model"), "--metadata: 'judge_model': must be KEY=VALUE"),
        (("rejudge", "--metadata", "judge_model=x", "out"), "what is to be judged goes before"),
        (("judge", "--metadata", "judge_model=x", "answers.jsonl"), "what is to be judged goes before"),
        (("rejudge", ".", "--metadata", '{"judge_model": }'), "must be key=value, or a JSON object"),
        (("rejudge", ".", "--metadata", "judge_modle=x"), "did you mean 'judge_model'"),
        (("rejudge", "--metadata", "judge_model=x"), "RUN_DIR"),
        (("report",), "required"),
        (("report", "nowhere"), "nowhere"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(arguments, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert status_of(*arguments) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert told in error
    assert error.startswith("lm-eval-tasks")


@pytest.mark.parametrize(
    ("error", "told", "status"),
    [
        (PermissionError(13, "Permission denied", "/meta.json"), "[Errno 13] Permission denied: '/meta.json'", 2),
        (
            ModuleNotFoundError("No module named 'torch'", name="torch"),
            "the package torch is missing: pip install it",
            2,
        ),
        (TimeoutError(), "TimeoutError", 1),
    ],
)
def test_a_file_or_package_that_is_not_to_be_had_is_one_line_too(capsys, monkeypatch, error, told, status):
    def refuse(*_: object) -> Path:
        raise error

    monkeypatch.setattr(hub, "fetch", refuse)
    assert status_of("fetch", "air_bench_chat") == status
    assert capsys.readouterr().err == f"lm-eval-tasks: {told}\n"


def test_fetch_asks_for_what_the_options_and_the_environment_say(capsys, monkeypatch):
    asked = []

    def fetch(_: object, settings: object, names: object) -> Path:
        asked.append((settings.source, settings.revision, names))
        return Path("/data")

    monkeypatch.setattr(hub, "fetch", fetch)
    monkeypatch.setenv("LM_EVAL_TASKS_SOURCE", "modelscope")
    assert status_of("fetch", "air_bench_chat", "--tasks", "speech_QA, sound_QA", "--revision", "v1") == 0
    assert status_of("fetch", "air_bench_chat", "--source", "huggingface") == 0
    assert asked[0] == ("modelscope", "v1", ("speech_QA", "sound_QA"))
    assert (asked[1][0], len(asked[1][2])) == ("huggingface", 8)
    assert capsys.readouterr().out == "/data\n/data\n"


def test_the_installed_command_ends_without_a_traceback():
    command = [sys.executable, "-m", "lm_eval_tasks.cli", "rejudge", "/nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "lm-eval-tasks: /nowhere does not exist: name the folder that was given to lm_eval as --output_path."
    ]
