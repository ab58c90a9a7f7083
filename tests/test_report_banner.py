"""What the report says before its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_runs import write_run

from lm_eval_tasks.report import banner
from lm_eval_tasks.report.load import load_runs


def said(*folders: Path) -> list[str]:
    """The sentences of the banner over a report of these runs."""
    return [sentence for _, sentence in banner.warnings(load_runs(folders))]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"do_swap": False, "prompt_version": "abc"}, "prompt_version, do_swap"),
        ({"judge_model": "other"}, "judge_model"),
        ({"judge_base_url": "http://127.0.0.1:1/v1", "judge_temperature": 1.0}, "judge_base_url, judge_temperature"),
        ({"audio_part": "file_url", "audio_sample_rate": 16000}, "audio_part, audio_sample_rate"),
        ({"data_revision": "f00"}, "data_revision"),
        ({"dialect": ["no_temperature"]}, "dialect"),
    ],
)
def test_runs_that_differ_in_what_shapes_the_numbers_are_named_first(tmp_path: Path, settings, names: str) -> None:
    one = write_run(tmp_path / "1", "a", air=16)
    two = write_run(tmp_path / "2", "b", air=16, settings=settings)
    assert said(one, two)[0].startswith(
        f"AIR-Bench-Chat: the runs differ in {names}: the difference is not the model's"
    )


def test_runs_made_alike_are_not_said_to_differ(tmp_path: Path) -> None:
    same = {"data_revision": "f00", "level_threshold": "high"}
    one = write_run(tmp_path / "1", "a", air=16, intima=31, settings={**same, "source": "auto"})
    two = write_run(tmp_path / "2", "b", air=16, intima=31, settings={**same, "source": "huggingface"})
    assert not any("differ in" in sentence for sentence in said(one, two))
    high = write_run(tmp_path / "3", "c", intima=31, settings={"level_threshold": "low"}, limit=5)
    assert "INTIMA: the runs differ in level_threshold, " in said(one, high)[0]
    assert "--limit" in said(one, high)[0]
