"""INTIMA's prompts: from every kind of file, complete or not, and from the hub."""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import os
from pathlib import Path

import datasets
import pytest

from lm_eval_tasks.errors import DataError, NoDocs
from lm_eval_tasks.intima import data
from lm_eval_tasks.intima.scoring import CODES, PROMPTS
from lm_eval_tasks.settings import IntimaSettings

ROWS = [
    {"prompt": 'You, "darling",\nare {{always}} here?', "code": "availability", "model": "Llama"},
    {"prompt": "None", "code": "Long-Term Relationship", "model": ""},
    {"prompt": "Ähnlich wie früher? 🙂", "code": "age_of_the_user", "model": "Qwen"},
]
WRITERS = ("Llama-3.1-8B-Instruct", "Mistral-Small-24B-Instruct-2501", "Qwen2.5-72B-Instruct")


def write(path: Path, rows: list[dict]) -> Path:
    """Write rows in the form that the file's name asks for."""
    if path.suffix == ".parquet":
        datasets.Dataset.from_list(rows).to_parquet(path)
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def hub_rows() -> list[dict[str, str]]:
    """380 rows in the hub's proportions: four a code and model, no Llama for mirror, and twelve of memory."""
    codes = [code for codes in CODES.values() for code in codes]
    rows = [
        {"prompt": f"{code} {number} of {writer}", "code": code, "model": writer}
        for writer in WRITERS
        for code in [*codes, "memory"]
        for number in range(4)
    ]
    return [row for row in rows if row["code"] != "mirror" or row["model"] != WRITERS[0]]


def given(path: Path | str, **more: object) -> IntimaSettings:
    """Settings that name a local file."""
    return IntimaSettings(local_path=str(path), **more)


def load(settings: IntimaSettings, category: str) -> list[dict[str, str]]:
    """The docs of a category."""
    return data.load_docs(settings, category).docs


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was warned of so far."""
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lm_eval's log be read here."""
    monkeypatch.setattr(logging.getLogger("lm_eval"), "propagate", True)
    caplog.set_level(logging.WARNING)


def test_the_sample_has_one_prompt_of_each_code_and_no_warning(caplog):
    docs = {category: load(given("sample"), category) for category in CODES}
    assert {category: tuple(doc["code"] for doc in found) for category, found in docs.items()} == CODES
    assert warnings(caplog) == []


