"""Fetching INTIMA: the hub's own client against a server that speaks the hub's protocol."""

from __future__ import annotations

import csv
import io
import socket
from collections.abc import Iterator
from pathlib import Path

import hub_server
import pytest

from lm_eval_tasks import cli
from lm_eval_tasks.errors import DataError
from lm_eval_tasks.intima import data
from lm_eval_tasks.settings import IntimaSettings

CARD = "---\nlicense: cc-by-4.0\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: {}\n---\n"


def table(*codes: str) -> bytes:
    """A CSV file with one prompt for each code."""
    text = io.StringIO()
    csv.writer(text).writerows([("prompt", "code", "model"), *((f"Bist du „{code}“?", code, "Qwen") for code in codes)])
    return text.getvalue().encode()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[hub_server.Hub]:
    from huggingface_hub import constants, file_download

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    with hub_server.running_hub() as running:
        hub_server.point_huggingface_to(running.url, monkeypatch, constants, file_download)
        forget()
        yield running
    forget()


def forget() -> None:
    """Begin as a new process would."""
    data._from_hub.cache_clear()
    data._hub_copy.cache_clear()


def switch_off(server: hub_server.Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nobody listens where the hub was."""
    from huggingface_hub import constants, file_download

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    server.gone = True
    hub_server.point_huggingface_to(f"http://127.0.0.1:{port}", monkeypatch, constants, file_download)
    forget()


def codes(**options: str) -> list[str]:
    docs = [doc for found in data.read_rows(IntimaSettings(**options)).by_task.values() for doc in found]
    return [doc["code"] for doc in sorted(docs, key=lambda doc: int(doc["id"]))]


def test_the_rows_are_read_with_their_commit_and_nothing_else_is_downloaded(server: hub_server.Hub) -> None:
    files = {"README.md": CARD.format("INTIMA.csv").encode(), "INTIMA.csv": table("love", "grief"), "plot.png": b"x"}
    commit = server.add(data.HUGGINGFACE_ID, files)
    assert codes() == ["love", "grief"]
    assert data.data_revision(IntimaSettings()) == commit
    assert sorted(server.sent()) == ["INTIMA.csv", "README.md"]


def test_a_card_that_names_the_files_of_the_split_is_followed(server: hub_server.Hub) -> None:
    files = {"README.md": CARD.format("data/prompts.csv").encode(), "data/prompts.csv": table("love")}
    server.add(data.HUGGINGFACE_ID, {**files, "answers.csv": b"a,b\n1,2\n"})
    assert codes() == ["love"]


def test_a_second_run_downloads_nothing_and_revisions_are_kept_apart(server: hub_server.Hub) -> None:
    server.add(data.HUGGINGFACE_ID, {"INTIMA.csv": table("love")}, "v1")
    server.add(data.HUGGINGFACE_ID, {"INTIMA.csv": table("grief")})
    assert (codes(), codes(revision="v1")) == (["grief"], ["love"])
    forget()
    server.log.clear()
    assert (codes(), codes(revision="v1")) == (["grief"], ["love"])
    assert not server.sent()


def test_without_a_network_the_revision_asked_for_is_used_or_none(
    server: hub_server.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add(data.HUGGINGFACE_ID, {"INTIMA.csv": table("grief")})
    assert codes() == ["grief"]
    server.add(data.HUGGINGFACE_ID, {"INTIMA.csv": table("love")}, "v1")
    assert codes(revision="v1") == ["love"]
    switch_off(server, monkeypatch)
    assert (codes(), codes(revision="v1")) == (["grief"], ["love"])
    with pytest.raises(DataError, match="revision 'v2'"):
        codes(revision="v2")


def test_a_hub_that_is_off_is_one_error_with_the_remedy(
    server: hub_server.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_off(server, monkeypatch)
    with pytest.raises(DataError, match=r"INTIMA could not be loaded: .*fetch intima.*local_path") as caught:
        codes()
    assert "\n" not in str(caught.value)


def test_files_that_are_no_table_are_one_error_with_the_remedy(server: hub_server.Hub) -> None:
    server.add(data.HUGGINGFACE_ID, {"INTIMA.jsonl": b'{"prompt": "cut sho'})
    with pytest.raises(DataError, match=r"cannot be read \(.*Remove that folder"):
        codes()


def test_the_command_fetches_ahead_and_prints_the_folder(
    server: hub_server.Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = server.add(data.HUGGINGFACE_ID, {"INTIMA.csv": table("love")}, "v1")
    assert cli.main(["fetch", "intima", "--revision", "v1"]) == 0
    assert capsys.readouterr().out.strip().endswith(commit)
    switch_off(server, monkeypatch)
    assert codes(revision="v1") == ["love"]
