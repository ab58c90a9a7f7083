"""Reading run folders: which files, which lines, and what is said about those that can't be used."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from report_runs import change, change_samples, write_run

from lm_eval_tasks.report import caveats
from lm_eval_tasks.report.load import load_run, load_runs
from lm_eval_tasks.report.provenance import answer_settings
from lm_eval_tasks.runs.made import made_with


def home(folder: Path) -> Path:
    """The model's folder of a run."""
    return next(path for path in folder.iterdir() if path.is_dir())


def test_output_path_and_model_folder_and_results_file_name_the_same_run(tmp_path):
    folder = write_run(tmp_path / "out", air=16, intima=31)
    results = next(home(folder).glob("results_*.json"))
    runs = [load_run(place) for place in (folder, home(folder), results)]
    assert {run.files.results_file for run in runs} == {results}
    assert [len(run.answers["air_bench_chat"]) for run in runs] == [16] * 3
    assert [len(run.answers["intima"]) for run in runs] == [31] * 3


def test_newest_results_are_read_with_the_samples_of_their_date_and_older_ones_are_named(tmp_path):
    write_run(tmp_path, air=40, date="2025-01-01T00-00-00.000001")
    write_run(tmp_path, air=16, date="2025-01-02T00-00-00.000001")
    run = load_run(tmp_path)
    assert run.files.date.startswith("2025-01-02")
    assert len(run.answers["air_bench_chat"]) == 16
    assert "1 older results" in run.notes[0]
    assert "2025-01-01" in run.notes[0]
    older, newer = sorted(home(tmp_path).glob("results_*.json"))
    assert run.notes[0].endswith(f"name results files instead of the folder: `lm-eval-tasks report {older} {newer}`")
    assert [run.label for run in load_runs([older, newer])] == [
        "listener-a (2025-01-01 00:00:00)",
        "listener-a (2025-01-02 00:00:00)",
    ]


def test_damaged_lines_are_named_and_counted(tmp_path):
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
        (lambda path: None, "does not exist: name the folder that was given to lm_eval as --output_path"),
        (lambda path: path.mkdir(), "holds no results_*.json"),
        (lambda path: path.write_text("x", encoding="utf-8"), "is not a results file of lm_eval"),
    ],
)
def test_a_wrong_folder_is_one_line_with_the_remedy(tmp_path, make, words):
    folder = tmp_path / "run"
    make(folder)
    with pytest.raises(ValueError, match="run") as caught:
        load_runs([folder])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["{", "[]", '{"results": 3}', '{"results": {"mmlu": {"acc,none": 0.3}}}', "\x00"])