@pytest.mark.parametrize("name", ["rows.json", "ROWS.JSONL", "rows.csv", "rows.parquet"])
def test_each_form_of_file_gives_the_same_docs_and_facts(tmp_path, monkeypatch, name):
    monkeypatch.setattr(data.tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    path = write(tmp_path / name, [{"extra": "x", **row} for row in ROWS])
    relations = data.load_docs(given(path), "relationship_intimacy")
    assert relations.docs == [
        {"id": "0", **ROWS[0], "category": "relationship_intimacy"},
        {"id": "1", **ROWS[1], "code": "long-term relationship", "category": "relationship_intimacy"},
    ]
    assert relations.facts == {
        "metadata_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "records": 2,
        "official_records": 96,
        "repeated_ids": [],
    }
    assert load(given(path), "user_vulnerabilities") == [
        {"id": "2", **ROWS[2], "code": "age of the user", "category": "user_vulnerabilities"}
    ]
    assert list((tmp_path / "scratch").iterdir()) == []
    write(path, ROWS[:1])  # read again
    assert len(load(given(path), "relationship_intimacy")) == 1


# What differs from the paper


@pytest.mark.parametrize(
    ("asked", "told"),
    [(False, "left out; include_extra_codes=true"), (True, "They run as intima_other")],
    ids=["left out", "asked for"],
)
def test_the_hubs_copy_gives_the_papers_368_and_names_the_rest(tmp_path, caplog, asked, told):
    settings = given(write(tmp_path / "hub.jsonl", hub_rows()), include_extra_codes=asked)
    assert {name: len(load(settings, name)) for name in CODES} == PROMPTS
    if asked:
        assert [(doc["code"], doc["category"]) for doc in load(settings, "other")] == [("memory", "other")] * 12
    [warning] = warnings(caplog)
    assert "12 of its 380 rows" in warning and "memory (12)" in warning and told in warning


def test_a_category_without_prompts_is_named(tmp_path):
    for settings, category, told in (
        (given("sample"), "other", r"intima_other.*include_extra_codes=true"),
        (given("sample", include_extra_codes=True), "other", "local_path=sample has no prompt of a code that the"),
        (
            given(write(tmp_path / "rows.jsonl", ROWS)),
            "emotional_investment",
            r"rows\.jsonl has no prompt of emotional_investment \(growing from a tool, ",
        ),
    ):
        with pytest.raises(NoDocs, match=told):
            load(settings, category)


def test_another_number_of_prompts_is_warned_of_with_its_numbers(tmp_path, caplog):
    rows = [row for row in hub_rows() if row["code"] not in ("memory", "grief")]
    load(given(write(tmp_path / "less.jsonl", rows)), "assistant_traits")
    [warning] = warnings(caplog)
    assert "356 prompts of the paper's codes, where the paper has 368" in warning
    assert "user_vulnerabilities 72, not 84" in warning
    assert "assistant_traits" not in warning


# Data that cannot be used


ODD = [
    ({"prompt": "  "}, "prompt is empty"),
    ({"prompt": None}, "prompt is empty"),
    ({"prompt": 7}, "prompt is int, not text"),
    ({"prompt": "half \ud83d"}, "prompt holds what is no character (half of a surrogate pair, or no UTF-8)"),
    ({"model": True}, "model is bool, not text"),
    ({"code": ""}, "code is empty"),
    ({"code": 3.5}, "code is float, not text"),
]


@pytest.mark.parametrize(("change", "cause"), ODD)
@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl"])
def test_an_odd_row_costs_itself_and_is_named_with_its_cause(tmp_path, caplog, name, change, cause):
    path = write(tmp_path / name, [ROWS[0], ROWS[1] | change, ROWS[2]])
    found = data.load_docs(given(path), "relationship_intimacy")
    assert [doc["id"] for doc in found.docs] == ["0"]
    expected = {f"bad record: {cause}": ["row 2"]}
    assert found.left_out == ({} if "code" in change else expected)
    assert found.facts.get("left_out_of_all_tasks") == (expected if "code" in change else None)
    assert any(f"bad record: {cause}: 1 (row 2)" in warning for warning in warnings(caplog))
    with pytest.raises(DataError, match=r"on_bad_record=error: bad record: .* 1 \(row 2\)"):
        load(given(path, on_bad_record="error"), "user_vulnerabilities")


def test_an_odd_row_of_another_form_of_file_costs_itself(tmp_path):
    path = write(tmp_path / "rows.csv", [ROWS[0], ROWS[1] | {"prompt": " "}])
    path.write_bytes(path.read_bytes() + b"caf\xe9,love,x\nlove\n")
    found = data.load_docs(given(path), "relationship_intimacy")
    left_out = sorted(name for names in found.left_out.values() for name in names)
    assert (len(found.docs), left_out) == (1, ["row 2", "row 3"])
    assert list(found.facts["left_out_of_all_tasks"].values()) == [["row 4"]]
    path = write(tmp_path / "rows.parquet", [ROWS[0], ROWS[1] | {"prompt": ""}])
    assert data.load_docs(given(path), "relationship_intimacy").left_out == {"bad record: prompt is empty": ["row 2"]}
    path = write(tmp_path / "rows.jsonl", ROWS)
    path.write_text(path.read_text(encoding="utf-8") + '{"prompt": "cut sho', encoding="utf-8")
    found = data.load_docs(given(path), "relationship_intimacy")
    assert found.facts["left_out_of_all_tasks"] == {"bad record: str, not an object": ["row 4"]}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("rows.jsonl", b'{"prompt": "a", "code": ', ""),
        ("rows.json", b"[1, 2", ""),
        ("rows.parquet", b"PAR1 no more", ""),
        ("rows.jsonl", b"", ""),
        ("rows.csv", b"", ""),
        ("rows.csv", "prompt,code,model\nGr\u00fc\u00dfe,love,x\n".encode("latin-1"), ""),
        ("rows.json", b'"text"', ""),
        ("rows.csv", b"code,model,text\na,b,c\n", "has no column prompt; its columns are .*text. Name them"),
        ("rows.csv", b"prompt,model,text\na,b,c\n", "has no column code; its columns are .*text. Name them"),
        ("rows.csv", b"prompt,code,text\na,b,c\n", "has no column model; its columns are .*text. Name them"),
        ("rows.xlsx", b"x", r"must end in one of \.json, \.jsonl, \.csv, \.parquet"),
        ("rows.jsonl", None, "cannot be read: a pipe, not a file"),
        ("rows.jsonl", ..., "Leave local_path out"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_that_names_it(tmp_path, name, content, told):
    path = tmp_path / name
    if content is None:
        os.mkfifo(path)
    elif content is not ...:
        path.write_bytes(content)
    with pytest.raises(DataError, match=told or name) as caught:
        load(given(path), "relationship_intimacy")
    assert name in str(caught.value)


@pytest.mark.parametrize("folder", ["Chat", "."])
def test_the_folder_of_the_other_benchmark_says_how_to_give_each_its_own(tmp_path, folder):
    (tmp_path / "Chat").mkdir()
    with pytest.raises(DataError, match=r'looks like AIR-Bench-Chat.*\{"intima": \{"local_path": "FILE"\}\}'):
        load(given(tmp_path / folder), "assistant_traits")


# The hub


COMMIT = "0123456789abcdef" * 2 + "01234567"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The calls of the hub's client, which leave its 380 rows in a folder of their commit."""
    calls = []

    def snapshot(*asked):
        calls.append(asked)
        folder = tmp_path / "snapshots" / COMMIT
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / "INTIMA.csv", hub_rows())
        return folder

    caches = data._from_hub, data._hub_copy
    monkeypatch.setattr(data, "snapshot", snapshot)
    for cache in caches:
        cache.cache_clear()
    yield calls
    for cache in caches:
        cache.cache_clear()


def test_the_hub_is_asked_once_for_all_tasks_and_for_the_revision(hub):
    assert data.load_docs(given("sample"), "assistant_traits").commit is None and hub == []
    for category in CODES:
        found = data.load_docs(IntimaSettings(revision="abc"), category)
        assert (len(found.docs), found.commit) == (PROMPTS[category], COMMIT)
    assert hub == [("AI-companionship/INTIMA", "abc", data.PATTERNS)]
