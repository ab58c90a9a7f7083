"""Batches that come to no end that is known, and servers whose replies are none: the command ends, and all is kept."""

from __future__ import annotations

import json
import time

import pytest
from batch_judges import IN_BATCH, api, asked, jobs_left, make, values  # noqa: F401
from batch_server import BatchServer, line

from lm_eval_tasks.judge import batch
from lm_eval_tasks.judge import batch_server as protocol

DAY = 86_400


# What the server shows of a batch that it never ends
ENDLESS = {
    "in progress for ever": {"status": "in_progress"},
    "a status that nobody knows": {"status": "paused_by_moon"},
    "cancelling for ever": {"status": "cancelling"},
    "expired long ago, by its own clock": {"status": "finalizing", "created_at": 5, "expires_at": 5.1},
    "a window of years": {"status": "in_progress", "created_at": 5, "expires_at": 5000 * DAY},
    "times that are none": {"status": "in_progress", "created_at": "x", "expires_at": [1]},
    "completed with replies, and no file of them": {
        "status": "completed",
        "output_file_id": None,
        "request_counts": {"total": 6, "completed": 6, "failed": 0},
    },
}


@pytest.mark.parametrize("rest", ["batch", "direct"])
@pytest.mark.parametrize("name", ENDLESS)
def test_a_batch_without_an_end_ends_the_waiting_and_stays_to_be_gone_on_with(
    api, make, monkeypatch, tmp_path, caplog, name, rest
):
    monkeypatch.setattr(protocol, "WINDOW", 0.05)
    monkeypatch.setattr(protocol, "GRACE", 0.05)
    with monkeypatch.context() as patched:
        real = BatchServer.shown
        patched.setattr(BatchServer, "shown", lambda self, batch: real(self, batch) | ENDLESS[name])
        for _ in range(2):  # the second command looks at it and ends at once
            begun = time.monotonic()
            assert {str(o)[:22] for o in values(asked(make(judge_batch_rest=rest)))} == {"batch: batch_0 is still"[:22]}
            assert time.monotonic() - begun < 5
    (note,) = (tmp_path / "cache.sqlite.batches").glob("*.json")
    assert json.loads(note.read_text())["batch_id"] == "batch_0"
    assert "The same command looks at it again" in caplog.text and f"remove {note}" in caplog.text
    assert values(asked(make())) == [IN_BATCH] * 6
    assert (len(api.batches), api.calls, jobs_left(tmp_path)) == (1, [], 0)


def test_a_longer_window_of_the_server_is_waited_for(api, make, monkeypatch):
    monkeypatch.setattr(protocol, "WINDOW", 0.05)
    monkeypatch.setattr(protocol, "GRACE", 0.05)
    real = BatchServer.shown
    monkeypatch.setattr(
        BatchServer, "shown", lambda self, name: real(self, name) | {"created_at": 7, "expires_at": 7 + 14 * DAY}
    )
    api.polls = 60
    assert values(asked(make())) == [IN_BATCH] * 6


# Replies to (method, path) that are no batch, no file, no list -> batches on the server in the end
NO_REPLY = [b"", b"{", b"null", b"[]", b'"text"', b"5", b"[" * 100_000, b'{"id": {}}', b"<html>"]


@pytest.mark.parametrize("body", NO_REPLY, ids=lambda body: body[:12].decode())
@pytest.mark.parametrize("place", [("POST", "files"), ("POST", "batches"), ("GET", "batches/"), ("GET", "batches")])
def test_a_reply_that_is_none_costs_no_traceback_and_nothing_twice(api, make, place, body):
    api.faults = {place: [body] * 99}
    if place == ("GET", "batches"):
        api.faults |= {("POST", "batches"): ["drop"]}
    outcomes = values(asked(make(judge_timeout=5)))
    assert set(outcomes) == {IN_BATCH} or all(str(reason).startswith("batch: ") for reason in outcomes)
    api.faults = {}
    assert values(asked(make())) == [IN_BATCH] * 6
    assert (len(api.batches), api.calls) == (1, [])


def test_how_to_go_on_is_said_where_the_list_of_batches_tells_nothing(api, make, tmp_path, caplog):
    api.faults = {("POST", "batches"): ["drop"], ("GET", "batches"): [404] * 9}
    asked(make())
    (note,) = (tmp_path / "cache.sqlite.batches").glob("*.json")
    assert f"remove {note} to submit it anew" in caplog.text


def test_nobody_waits_for_what_a_batch_without_an_end_holds_of_a_cap(api, make, monkeypatch):
    monkeypatch.setattr(batch, "MAX_REQUESTS", 3)
    api.faults = {("GET", "batches/batch_0"): [404] * 9}
    dear = {"prompt_tokens": 2000, "completion_tokens": 4}

    def unusable(request: dict) -> dict:
        found = line(request, "hm")
        found["response"]["body"]["usage"] = dear
        return found

    api.results = lambda number, rows: ([unusable(row) for row in rows], [])
    outcomes = values(asked(make(judge_batch_rest="direct", judge_max_tokens_total=6 * 1100)))
    assert {str(o)[:14] for o in outcomes[:3]} == {"batch: batch_0"}
    assert set(outcomes[3:]) == {"judge_max_tokens_total=6600 reached"} and api.calls == []


def test_results_without_an_end_fill_no_memory(api, make, monkeypatch):
    monkeypatch.setattr(protocol, "LARGEST_RESULTS", 1000)
    assert {str(o)[:32] for o in values(asked(make()))} == {"batch: batch_0 has results of mo"}
    monkeypatch.undo()
    monkeypatch.setattr(protocol, "SETTLE", 0.05)
    assert values(asked(make())) == [IN_BATCH] * 6 and len(api.batches) == 1
