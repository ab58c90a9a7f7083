"""A server of batches and judges that fill their cache from it; for two files of tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import batch_server
import pytest
from batch_server import BatchServer
from conftest import questions

from lm_eval_tasks.judge import batch_server as protocol
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Unjudged, Verdict
from lm_eval_tasks.settings import JudgeSettings


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setattr(protocol, "SETTLE", 0.05)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01, raising=False)  # of uploads and lists
    with batch_server.running() as server:
        yield server


@pytest.fixture
def make(api: BatchServer, tmp_path: Path) -> Iterator[Callable[..., Judge]]:
    """Judges of that server, each as in a process of its own, with one cache between them."""
    made = []

    def one(**options: Any) -> Judge:
        usual = {"judge_model": "judge-1", "judge_base_url": api.url, "judge_batch": True, "judge_batch_poll": 0.01}
        usual |= {"judge_cache": str(tmp_path / "cache.sqlite"), "judge_patience": 0.3, "judge_max_retries": 0}
        made.append(Judge(JudgeSettings(**{**usual, **options})))
        return made[-1]

    yield one
    for judge in made:
        judge.close()


def asked(judge: Judge, count: int = 6) -> list[Verdict | Unjudged]:
    """The outcomes of so many questions: a batch first, then as ever."""
    wanted = questions(count)
    judge.fill(lambda: iter(wanted))
    return judge.ask(wanted, "Judging")


def values(outcomes: list[Verdict | Unjudged]) -> list[Any]:
    return [outcome.value if isinstance(outcome, Verdict) else outcome.reason for outcome in outcomes]


def jobs_left(tmp_path: Path) -> int:
    return len(list((tmp_path / "cache.sqlite.batches").glob("*.json*")))


IN_BATCH, LIVE = (8.0, 6.0), (7.0, 7.0)