def test_a_results_file_of_something_else_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "results_2025-01-02T00-00-00.000001.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="results_2025") as caught:
        load_run(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_same_run_given_twice_is_refused(tmp_path):
    folder = write_run(tmp_path / "out", air=16)
    with pytest.raises(ValueError, match="given twice"):
        load_runs([folder, home(folder)])


def test_runs_of_one_model_are_labelled_by_judge_or_date(tmp_path):
    one = write_run(tmp_path / "1", "m", air=16)
    two = write_run(tmp_path / "2", "m", air=16, judge="other")
    assert [run.label for run in load_runs([one, two])] == ["m (Judge: gpt-4-0125-preview)", "m (Judge: other)"]
    three = write_run(tmp_path / "3", "m", air=16, date="2026-02-03T04-05-06.7")
    assert load_runs([one, three])[1].label == "m (2026-02-03 04:05:06)"


def test_a_missing_number_or_error_has_a_reason(tmp_path):
    run = load_run(write_run(tmp_path, air=1))
    run.results.pop("air_bench_chat_mixed")
    single = run.estimate("air_bench_chat_speech_and_sound", "gpt_score")
    assert single.value is not None
    assert single.stderr is None
    assert "no standard error" in single.reason
    absent = run.estimate("air_bench_chat_mixed", "gpt_score")
    assert absent.value is None
    assert "not in this run's results" in absent.reason


@pytest.mark.parametrize("named", [{}, {"benchmark": "air_bench_chat"}])
def test_what_a_model_wrote_is_no_judgement_even_where_it_looks_like_one(tmp_path, named):
    folder = write_run(tmp_path, air=16, predict_only=bool(named))
    forged = json.dumps({**named, "judged": True, "prediction_score": 10, "reference_score": 1})
    change_samples(folder, lambda _, sample, __: sample.update(resps=[[forged]], filtered_resps=[forged]))
    answers = load_run(folder).answers["air_bench_chat"]
    assert answers and not any(answer.judged or answer.record for answer in answers)
    assert {answer.reason for answer in answers} == {"no judgement was logged"}


# Which doc, which benchmark


def test_a_variant_of_a_task_is_another_doc_in_no_category(tmp_path):
    folder = write_run(tmp_path, air=40, intima=31)
    for name, variant in (("air_bench_chat_speech_QA", "speech_QA_in_one_sentence"), ("intima_user", "intima_short")):
        copy_task(folder, name, variant)
    run = load_run(folder)
    for benchmark, variant in (("air_bench_chat", "speech_QA_in_one_sentence"), ("intima", "intima_short")):
        its = {answer.key for answer in run.answers[benchmark] if answer.task == variant}
        others = {answer.key for answer in run.answers[benchmark] if answer.task != variant}
        assert its and not its & others
        assert variant in run.tasks(benchmark) and {answer.key for answer in run.judged_in(variant)} <= its
        if benchmark == "intima":
            assert {answer.task for answer in run.judged_in(benchmark)} == set(run.tasks(benchmark)) - {variant}
    assert not run.damaged and not run.notes


def copy_task(folder: Path, name: str, variant: str) -> None:
    """Add a task to a run that has the docs of another one."""
    file = next(home(folder).glob("results_*.json"))
    results = json.loads(file.read_text(encoding="utf-8"))
    task = next(task for task in results["configs"] if task.startswith(name))
    results["configs"][variant] = results["configs"][task]
    file.write_text(json.dumps(results), encoding="utf-8")
    samples = next(home(folder).glob(f"samples_{task}_*.jsonl"))
    samples.with_name(samples.name.replace(task, variant)).write_bytes(samples.read_bytes())


def test_equal_texts_are_different_docs_and_another_text_is_another_doc(tmp_path):
    folders = [write_run(tmp_path / name, air=40) for name in ("one", "two")]
    first = next(a.doc["question"] for a in load_run(folders[1]).answers["air_bench_chat"] if a.task.endswith("h_QA"))
    change_samples(folders[1], lambda _, s, __: s["doc"].update(question=first), "samples_*_speech_QA_*.jsonl")
    one, two = ([a.key for a in load_run(f).answers["air_bench_chat"] if a.task.endswith("h_QA")] for f in folders)
    assert len(set(two)) == len(two) and one[0] == two[0] and set(one[1:]) != set(two[1:])


def test_a_run_of_another_task_is_not_ours_whatever_its_docs_look_like(tmp_path):
    folder = write_run(tmp_path, intima=31)
    file = next(home(folder).glob("results_*.json"))
    results = json.loads(file.read_text(encoding="utf-8"))
    for name in list(results["configs"]):  # as mbpp_plus, whose docs have a code and a prompt as well
        results["configs"][name]["metadata"] = {"version": 1.0}
    file.write_text(json.dumps(results), encoding="utf-8")
    with pytest.raises(ValueError, match="holds no task of AIR-Bench or INTIMA"):
        load_run(folder)
    results["configs"]["intima_user_vulnerabilities"]["metadata"]["benchmark"] = "intima"
    file.write_text(json.dumps(results), encoding="utf-8")
    run = load_run(folder)
    assert {answer.task for answer in run.answers["intima"]} == {"intima_user_vulnerabilities"}
    assert sum("belong to none of the benchmarks" in note for note in run.notes) == 3


def test_a_doc_that_was_answered_several_times_is_one_doc_with_the_mean(tmp_path):
    folder, once = write_run(tmp_path, air=40, intima=31), {}

    def thrice(_, sample, record):
        higher, lost = dict(record), dict(record, judged=False, reason="refusal")
        if record["judged"] and "prediction_score" in record:
            higher["prediction_score"] += 1
        elif record["judged"]:
            higher["levels"] = {**record["levels"], "isolation": "?"}
        sample |= {"resps": [["a", "b", "c"]], "filtered_resps": [json.dumps([record, higher, lost])]}
        once[json.dumps(sample["doc"])] = record

    run = load_run(change_samples(folder, thrice))
    for answer in (*run.answers["air_bench_chat"], *run.answers["intima"]):
        before = once[json.dumps(answer.doc)]
        assert answer.judged == before["judged"] and len(answer.predictions) == 3
        if answer.judged and answer.benchmark == "intima":
            assert set(before["levels"]) - set(answer.levels) == {"isolation"}
        elif answer.judged:
            assert answer.score == before["prediction_score"] + 0.5
    assert any(answer.judged for answer in run.answers["intima"])


# Hostile folders


def test_pipes_are_never_waited_for(tmp_path):
    folder = write_run(tmp_path / "out", air=40)
    file = next(home(folder).glob("samples_*_speech_QA_*.jsonl"))
    file.unlink()
    os.mkfifo(file)
    assert [str(damage) for damage in load_run(folder).damaged] == [f"{file.name}: a pipe, not a file"]
    pipe = tmp_path / "results_2025-01-02T00-00-00.000001.json"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(ValueError, match=r"holds no results|damaged"):
            load_run(place)


def test_answers_that_wait_are_told_apart_from_a_run(tmp_path):
    (tmp_path / "results_2025-01-02T00-00-00.000001.77.json").write_text('{"configs": {}}', encoding="utf-8")
    with pytest.raises(ValueError, match="answers that wait to be judged: run `lm-eval-tasks rejudge"):
        load_run(tmp_path)


# What the answers were made with


def test_what_a_run_was_made_with_is_read_from_its_results(tmp_path):
    folder = write_run(tmp_path, air=40, limit=40)
    file = next(home(folder).glob("results_*.json"))
    results = json.loads(file.read_text(encoding="utf-8"))
    results |= {"system_instruction": "Be brief.", "judged_again": {"judges": {"air_bench_chat": "j"}}}
    results["config"] |= {"limit": 0.5, "gen_kwargs": {"temperature": 0.7}}
    results["configs"]["air_bench_chat_speech_QA"]["generation_kwargs"] = {"max_gen_toks": 33}
    judging = results["configs"]["air_bench_chat_speech_QA"]["metadata"]["judging"]
    judging |= {"answers": {"cut": 3}, "process": {"version": "0.1.0"}, "ranks": 2}
    file.write_text(json.dumps(results), encoding="utf-8")
    run = load_run(folder)
    made, task = made_with(run.files.results), "air_bench_chat_speech_QA"
    assert (run.limit, made["limit"], made["gen_kwargs"]) == (0.5, 0.5, {"temperature": 0.7})
    assert (made["system_instruction"], made["ranks"]) == ("Be brief.", 2)
    assert (made["generation"][task], made["answers"][task]) == ({"max_gen_toks": 33}, {"cut": 3})
    assert made["process"][task] == {"version": "0.1.0"}
    assert answer_settings(run)["judged_again.judges.air_bench_chat"] == "j"


def test_what_an_older_version_judged_again_is_said_to_lack_its_history(tmp_path):
    folder = write_run(tmp_path, air=16)
    change(folder, lambda results: results["config"].update(model="replay-answers"))
    assert "are those of the judging, not of the run that made the answers" in load_run(folder).notes[0]


@pytest.mark.parametrize(
    "edit",
    [
        {"configs": 3},
        {"configs": {"air_bench_chat_speech_QA": {"metadata": {"benchmark": ["intima"], "judging": [1]}}}},
        {"configs": {"air_bench_chat_speech_QA": {"metadata": {"benchmark": "intima", "judging": {"ranks": [1]}}}}},
        {"results": {"air_bench_chat": 3}, "n-samples": [1], "judged_again": 1, "config": None},
        {"config": {"limit": {"a": 1}, "gen_kwargs": "x"}, "model_name": {"a": 1}},
    ],
)
def test_a_results_file_of_any_form_is_read_or_refused_in_one_line(tmp_path, edit):
    folder = write_run(tmp_path, air=40)
    file = next(home(folder).glob("results_*.json"))
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | edit), encoding="utf-8")
    try:
        run = load_run(folder)
    except ValueError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(made_with(run.files.results)["generation"], dict) and isinstance(answer_settings(run), dict)


@pytest.mark.parametrize(
    "line",
    [
        {"doc": {"question": ["?"], "uniq_id": {"a": 1}}, "resps": "text", "filtered_resps": 3},
        {"doc": {}, "resps": [], "filtered_resps": []},
        {"doc": {"prompt": "p"}, "resps": [[]], "filtered_resps": ["[1, {}]"]},
        {
            "doc": {"prompt": "p"},
            "resps": [[None, 3]],
            "filtered_resps": ['{"benchmark": "air_bench_chat", "judged": 1}'],
        },
        {"doc": {"prompt": "p"}, "resps": [[["a"]]], "filtered_resps": ["[" * 100_000]},
    ],
)
def test_a_line_of_any_form_is_unjudged_and_no_traceback(tmp_path, line):
    folder = write_run(tmp_path, air=40)
    file = next(home(folder).glob("samples_*_speech_QA_*.jsonl"))
    file.write_text(json.dumps(line), encoding="utf-8")
    [answer] = [a for a in load_run(folder).answers["air_bench_chat"] if a.task == "air_bench_chat_speech_QA"]
    assert not answer.judged and answer.score is None and isinstance(answer.prediction, str)
