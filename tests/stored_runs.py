"""Whole runs and rejudged runs in this process, by the command: the scripted server plays the model and the judge."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airbench_runs import ALL, answers, judging, metadata, question  # noqa: F401 - judging: for tests
from conftest import forget_judges
from servers import Asked, Server

from lm_eval_tasks import cli
from lm_eval_tasks.harness import together
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.runs import stored

DOCS = {"speech_QA": 3, "sound_QA": 2}
TWO = ",".join(f"{ALL}_{name}" for name in DOCS)


def scores(asked: Asked) -> str:
    """A judge whose score of a prediction rises with the number of its question: 3, 4, 5 of 10."""
    first, _ = answers(asked)
    mine = str(3 + question(asked)[1])
    return f"{mine} 8" if first.startswith("answer to") else f"8 {mine}"


class Runs:
    """Runs in this process, each with a judge of its own as in a new one."""

    def __init__(self, server: Server, root: Path, folder: Path) -> None:
        self.server, self.root, self.folder = server, root, folder

    def run(self, out: str, *extra: str, tasks: str = TWO, logged: bool = True, ends: int = 0, **settings: Any) -> Path:
        command = self.command(out, *extra, tasks=tasks, logged=logged, **settings)
        assert self._start(command) == ends
        return self.folder / out

    def command(self, out: str, *extra: str, tasks: str = TWO, logged: bool = True, **settings: Any) -> list[str]:
        address = f"{self.server.url('model')}/chat/completions"
        command = ["run", "--model", "local-chat-completions", "--apply_chat_template", "--tasks", tasks]
        command += ["--model_args", f"model=listener,base_url={address},num_concurrent=8,max_retries=2"]
        command += ["--metadata", json.dumps(metadata(self.server, self.root, **settings))]
        command += ["--output_path", str(self.folder / out), *(["--log_samples"] if logged else []), *extra]
        return command

    def rejudge(self, where: Path, *extra: str, ends: int = 0) -> dict[str, Any]:
        """The new results of a run that is the user's own."""
        out = str(self.folder / "again")
        assert self._start(["rejudge", str(where), *extra, "--trust", "--output_path", out]) == ends
        return results(self.folder / "again")

    def interrupted(self, monkeypatch: Any, *extra: str, after: int = 0, **settings: Any) -> Path:
        """The kept answers of a run that was interrupted when all were there, and so many tasks judged."""
        ask, calls = Judge.ask, []

        def interrupt(*arguments: Any) -> Any:
            calls.append(arguments)
            if len(calls) > after:
                raise KeyboardInterrupt
            return ask(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(Judge, "ask", interrupt)
            assert self._start(self.command("out", *extra, logged=False, **settings)) == 130
        return kept()[-1]

    def _start(self, command: list[str]) -> int:
        forget_judges()
        together.forget()
        stored._load_run.cache_clear()
        self.server.forget()
        return cli.main(command)

    def judged(self) -> list[tuple[str, int]]:
        """The questions that the judge was asked since the last start, without the trial."""
        return sorted(question(asked) for asked in self.server.asked["judge"] if question(asked)[0] != "trial")


def results(folder: Path) -> dict[str, Any]:
    """The newest results in a folder."""
    return json.loads(max(folder.rglob("results_*.json"), key=lambda file: file.name).read_text(encoding="utf-8"))


def numbers(found: dict[str, Any]) -> dict[str, Any]:
    """All that a table shows, and what the means are over."""
    keys = ("results", "groups", "group_subtasks", "n-samples", "versions", "n-shot")
    return {key: found[key] for key in keys if key in found}


def samples_file(folder: Path, name: str) -> Path:
    (found,) = folder.rglob(f"samples_{ALL}_{name}_*.jsonl")
    return found


def rewrite(file: Path, change: Callable[[list[str]], list[str]]) -> None:
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(change(lines)), encoding="utf-8")


def kept() -> list[Path]:
    """The folders of answers that wait to be judged."""
    return sorted((Path(os.environ["XDG_CACHE_HOME"]) / "lm-eval-tasks" / "answers").glob("*"))


def lose_cache() -> None:
    """Forget all verdicts but those of the run itself."""
    shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]) / "lm-eval-tasks")
