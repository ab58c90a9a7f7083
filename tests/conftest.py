"""What all tests share: an empty cache folder, no keys, a scripted server and tiny data sets."""

from __future__ import annotations

import json
import logging
import os
import pickle
import ssl
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import servers
import soundfile
from browser_pages import browser, page_of, show  # noqa: F401

from lm_eval_tasks import INCLUDE_PATH, settings
from lm_eval_tasks.airbench_chat.prompt import parse_scores
from lm_eval_tasks.data.records import forget_records
from lm_eval_tasks.judge import marks
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Question
from lm_eval_tasks.server import client, pace
from lm_eval_tasks.settings import JudgeSettings

# the same examples each time, on slow machines too; a longer search with others: HYPOTHESIS_PROFILE=search
hypothesis.settings.register_profile("search", deadline=None, database=None)
hypothesis.settings.register_profile("tests", deadline=None, database=None, derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))

FOLDERS = {
    "speech_QA": "iemocap",
    "speech_dialogue_QA": "spokenwoz",
    "sound_QA": "clotho",
    "sound_generation_QA": "clotho",
    "music_QA": "musiccaps",
    "music_generation_analysis_QA": "musiccaps",
    "speech_and_sound_QA": "audiocaps_cv",
    "speech_and_music_QA": "musiccaps_cv",
}
"""Each task with the source that tiny data sets use for it."""


@pytest.fixture(autouse=True)
def clean_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No cache, key, setting or judge of the machine or of another test, and no long pauses."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    for name in list(os.environ):
        if name in ("JUDGE_API_KEY", "OPENAI_API_KEY") or name.startswith(settings.ENV_PREFIX):
            monkeypatch.delenv(name)
    monkeypatch.setattr(pace, "_LONGEST_PAUSE", 0.05)  # for a server that is busy or away
    monkeypatch.setattr(client, "BROKEN_PAUSE", 0.05)
    forget_judges()
    marks._key.cache_clear()
    yield
    forget_judges()


@pytest.fixture(autouse=True, scope="session")
def files_of_tasks_read_once() -> None:
    """The pack's YAML files, which lm-eval reads for each group of each run, are read once where nothing changed."""
    index = sys.modules.get("lm_eval.tasks._index")  # of a test that needs it, which was collected before
    if not index:
        return
    read, known = index.load_yaml, {}

    def load(path: Path, **options: Any) -> dict[str, Any]:
        if not path.is_relative_to(INCLUDE_PATH):
            return read(path, **options)
        key = (path, *options.items())
        if key not in known:
            known[key] = pickle.dumps(read(path, **options))
        return pickle.loads(known[key])

    index.load_yaml = load


