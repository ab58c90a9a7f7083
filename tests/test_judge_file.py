"""Answers of any program, judged from a file; and a run in the official form, counted by the official rules."""

from __future__ import annotations

import codecs
import json
import threading
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import processes
import pytest
from airbench_runs import ALL, answers, by_role, question
from conftest import forget_judges, load_metadata
from servers import Asked, Server, said
from stored_runs import results

from lm_eval_tasks import cli
from lm_eval_tasks.airbench_chat import answers as airbench
from lm_eval_tasks.airbench_chat.scoring import CATEGORY
from lm_eval_tasks.intima import answers as intima
from lm_eval_tasks.intima.data import SAMPLE
from lm_eval_tasks.runs.files import Row, read_rows

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


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("names", [NAMES, ("task_name", "uniq_id")])
def test_answers_of_a_file_get_the_scores_of_a_run(files, names, as_list):
    for clip in files.root.rglob("*.wav"):
        clip.unlink()
    file = files.write(files.rows(*names)[::-1], as_list=as_list)
    assert files.judge(file, "--model_name", "mine", local_path=str(files.root)) == 0
    found = files.found()
    assert {name: row["gpt_score,judge"] for name, row in found["results"].items()} == dict.fromkeys(
        found["results"], 4.5
    )
    assert ALL in found["results"] and len(found["results"]) == 15
    assert (found["model_name"], found["config"]["model"]) == ("mine", "a file of answers")
    assert found["judged_again"]["source"] == str(file)
    assert found["configs"][f"{ALL}_sound_QA"]["metadata"]["judging"]["settings"]["audio_part"] is None
    assert len(list((files.folder / "judged").rglob("samples_*.jsonl"))) == 8
    assert cli.main(["report", "judged", "--output", "page.html"]) == 0


def test_results_of_a_file_can_be_judged_again_and_stay_those_of_a_file(files):
    files.judge(files.write(files.rows()), local_path=str(files.root))
    first = files.found()
    assert cli.main(["rejudge", "judged", "--trust", "--output_path", "again"]) == 0
    again = results(files.folder / "again")
    assert again["results"] == first["results"]
    assert again["configs"][f"{ALL}_sound_QA"]["metadata"]["judging"]["settings"]["audio_part"] is None


@pytest.mark.parametrize(
    ("said_by_rows", "given", "expected"),
    [({}, None, "answers"), ({"model": "a"}, None, "a"), ({"model_name": "a"}, "b", "b"), ({}, "b", "b")],
)
def test_the_models_name_is_given_or_in_the_file_or_the_files(files, said_by_rows, given, expected):
    file = files.write([row | said_by_rows for row in files.rows()[:2]])
    files.judge(file, *(["--model_name", given] if given else []))
    assert files.found()["model_name"] == expected


def test_of_several_models_one_has_to_be_named(files, capsys):
    rows = [row | {"model": "a"} for row in files.rows()] + [row | {"model": "b"} for row in files.rows()]
    file = files.write(rows)
    assert files.judge(file) == 2
    assert "answers of a, b: name one of them with --model_name" in capsys.readouterr().err
    assert files.judge(file, "--model_name", "b", local_path=str(files.root)) == 0
    assert files.found()["judged_again"]["file"]["rows"] == 16


def test_without_the_data_a_task_is_complete_when_it_is_as_long_as_the_official_one(files, monkeypatch, capsys):
    file = files.write(files.rows())
    assert files.judge(file) == 0
    assert ALL not in files.found()["results"] and f"{ALL}_speech" not in files.found()["results"]
    assert "air_bench_chat_speech_QA is not complete: answers to 2 of 400 docs" in capsys.readouterr().err
    monkeypatch.setattr(airbench, "RECORDS", dict.fromkeys(CATEGORY, 2) | {"sound_QA": 3})
    assert files.judge(file) == 0
    assert {f"{ALL}_speech", f"{ALL}_mixed"} < files.found()["results"].keys()
    assert not {ALL, f"{ALL}_sound"} & files.found()["results"].keys()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("as_list", [False, True])
def test_a_file_as_windows_writes_it(tmp_path, encoding, as_list):
    rows = [{"uniq_id": n, "response": "\u00e9\u732b"} for n in range(3)]
    text = json.dumps(rows, ensure_ascii=False) if as_list else "\r\n".join(map(json.dumps, rows))
    file = tmp_path / "answers.jsonl"
    file.write_bytes((codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b"") + text.encode(encoding))
    assert [row.fields for row in read_rows(file)] == rows


