"""Files of answers beside a tiny data set, and the command that judges them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airbench_runs import by_role, question
from conftest import forget_judges, load_metadata
from servers import Asked, Server
from stored_runs import results

from lm_eval_tasks import cli

NAMES = ("path", "question", "answer_gt", "task_name", "dataset_name", "meta_info", "uniq_id")


@pytest.fixture
def files(server: Server, make_data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handlers: None) -> Any:
    """Files of answers beside a tiny data set, and the command that judges them."""
    monkeypatch.chdir(tmp_path)
    server.script("judge", by_score)
    return Files(server, make_data(), tmp_path)


def by_score(asked: Asked) -> str:
    """A judge that gives a prediction 4 and one more for each number of its question, and a reference 7."""
    return by_role(4 + question(asked)[1], 7, "5 5")(asked)


class Files:
    def __init__(self, server: Server, root: Path, folder: Path) -> None:
        self.server, self.root, self.folder = server, root, folder
        self.records = load_metadata(root)

    def rows(self, *names: str) -> list[dict[str, Any]]:
        """An answer to each record, in a row with these fields."""
        return [
            {name: record[name] for name in names or NAMES} | {"response": f"answer to {record['question']}"}
            for record in self.records
        ]

    def write(self, rows: list[Any], *, as_list: bool = False, name: str = "answers.jsonl") -> Path:
        file = self.folder / name
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        file.write_text("[" + ",\n".join(lines) + "]" if as_list else "\n".join(lines), encoding="utf-8")
        return file

    def judge(self, file: Path, *extra: str, **settings: Any) -> int:
        forget_judges()
        given = {"judge_model": "judge-1", "judge_base_url": self.server.url(), "judge_patience": 3, **settings}
        return cli.main(["judge", str(file), "--output_path", "judged", "--metadata", json.dumps(given), *extra])

    def found(self) -> dict[str, Any]:
        return results(self.folder / "judged")
