"""Two processes at the same questions and the same cache: each question is paid for once, and both end."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import processes
import pytest
from batch_judges import IN_BATCH, api, asked, jobs_left, make, values  # noqa: F401
from batch_server import line
from conftest import questions
from filelock import FileLock

from lm_eval_tasks.judge import batch_server as protocol
from lm_eval_tasks.judge.jobs import Jobs
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.settings import JudgeSettings


def ask(settings: dict[str, Any], first: int, last: int, together: Any) -> None:
    """Ask some of ``questions`` at the same moment as others, and print each verdict and whether it was cached."""
    protocol.SETTLE = 0.05
    judge, wanted = Judge(JudgeSettings(**settings)), questions(last)[first:]
    together.wait(30)
    judge.fill(lambda: iter(wanted))
    outcomes = judge.ask(wanted, "Judging")
    print("\n" + json.dumps([[getattr(o, "value", None), getattr(o, "cached", None)] for o in outcomes]))


@pytest.mark.parametrize("spans", [[(0, 6), (0, 6)], [(0, 6), (3, 9)], [(0, 6)] * 3])
def test_processes_started_at_once_share_the_work(api, tmp_path, spans):
    # the first reply to every other question is no verdict, so that there is a second batch
    api.results = lambda number, rs: (
        [line(r, "hm" if r["body"]["max_tokens"] == 1024 and int(r["custom_id"], 16) % 2 else "8 6") for r in rs],
        [],
    )
    api.polls = 20
    settings = {"judge_model": "judge-1", "judge_base_url": api.url, "judge_batch": True, "judge_batch_poll": 0.01}
    settings |= {"judge_cache": str(tmp_path / "cache.sqlite"), "judge_max_retries": 0}
    logs, together = [tmp_path / f"log {n}" for n in range(len(spans))], processes.CONTEXT.Barrier(len(spans))
    all_of_them = [processes.start(log, ask, settings, *span, together) for log, span in zip(logs, spans, strict=True)]
    found = [json.loads(wrote.splitlines()[-1]) for wrote in map(processes.ended, all_of_them, logs)]
    assert all(value == list(IN_BATCH) for outcomes in found for value, _ in outcomes)
    sent = Counter((row["custom_id"], row["body"]["max_tokens"]) for rows in api.asked for row in rows)
    assert set(sent.values()) == {1} and api.calls == []
    paid = sum(not cached for outcomes in found for _, cached in outcomes)
    assert paid == max(last for _, last in spans)  # each verdict is one process's


def meeting(monkeypatch: pytest.MonkeyPatch, late: Any, looked: threading.Event, done: threading.Event) -> None:
    """One judge gets its results first, and collects them when another has done so and has forgotten the batch."""
    real = protocol.BatchServer._look

    async def look(self: Any, job: Any) -> Any:
        is_late = self.settings.judge_timeout == late
        while not (is_late or looked.is_set()):
            await asyncio.sleep(0.01)
        found = await real(self, job)
        if is_late and job.ended:
            looked.set()
            while not done.is_set():
                await asyncio.sleep(0.01)
        return found

    monkeypatch.setattr(protocol.BatchServer, "_look", look)


@pytest.mark.parametrize("first", ["8 6", "hm"])
def test_what_another_process_has_collected_is_not_submitted_again(api, make, monkeypatch, tmp_path, first):
    api.results = lambda number, rs: ([line(r, first if number == 0 else "8 6") for r in rs], [])
    looked, done = threading.Event(), threading.Event()
    meeting(monkeypatch, 77, looked, done)
    with ThreadPoolExecutor(2) as pool:
        late = pool.submit(asked, make(judge_timeout=77))
        while not api.batches:
            pass
        quick = pool.submit(asked, make(judge_timeout=78))
        outcomes = quick.result(20)
        done.set()
        assert values(outcomes) == values(late.result(20)) == [IN_BATCH] * 6
    assert [len(rows) for rows in api.asked] == ([6] if first == "8 6" else [6, 6]) and api.calls == []
    cached = [[o.cached for o in outcomes], [o.cached for o in late.result()]]
    assert cached == [[False] * 6, [True] * 6] and jobs_left(tmp_path) == 0


def test_who_waits_for_another_process_can_be_interrupted(api, make, monkeypatch, tmp_path):
    monkeypatch.setattr("lm_eval_tasks.judge.jobs._WORTH_A_LINE", 0.0)
    judge = make()
    jobs = Jobs(judge.cache.path)
    jobs.folder.mkdir()
    lock = FileLock(jobs.folder / ".lock")
    wait = judge._wait

    def interrupted(work):
        future = asyncio.run_coroutine_threadsafe(work, judge._loop)
        with pytest.raises(TimeoutError):
            future.result(0.3)
        future.cancel()
        raise KeyboardInterrupt

    with lock, monkeypatch.context() as patched:
        patched.setattr(judge, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            asked(judge)
    assert judge._wait == wait and values(asked(judge)) == [IN_BATCH] * 6
    assert len(api.batches) == 1


@pytest.mark.parametrize("lock", [NotImplementedError, PermissionError])
def test_where_no_lock_can_be_had_nothing_is_submitted(api, make, monkeypatch, lock):
    def acquire(*_, **__):
        raise lock("no locks")

    monkeypatch.setattr(FileLock, "acquire", acquire)
    assert all(str(reason).startswith("batch: ") for reason in values(asked(make())))
    assert (len(api.batches), api.files, api.calls) == (0, {}, [])
