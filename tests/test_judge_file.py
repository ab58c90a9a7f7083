"""Answers of any program to AIR-Bench-Chat, judged from a file."""

from __future__ import annotations

import codecs
import json
import threading
from dataclasses import replace

import processes
import pytest
from airbench_runs import ALL, question
from answer_files import NAMES, by_score, files  # noqa: F401
from servers import said
from stored_runs import results

from lm_eval_tasks import cli
from lm_eval_tasks.airbench_chat import answers as airbench
from lm_eval_tasks.airbench_chat.scoring import CATEGORY
from lm_eval_tasks.runs.files import read_rows


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
