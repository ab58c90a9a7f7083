"""A run of AIR-Bench Foundation in the report, alone and beside a judged benchmark."""

from __future__ import annotations

import csv
import io

import pytest
from airbench_runs import metadata
from foundation_runs import ALL, command_line, make, record
from servers import said

from lm_eval_tasks import cli
from lm_eval_tasks.report.load import load_run as load
from lm_eval_tasks.runs.stored import load_run

TASKS = ("Speaker_Gender_Recognition", "Sound_AQA")


@pytest.fixture
def finished(server, tmp_path, handlers):
    """A run of two tasks: of each three docs one is right, one has no letter and one was not answered."""
    server.script("model", lambda asked: ("B", "I hear a bell.", "")[int(asked.text.split("question ")[-1][0])])
    odd = record("Sound_AQA", 3, answer_gt="a gong")
    root = make(tmp_path / "data", *(record(task, n) for task in TASKS for n in range(3)), odd)
    return command_line(server, root, tmp_path / "out", *(f"{ALL}_{task}" for task in TASKS), ends=3)


def test_the_table_shows_both_metrics_chance_counts_and_the_published_rows(finished, capsys):
    capsys.readouterr()
    assert cli.main(["report", str(finished), "--table", "foundation", "--format", "csv"]) == 0
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    cells = {(row["row"], row["column"]): row["value"] for row in rows}
    assert {name for name, _ in cells} == set(TASKS)
    for task, chance, published in ((TASKS[0], "50", "82.5"), (TASKS[1], "25", "62.8")):
        values = [cells[task, name] for name in ("acc, %", "official_acc, %", "Scored", "No letter", "Unanswered")]
        assert list(map(float, values)) == [50, 100, 2, 1, 1]
        assert (float(cells[task, "Chance, %"]), cells[task, "Qwen-Audio-Turbo"]) == (float(chance), published)


def test_the_page_says_first_what_is_in_no_number(finished, tmp_path):
    page = tmp_path / "x.html"
    assert cli.main(["report", str(finished), "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    for words in (
        "AIR-Bench Foundation: 2 of 6 docs are unanswered and excluded from every score (2 × empty answer",
        "AIR-Bench Foundation: left out of Sound_AQA before generation: 1 (",
        "AIR-Bench Foundation: 17 of 19 tasks missing: ",
        "AIR-Bench Foundation: 6 of 3\u202f992 records: a trial on part of the data",
    ):
        assert words in text
    assert 'id="foundation"' in text and "缺少 17 个" in text
    assert "official-" in text, "the version of the prompt"


def test_beside_a_judged_benchmark_each_has_its_own_and_only_that_one_can_be_judged_again(
    server, make_data, tmp_path, handlers
):
    server.script("model", said("B", model="m"))
    server.script("judge", "8 6")
    root = make(make_data(speech_QA=2), record("Sound_AQA", 0))
    settings = {key: value for key, value in metadata(server, root).items() if key != "local_path"}
    out = command_line(server, root, tmp_path / "out", "air_bench_chat_speech_QA", f"{ALL}_Sound_AQA", **settings)
    run = load(out)
    assert run.files.benchmarks == {"air_bench_chat_speech_QA": "air_bench_chat", f"{ALL}_Sound_AQA": ALL}
    assert run.estimate(f"{ALL}_Sound_AQA", "acc").value == 1
    assert [answer.task for answer in run.answers["air_bench_chat"]] == ["air_bench_chat_speech_QA"] * 2
    assert list(load_run(out).samples) == ["air_bench_chat_speech_QA"]
    assert cli.main(["report", str(out), "-o", str(tmp_path / "x.html")]) == 0
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert 'id="leaderboard"' in text and 'id="foundation"' in text