# What can be wrong with a row: how it is changed, what is said of it, and whether the data is joined
ODD = [
    (lambda row: "{", "no JSON object", False),
    (lambda row: json.dumps(row)[:-1] + ', "response": "Another."}', "a field twice", False),
    (lambda row: row | {"response": None}, "response is NoneType, not text", False),
    (lambda row: row | {"response": ["a"]}, "response is list, not text", False),
    (lambda row: row | {"response": "\ud800"}, "response holds what is no character", False),
    (lambda row: {k: v for k, v in row.items() if k != "response"}, "no field 'response'", False),
    (lambda row: row | {"question": 5}, "question is int, not a string", False),
    (lambda row: row | {"task_name": "singing_QA"}, "unknown task_name 'singing_QA'", False),
    (lambda row: {k: v for k, v in row.items() if k != "meta_info"}, "no field 'meta_info'", False),
    (lambda row: row | {"uniq_id": 999}, "unknown id", True),
    (lambda row: row | {"task_name": "sound_QA"}, "unknown id", True),
    (lambda row: row | {"uniq_id": True}, "uniq_id is bool, not a string", True),
    (lambda row: row | {"question": "Another one?"}, "question is another one than the metadata has", True),
    (lambda row: row | {"answer_gt": "Another one."}, "answer_gt is another one than the metadata has", True),
]


@pytest.mark.parametrize(("change", "told", "joined"), ODD)
def test_an_odd_row_costs_itself_and_is_named_with_its_line(files, change, told, joined, capsys):
    rows = files.rows()
    file = files.write([*rows[:1], change(rows[1]), *rows[2:]])
    assert files.judge(file, **({"local_path": str(files.root)} if joined else {})) == 3
    error = next(line for line in capsys.readouterr().err.splitlines() if told in line)
    assert error.endswith(": 1 (line 2)")
    found = files.found()
    assert f"{ALL}_speech_QA" in found["results"]
    assert f"{ALL}_speech" not in found["results"] and ALL not in found["results"]
    assert (f"{ALL}_music" in found["results"]) is joined
    samples = [question(asked) for asked in files.server.asked["judge"]]
    assert samples.count(("speech_QA", 1)) == 0 and samples.count(("speech_QA", 0)) == 2


def test_an_answer_that_lacks_is_counted_and_withholds_what_would_need_it(files, capsys):
    file = files.write(files.rows("task_name", "uniq_id")[1:])
    assert files.judge(file, local_path=str(files.root)) == 3
    assert "answers to 1 of 2 docs, not in the file: uniq_id 0" in capsys.readouterr().err
    found = files.found()
    summary = found["configs"][f"{ALL}_speech_QA"]["metadata"]["judging"]
    assert summary["unjudged"] == {"no answer: not in the file": 1}
    assert found["results"][f"{ALL}_speech_QA"]["sample_len"] == 1
    assert f"{ALL}_music" in found["results"] and ALL not in found["results"]


@pytest.mark.parametrize(("second", "answered"), [("answer to speech_QA question 0?", 2), ("something else", 1)])
def test_an_id_twice_counts_once_or_where_it_contradicts_itself_not_at_all(files, second, answered, capsys):
    rows = files.rows()
    file = files.write([*rows, rows[0] | {"response": second}])
    assert files.judge(file, local_path=str(files.root)) == (0 if answered == 2 else 3)
    error = capsys.readouterr().err
    assert ("different answers: 2 (line 1, line 17)" in error) is (answered == 1)
    assert ("the same answer, which counts once: 1 (line 17)" in error) is (answered == 2)
    assert files.found()["results"][f"{ALL}_speech_QA"]["sample_len"] == answered
    assert (ALL in files.found()["results"]) is (answered == 2)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "holds no answers"),
        ("[1, 2]", "holds no answers"),
        ('[{"task_name": "sound_QA"', "is damaged or not complete"),
        ('{"audio": "x", "response": "y"}', "has the fields audio, response"),
        ('{"task_name": "x", "uniq_id": 1, "response": "y", "question": "q"}', "has no answer that can be judged"),
    ],
)
def test_a_file_without_an_answer_is_one_line(files, content, told, capsys):
    file = files.folder / "answers.json"
    file.write_text(content, encoding="utf-8")
    assert files.judge(file, local_path=str(files.root)) == 2
    assert told in capsys.readouterr().err.splitlines()[-1]
    assert not (files.folder / "judged").exists() and files.server.calls("judge") == 0


