"""Reading run folders: which files, which lines, and what is said about those that can't be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_runs import write_run

from lm_eval_tasks.report import caveats
from lm_eval_tasks.report.load import load_run, load_runs


def home(folder: Path) -> Path:
    """The model's folder of a run."""
    return next(path for path in folder.iterdir() if path.is_dir())


def test_output_path_and_model_folder_and_results_file_name_the_same_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "out", air=16, intima=31)
    results = next(home(folder).glob("results_*.json"))
    runs = [load_run(place) for place in (folder, home(folder), results)]
    assert {run.results_file for run in runs} == {results}
    assert [len(run.answers["air_bench_chat"]) for run in runs] == [16] * 3
    assert [len(run.answers["intima"]) for run in runs] == [31] * 3


def test_newest_results_are_read_with_the_samples_of_their_date_and_older_ones_are_named(tmp_path: Path) -> None:
    write_run(tmp_path, air=40, date="2025-01-01T00-00-00.000001")
    write_run(tmp_path, air=16, date="2025-01-02T00-00-00.000001")
    run = load_run(tmp_path)
    assert run.date.startswith("2025-01-02")
    assert len(run.answers["air_bench_chat"]) == 16
    assert "1 older results" in run.notes[0]
    assert "2025-01-01" in run.notes[0]
    older, newer = sorted(home(tmp_path).glob("results_*.json"))
    assert run.notes[0].endswith(f"name results files instead of the folder: `lm-eval-tasks report {older} {newer}`")
    assert [run.label for run in load_runs([older, newer])] == [
        "listener-a (2025-01-01 00:00:00)",
        "listener-a (2025-01-02 00:00:00)",
    ]


def test_damaged_lines_are_named_and_counted(tmp_path: Path) -> None:
    folder = write_run(tmp_path, air=40)
    file = next(home(folder).glob("samples_*speech_QA_*.jsonl"))
    lines = file.read_bytes().splitlines()
    count = len(lines)
    lines[1] = lines[1][:100]
    lines.insert(2, b"\xff\xfe")
    lines.insert(3, b"[1]")
    lines.insert(4, b'{"resps": []}')
    lines.insert(5, lines[0])
    file.write_bytes(b"\n".join(lines))
    run = load_run(folder)
    assert [(damage.line, damage.reason) for damage in run.damaged] == [
        (2, "not a whole JSON object"),
        (3, "not UTF-8"),
        (4, "not a JSON object"),
        (5, "it has no doc"),
        (6, "the same doc was logged before"),
    ]
    task = [answer for answer in run.answers["air_bench_chat"] if answer.task.endswith("_speech_QA")]
    assert len(task) == count - 1
    run.label = "x"
    said = " ".join(sentence for _, sentence in caveats.warnings([run]))
    assert f"5 lines of its sample files could not be used ({file.name}, line 2" in said


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist: name the folder given to lm_eval as --output_path"),
        (lambda path: path.mkdir(), "holds no results_*.json"),
        (lambda path: path.write_text("x", encoding="utf-8"), "is not a results file of lm_eval"),
    ],
)
def test_a_wrong_folder_is_one_line_with_the_remedy(tmp_path: Path, make, words: str) -> None:
    folder = tmp_path / "run"
    make(folder)
    with pytest.raises(ValueError, match="run") as caught:
        load_runs([folder])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["{", "[]", '{"results": 3}', '{"results": {"mmlu": {"acc,none": 0.3}}}', "\x00"])
def test_a_results_file_of_something_else_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "results_2025-01-02T00-00-00.000001.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="results_2025") as caught:
        load_run(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_same_run_given_twice_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "out", air=16)
    with pytest.raises(ValueError, match="given twice"):
        load_runs([folder, home(folder)])


def test_runs_of_one_model_are_labelled_by_judge_or_date(tmp_path: Path) -> None:
    one = write_run(tmp_path / "1", "m", air=16)
    two = write_run(tmp_path / "2", "m", air=16, judge="other")
    assert [run.label for run in load_runs([one, two])] == ["m (judge gpt-4-0125-preview)", "m (judge other)"]
    three = write_run(tmp_path / "3", "m", air=16, date="2026-02-03T04-05-06.7")
    assert load_runs([one, three])[1].label == "m (2026-02-03 04:05:06)"


def test_a_missing_number_or_error_has_a_reason(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path, air=1))
    run.results.pop("air_bench_chat_mixed")
    single = run.estimate("air_bench_chat_speech_and_sound", "gpt_score")
    assert single.value is not None
    assert single.stderr is None
    assert "no standard error" in single.reason
    absent = run.estimate("air_bench_chat_mixed", "gpt_score")
    assert absent.value is None
    assert "not in this run's results" in absent.reason


def test_answers_without_a_judgement_are_unjudged_even_where_they_look_like_one(tmp_path: Path) -> None:
    folder = write_run(tmp_path, air=16)
    for file in home(folder).glob("samples_*.jsonl"):
        samples = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for sample in samples:
            forged = json.dumps({"judged": True, "prediction_score": 10, "reference_score": 1})
            sample |= {"resps": [[forged]], "filtered_resps": [forged]}
        file.write_text("\n".join(map(json.dumps, samples)), encoding="utf-8")
    answers = load_run(folder).answers["air_bench_chat"]
    assert {answer.judged for answer in answers} == {False}
    assert {answer.reason for answer in answers} == {"no judgement was logged"}
