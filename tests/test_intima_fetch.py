"""Fetching INTIMA: the hub's own client against a server that speaks the hub's protocol."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from shutil import rmtree

import pytest
from huggingface_hub import constants
from test_airbench_fetch import Source, huggingface, server  # noqa: F401 - a hub and its client

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


def codes(**options: str) -> list[str]:
    docs = [doc for found in data.read_rows(IntimaSettings(**options)).by_task.values() for doc in found]
    return [doc["code"] for doc in sorted(docs, key=lambda doc: int(doc["id"]))]


def forget() -> None:
    """Begin as a new process would."""
    data._from_hub.cache_clear()
    data._hub_copy.cache_clear()


@pytest.fixture
def hub(huggingface: Source) -> Iterator[Source]:  # noqa: F811
    forget()
    yield huggingface
    forget()


@pytest.mark.parametrize("name", ["INTIMA.csv", "data/prompts.csv"])
def test_the_rows_that_the_card_names_are_read_with_their_commit_and_nothing_else_is_downloaded(hub, name):
    files = {"README.md": CARD.format(name).encode(), name: table("love", "grief"), "plot.png": b"x"}
    commit = hub.server.add(data.HUGGINGFACE_ID, files)
    assert codes() == ["love", "grief"]
    assert data.load_docs(IntimaSettings(), "relationship_intimacy").commit == commit
    assert sorted(hub.server.sent()) == sorted(["README.md", name])


def test_a_second_run_downloads_nothing_and_revisions_are_kept_apart(hub):
    add = hub.server.add
    add(data.HUGGINGFACE_ID, {"INTIMA.csv": table("love")}, "v1")
    add(data.HUGGINGFACE_ID, {"INTIMA.csv": table("grief")})
    assert (codes(), codes(revision="v1")) == (["grief"], ["love"])
    forget()
    hub.server.log.clear()
    assert (codes(), codes(revision="v1")) == (["grief"], ["love"])
    assert not hub.server.sent()
    hub.switch_off()
    forget()
    assert (codes(), codes(revision="v1")) == (["grief"], ["love"])
    with pytest.raises(DataError, match="revision 'v2'"):
        codes(revision="v2")


def test_a_hub_that_is_off_or_holds_no_table_is_one_error_with_the_remedy(hub):
    hub.server.add(data.HUGGINGFACE_ID, {"INTIMA.jsonl": b'{"prompt": "cut sho'})
    with pytest.raises(DataError, match=r"cannot be read \(.*Remove that folder"):
        codes()
    hub.switch_off()
    rmtree(constants.HF_HUB_CACHE)
    forget()
    with pytest.raises(DataError, match=r"INTIMA could not be loaded: .*fetch intima.*local_path") as caught:
        codes()
    assert "\n" not in str(caught.value)


def test_the_command_fetches_ahead_and_prints_the_folder(hub, capsys):
    commit = hub.server.add(data.HUGGINGFACE_ID, {"INTIMA.csv": table("love")}, "v1")
    assert cli.main(["fetch", "intima", "--revision", "v1"]) == 0
    assert capsys.readouterr().out.strip().endswith(commit)
    hub.switch_off()
    forget()
    assert codes(revision="v1") == ["love"]