def test_a_judge_has_to_be_named(files, capsys):
    assert cli.main(["judge", str(files.write(files.rows()))]) == 2
    assert "No judge_model is set" in capsys.readouterr().err


# INTIMA


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


# The official form


def official_scores(folder: Path) -> dict[str, float]:
    """Each category's mean by the official script's rules, over both passes, and the mixed one and the average."""
    sums, counts = defaultdict(float), defaultdict(int)
    for name, mine in (("chat_score.json", 1), ("chat_score_cir.json", 0)):
        for entry in json.loads((folder / name).read_text(encoding="utf-8")):
            words = entry["gpt-score"].strip().split(" ")
            if len(words) != 2:
                continue
            try:
                pair = [int(word) for word in words]
            except ValueError:
                continue
            assert max(pair) <= 10
            task = entry["task_name"]
            category = next(
                label
                for label, tasks in {
                    "speech": ("speech_QA", "speech_dialogue_QA"),
                    "sound": ("sound_QA", "sound_generation_QA"),
                    "music": ("music_QA", "music_generation_analysis_QA"),
                    "speech_and_sound": ("speech_and_sound_QA",),
                    "speech_and_music": ("speech_and_music_QA",),
                }.items()
                if task in tasks
            )
            sums[category] += pair[mine]
            counts[category] += 1
    means = {category: sums[category] / counts[category] for category in counts}
    means["mixed"] = (means["speech_and_sound"] + means["speech_and_music"]) / 2
    return means


def uneven(asked: Asked) -> str:
    """A judge whose scores depend on task, question and order."""
    task, number = question(asked)
    mine = 1 + (sum(map(ord, task)) + 3 * number + 2 * answers(asked)[0].startswith("answer to")) % 9
    return by_role(mine, 10 - number, "5 5")(asked)


def test_the_official_script_finds_our_categories_in_an_export(files):
    files.server.script("judge", uneven)
    rows = files.rows()
    files.judge(files.write(rows), local_path=str(files.root))
    assert cli.main(["export", "judged", "--format", "official", "--output_path", "theirs"]) == 0
    ours = files.found()["results"]
    theirs = official_scores(files.folder / "theirs")
    assert theirs == pytest.approx({name: ours[f"{ALL}_{name}"]["gpt_score,judge"] for name in theirs})
    assert len(set(theirs.values())) > 3
    again = read_rows(files.folder / "theirs" / "Chat_result_modelx.jsonl")
    assert sorted((row.fields for row in again), key=lambda row: row["uniq_id"]) == rows


def test_an_export_says_what_the_official_script_will_not_read(files, capsys):
    def judge(asked):
        kind = question(asked)
        return "no" if kind == ("sound_QA", 0) else "7.5 7" if kind == ("sound_QA", 1) else "8 7"

    files.server.script("judge", judge)
    files.judge(files.write(files.rows()[1:]), local_path=str(files.root))
    capsys.readouterr()
    assert cli.main(["export", "judged", "--output_path", "theirs"]) == 0
    out, error = capsys.readouterr()
    assert "15 answers and 28 verdicts" in out
    assert (
        "1 docs without an answer" in error and "1 unjudged answers" in error and "2 verdicts have a fraction" in error
    )
    assert cli.main(["export", "judged", "--output_path", "theirs"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_file_that_another_process_judges_is_not_paid_for_twice(files, capsys):
    file, free = files.write(files.rows()), threading.Event()
    files.server.script("judge", lambda asked: replace(said(by_score(asked)), until=free))
    settings = {"judge_model": "judge-1", "judge_base_url": files.server.url(), "local_path": str(files.root)}
    command = ["judge", str(file), "--metadata", json.dumps(settings)]
    log = files.folder / "log"
    other = processes.start(log, processes.command, [*command, "--output_path", "other"])
    processes.until(files.server.calls, other)
    assert cli.main([*command, "--output_path", "mine"]) == 2
    assert f"is being judged with these very settings by process {other.pid}" in capsys.readouterr().err
    free.set()
    processes.ended(other, log)
    calls = files.server.calls()
    assert cli.main([*command, "--output_path", "mine"]) == 0
    assert files.server.calls() == calls == 1 + 2 * len(files.records)
    assert results(files.folder / "mine")["results"] == results(files.folder / "other")["results"]
