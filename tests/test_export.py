"""A run in the official form, counted by the official rules."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from airbench_runs import ALL, answers, by_role, question
from answer_files import files  # noqa: F401
from servers import Asked

from lm_eval_tasks import cli
from lm_eval_tasks.runs.files import read_rows


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