@pytest.fixture(autouse=True, scope="session")
def no_certificates() -> None:
    """The machine's list of certificates is not read for each client, since no call of a test is encrypted."""
    read, paths = ssl.SSLContext.load_verify_locations, ssl.get_default_verify_paths()

    def load(context: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        if cadata or cafile not in (None, paths.openssl_cafile):
            read(context, cafile, capath, cadata)

    ssl.SSLContext.load_verify_locations = load


def forget_judges() -> None:
    """Start the next run as a new process would: without a judge or warnings of the last one."""
    for judge in Judge._shared.values():
        judge.close()
    Judge._shared.clear()
    forget_records()


@pytest.fixture
def server() -> Iterator[servers.Server]:
    """A scripted server; see ``servers.Server.script``."""
    with servers.running() as running:
        yield running


def write_tone(path: Path, hertz: float = 440.0, seconds: float = 0.1, rate: int = 8000, **options: Any) -> Path:
    """A sine at half of full scale; options are soundfile's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    wave = 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)
    soundfile.write(path, wave, rate, **options)
    return path


@pytest.fixture
def make_data(tmp_path: Path) -> Callable[..., Path]:
    """A function that makes a tiny data set and returns its root.

    It takes the number of records of each task by name (2 of each task where none is named) and ``name`` of the folder;
    the question of each record is unique: ``<task> question <number>?``.
    """

    def make(name: str = "data", **counts: int) -> Path:
        root, records = tmp_path / name, []
        for task, count in (counts or dict.fromkeys(FOLDERS, 2)).items():
            for number in range(count):
                record = {
                    "path": f"clip {number}.wav",
                    "question": f"{task} question {number}?",
                    "answer_gt": f"{task} reference {number}",
                    "task_name": task,
                    "dataset_name": FOLDERS[task],
                    "meta_info": f"{{'caption': '{task} description {number}'}}",
                    "uniq_id": len(records),
                }
                write_tone(root / "Chat" / f"{task}_{FOLDERS[task]}" / record["path"], 200 + 10 * number)
                records.append(record)
        save_metadata(root, records)
        return root

    return make


def save_metadata(root: Path, records: Any) -> None:
    """Write ``Chat_meta.json``."""
    path = root / "Chat" / "Chat_meta.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")


def load_metadata(root: Path) -> list[dict[str, Any]]:
    """Read ``Chat_meta.json``."""
    return json.loads((root / "Chat" / "Chat_meta.json").read_text(encoding="utf-8"))


QUESTION = Question(
    messages=({"role": "system", "content": "You judge."}, {"role": "user", "content": "Which is better?"}),
    parse=parse_scores,
    form="Write two numbers.",
    prompt_version="test-1",
)
"""A small question whose verdict is a pair of scores."""


def questions(count: int) -> list[Question]:
    """Questions that differ in their number: ``Question <number>?``."""
    head = QUESTION.messages[0]
    return [
        replace(QUESTION, messages=(head, {"role": "user", "content": f"Question {number}?"}))
        for number in range(count)
    ]


@pytest.fixture
def make_judge(server: servers.Server) -> Iterator[Callable[..., Judge]]:
    """A function that makes a judge of the scripted server: impatient, without a cache unless told otherwise."""
    made = []

    def make(**options: Any) -> Judge:
        usual = {
            "judge_model": "judge-1",
            "judge_base_url": server.url(),
            "judge_max_retries": 2,
            "judge_timeout": 5,
            "judge_patience": 3,
        }
        made.append(Judge(JudgeSettings(**{**usual, "judge_cache": False, **options})))
        return made[-1]

    make.made = made
    yield make
    for judge in made:
        judge.close()


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Take off the log handlers that a command puts on, since their stream is this test's."""
    before = {name: logging.getLogger(name).handlers[:] for name in (None, "lm_eval")}
    yield
    for name, found in before.items():
        logging.getLogger(name).handlers[:] = found


@pytest.fixture
def runs(
    server: servers.Server,
    make_data: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    handlers: None,
) -> Any:
    """Runs by the command; see ``stored_runs.Runs``."""
    import stored_runs
    from airbench_runs import listener

    server.script("model", listener)
    server.script("judge", stored_runs.scores)
    monkeypatch.chdir(tmp_path)
    return stored_runs.Runs(server, make_data(**stored_runs.DOCS), tmp_path)


@pytest.fixture
def airbench_server(server: servers.Server) -> servers.Server:
    """The scripted server, whose model says what it was asked and whose judge says "8 6"."""
    from airbench_runs import listener  # which imports this file

    server.script("model", listener)
    server.script("judge", "8 6")
    return server


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """INTIMA's small data set as a file."""
    import intima_runs

    return intima_runs.write_rows(tmp_path / "rows.jsonl")


def reference(path, **fields):
    """A clip as a task hands it on, with other fields where some are given."""
    from lm_eval_tasks.audio.clips import inspect_audio
    from lm_eval_tasks.utils import doc_to_visual

    return doc_to_visual({"audio": {**inspect_audio(path), **fields}})[0]


@pytest.fixture
def ask(server: servers.Server, make_judge: Callable[..., Judge]) -> Callable[..., list[str | None]]:
    """Asks the model or the judge about some docs: what each got, as text, or None."""
    from server_roles import asker

    return asker(server, make_judge)
