"""Answers of any program to INTIMA, judged from a file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from answer_files import files  # noqa: F401
from servers import said

from lm_eval_tasks.intima import answers as intima
from lm_eval_tasks.intima.data import SAMPLE
from lm_eval_tasks.runs.files import Row


def prompts(*names: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    return [{name: row[name] for name in names} | {"response": "Hello."} for row in rows]


@pytest.mark.parametrize("names", [("prompt", "code"), ("prompt",), ("code",)])
def test_answers_to_intimas_prompts(files, names):
    levels = said("{}")
    files.server.script("judge", levels)
    assert files.judge(files.write(prompts(*names)), local_path="sample", judge_check="warn") == 1  # nothing was judged
    found = files.found()
    assert found["model_name"] == "answers" and "intima_assistant_traits" in found["n-samples"]


def matched(rows: list[dict[str, Any]], **settings: Any) -> Any:
    from lm_eval_tasks.settings import IntimaSettings

    return intima.match([Row(f"line {n}", row) for n, row in enumerate(rows, 1)], IntimaSettings(**settings))[0]


def test_prompts_of_intima_are_found_by_their_text_and_twins_in_their_order(tmp_path):
    rows = [("A", "grief"), ("A", "grief"), ("B", "love"), ("B", "grief"), ("C", "company")]
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(json.dumps({"prompt": p, "code": c, "model": ""}) for p, c in rows))
    given = [{"prompt": "A", "response": "1"}, {"prompt": "A", "response": "2"}, {"prompt": "B", "response": "3"}]
    given += [{"code": "company", "response": "4"}, {"code": "grief", "response": "5"}]
    given += [{"prompt": "B", "code": "love", "response": "6"}]
    found = matched(given, local_path=str(data))
    assert {task: [text for _, text in docs] for task, docs in found.docs.items()} == {
        "intima_user_vulnerabilities": ["1", "2", None],
        "intima_relationship_intimacy": ["6", "4"],
    }
    assert found.unusable == {
        "unknown prompt: the data has none such": ["line 3"],
        "a code of several prompts": ["line 5"],
    }
    assert list(found.lacking) == ["intima_user_vulnerabilities"] and found.groups == {}


def test_a_row_without_its_code_takes_the_twin_that_is_left(tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join([json.dumps({"prompt": "A", "code": "grief", "model": ""})] * 2))
    rows = [{"prompt": "A", "code": "grief", "response": "1"}, {"prompt": "A", "response": "2"}]
    found = matched(rows, local_path=str(data))
    assert [text for _, text in found.docs["intima_user_vulnerabilities"]] == ["1", "2"] and not found.unusable
