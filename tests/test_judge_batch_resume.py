"""A batch is paid for once, whatever happens to the process, the server or the notes on disk."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import batch_server
import processes
import pytest
from aiohttp import web
from batch_judges import IN_BATCH, api, asked, jobs_left, make, values  # noqa: F401
from batch_server import BatchServer
from conftest import questions

from lm_eval_tasks.judge import batch_server as protocol
from lm_eval_tasks.judge.jobs import Jobs
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.settings import JudgeSettings

# A process that dies: the step at which it does


class Killed(BaseException):
    pass


STEPS = {
    "before the upload": ("POST", "files"),
    "before the batch": ("POST", "batches"),
    "while it waits": ("GET", "batches/"),
    "while it downloads": ("GET", "files/"),
}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_process_pays_no_batch_twice(api, make, monkeypatch, tmp_path, step, after):
    method, path = STEPS[step]
    judge = make()
    real, dead = judge.client.api, []

    def dying():
        client = real()
        send = client._client.send

        async def once(request, **options):
            hit = request.method == method and request.url.path.startswith(f"/v1/{path}")
            if hit and not after:
                raise Killed
            response = await send(request, **options)
            if hit:
                raise Killed
            return response

        monkeypatch.setattr(client._client, "send", once)
        dead.append(client)
        return client

    monkeypatch.setattr(judge.client, "api", dying)
    with pytest.raises(Killed):
        asked(judge)
    assert dead
    monkeypatch.undo()
    monkeypatch.setattr(protocol, "SETTLE", 0.05)
    api.live = lambda body: pytest.fail("a direct call")
    assert values(asked(make())) == [IN_BATCH] * 6
    assert len(api.batches) == 1 and jobs_left(tmp_path) == 0


# Faults, what the command says of them, and the batches on the server then; the next command finishes the work
FAILING = [
    ({("POST", "files"): [400]}, "batch: ", 0),
    ({("POST", "batches"): [400]}, "batch: ", 0),
    ({("POST", "batches"): [429]}, "batch: ", 0),
    ({("POST", "batches"): [500]}, "batch: the batch could not be created", 0),
    ({("POST", "batches"): [503]}, "batch: the batch could not be created", 0),
    ({("POST", "batches"): ["drop"], ("GET", "batches"): [500] * 9}, "batch: whether a batch of the ", 1),
    ({("GET", "batches/"): [404]}, "batch: ", 1),
    ({("GET", "batches/"): [503] * 999}, "batch: ", 1),
    ({("GET", "files/"): [503] * 999}, "batch: ", 1),
]


@pytest.mark.parametrize(("fault", "told", "batches"), FAILING)
def test_a_server_that_fails_keeps_what_is_paid_for_and_costs_no_direct_calls(
    api, make, tmp_path, fault, told, batches
):
    api.faults = fault
    assert all(reason.startswith(told) for reason in values(asked(make())))
    assert (len(api.batches), api.calls, jobs_left(tmp_path)) == (batches, [], batches)
    if "whether" in told:  # nor is one submitted by the next command that is not told
        api.faults = {("GET", "batches"): [500] * 9}
        assert all(reason.startswith(told) for reason in values(asked(make())))
    api.faults = {}
    assert values(asked(make())) == [IN_BATCH] * 6
    assert (len(api.batches), api.calls) == (1, [])


@pytest.mark.parametrize(
    "faults",
    [
        {("POST", "batches"): ["drop"]},
        {("GET", "batches/"): [503, 429, 500] * 2, ("GET", "files/"): [503] * 2, ("POST", "files"): [503]},
        {("GET", "batches/"): [b"{", 503, b"<html>"]},
        {("GET", "files/"): [503, 500]},
    ],
)
def test_faults_that_pass_are_waited_out(api, make, faults):
    api.faults = faults
    assert values(asked(make(judge_patience=20))) == [IN_BATCH] * 6
    assert len(api.batches) == 1


def test_questions_of_a_batch_under_way_are_in_no_other(api, make, tmp_path):
    api.faults = {("GET", "batches/"): [404]}
    asked(make(), 4)
    api.faults = {}
    assert values(asked(make(), 6)) == [IN_BATCH] * 6
    assert [len(rows) for rows in api.asked] == [4, 2] and jobs_left(tmp_path) == 0


def test_results_that_this_command_has_no_use_for_are_kept_for_another(api, make, tmp_path):
    api.faults = {("GET", "batches/"): [404]}
    asked(make(), 6)
    api.faults = {}
    assert values(asked(make(), 2)) == [IN_BATCH] * 2
    api.faults = {("GET", ""): [404] * 99}  # the server has forgotten all of it
    assert jobs_left(tmp_path) == 2
    assert values(asked(make(), 6)) == [IN_BATCH] * 6
    assert (len(api.batches), jobs_left(tmp_path)) == (1, 0)


def test_a_damaged_note_of_a_batch_stops_the_submission(api, make, tmp_path):
    judge = make()
    folder = tmp_path / "cache.sqlite.batches"
    folder.mkdir()
    (folder / "x.json").write_text("{")
    assert {reason.split(" is damaged")[0] for reason in values(asked(judge))} == {f"batch: {folder / 'x.json'}"}
    assert (len(api.batches), api.calls) == (0, [])


def test_without_a_cache_that_can_be_written_nothing_is_submitted(api, make, monkeypatch):
    judge = make()
    monkeypatch.setattr(type(judge.cache), "writable", False)
    assert {reason[:30] for reason in values(asked(judge))} == {"batch: the verdict cache canno"}
    assert (len(api.batches), api.files, api.calls) == (0, {}, [])
    with pytest.raises(ValueError, match="needs the verdict cache"):
        JudgeSettings(judge_batch=True, judge_cache=False)


@pytest.mark.parametrize("reply", [{}, {"id": None}, {"id": 5}, [], "text"])
def test_a_creation_that_names_no_batch_is_looked_for_in_the_list(api, make, monkeypatch, reply):
    real = BatchServer.create

    async def create(self, request):
        await real(self, request)
        return web.json_response(reply)

    monkeypatch.setattr(BatchServer, "create", create)
    with batch_server.running() as other:
        assert values(asked(make(judge_base_url=other.url))) == [IN_BATCH] * 6
        assert len(other.batches) == 1 and other.calls == []


@pytest.mark.parametrize("fields", [{"metadata": None, "input_file_id": None}, {"metadata": "x", "input_file_id": ""}])
def test_a_list_that_does_not_name_files_proves_no_batch_absent(api, make, monkeypatch, fields):
    real = BatchServer.shown
    api.faults = {("POST", "batches"): ["drop"]}
    monkeypatch.setattr(BatchServer, "shown", lambda self, name: real(self, name) | fields)
    for _ in range(2):
        assert {reason[:32] for reason in values(asked(make()))} == {"batch: whether a batch of the fi"}
    assert (len(api.batches), api.calls) == (1, [])


def test_a_batch_that_is_gone_costs_its_own_questions_only(api, make, tmp_path, caplog):
    api.faults = {("GET", "batches/"): [404]}
    asked(make(), 2)
    api.faults = {("GET", "batches/batch_0"): [404] * 9}
    outcomes = values(asked(make(), 6))
    assert outcomes[2:] == [IN_BATCH] * 4 and {o[:14] for o in outcomes[:2]} == {"batch: batch_0"}
    assert [len(rows) for rows in api.asked] == [2, 4] and api.calls == []
    (note,) = (tmp_path / "cache.sqlite.batches").glob("*.json")
    assert f"remove {note}" in caplog.text
    note.unlink()
    assert values(asked(make(), 6)) == [IN_BATCH] * 6


def killed_after(settings: dict[str, Any], steps: int) -> None:
    """A batch in a process that is killed at a write to disk; prints how many verdicts it got where it was not."""
    left = steps

    def count(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return counted

    protocol.SETTLE = 0.05
    for name in ("save", "keep_results", "results", "looked_at", "drop", "_write"):
        setattr(Jobs, name, count(getattr(Jobs, name)))
    judge, wanted = Judge(JudgeSettings(**settings)), questions(6)
    judge.fill(lambda: iter(wanted))
    print("known:", sum(judge.knows(question) for question in wanted))


@pytest.mark.parametrize("steps", [1, 3, 5, 7, 9, 10, 11])
def test_kill_9_between_the_writes_to_disk(api, make, tmp_path, steps):
    settings = {"judge_model": "judge-1", "judge_base_url": api.url, "judge_batch": True, "judge_batch_poll": 0.01}
    settings |= {"judge_cache": str(tmp_path / "cache.sqlite"), "judge_max_retries": 0}
    process, log = processes.start(tmp_path / "log", killed_after, settings, steps), tmp_path / "log"
    process.join(50)
    wrote = log.read_text(encoding="utf-8")
    assert process.exitcode == -signal.SIGKILL or wrote.endswith("known: 6\n"), wrote[-500:]
    assert values(asked(make())) == [IN_BATCH] * 6
    assert (len(api.batches), api.calls) == (1, [])  # a note may be left of which nothing is wanted any more
