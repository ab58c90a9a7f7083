"""How far judges agree: the numbers against worked examples, and the section of the report."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from report_runs import change_samples, write_run
from test_report_page import make

from lm_eval_tasks.report import agreement
from lm_eval_tasks.report.load import load_runs


def scores(*values: float | None) -> dict[tuple[str, str], float]:
    return {(str(number), "answer"): value for number, value in enumerate(values) if value is not None}


def test_kappa_of_a_worked_example():
    """By hand: observed weighted disagreement over that of chance, with the squared distance of the half points."""
    first, second = [8, 6, 4, 7], [7, 6, 5, 9]
    observed = sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) / 4
    chance = sum((a - b) ** 2 for a in first for b in second) / 16
    assert agreement.agreement("Kappa", scores(*first), scores(*second)).value == pytest.approx(1 - observed / chance)


def test_the_distance_of_scores_counts_and_not_which_of_them_occur():
    near = agreement.agreement("Kappa", scores(2, 9, 2, 9), scores(3, 9, 2, 9)).value
    far = agreement.agreement("Kappa", scores(2, 9, 2, 9), scores(8, 9, 2, 9)).value
    assert near > 0.95 and far < 0.7


def test_spearman_of_a_worked_example():
    ranks = 1 - 6 * sum(d * d for d in (0, 1, -1, 0)) / (4 * 15)
    assert agreement.agreement("Spearman", scores(1, 3, 5, 9), scores(2, 6, 4, 10)).value == pytest.approx(ranks)


def test_alpha_takes_any_number_of_judges_and_missing_verdicts():
    equal = [scores(1, 5, 9, None), scores(1, 5, None, 3), scores(1, 5, 9, 3)]
    assert agreement.agreement("Alpha", *equal).value == pytest.approx(1)
    assert agreement.agreement("Alpha", *equal, scores(9, 5, 1, 3)).value < 0.5
    # Krippendorff's own example with four observers, whose ordinal alpha he gives as 0.815
    observers = [
        (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
        (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
        (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
        (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
    ]
    assert agreement.agreement("Alpha", *(scores(*row) for row in observers)).value == pytest.approx(0.815, abs=5e-4)


@pytest.mark.parametrize("measure", agreement.MEASURES)
@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (scores(5), scores(5), agreement.FEW),
        (scores(5, 6), {("0", "another answer"): 5.0, ("1", "another answer"): 6.0}, agreement.FEW),
        (scores(5, 5, 5), scores(5, 5, 5), agreement.SAME),
    ],
)
def test_what_has_no_value_says_why(measure, first, second, reason):
    found = agreement.agreement(measure, first, second)
    assert (found.value, found.reason) == (None, reason)


def judged_by(folder: Path, judge: str, shift: float, model: str = "listener-a", seed: int = 1) -> Path:
    """A run of the same answers whose judge scores so much higher."""
    place = write_run(folder, model, air=44, seed=seed, judge=judge)

    def edit(_: int, sample: dict, record: dict) -> None:
        if record["judged"]:
            record["prediction_score"] = min(10, record["prediction_score"] + shift)
        sample |= {"resps": [[f"{model} on {sample['doc']['uniq_id']}"]], "filtered_resps": [json.dumps(record)]}

    return change_samples(place, edit)


def test_runs_of_the_same_answers_by_two_judges_have_a_section(tmp_path):
    places = [judged_by(tmp_path / name, name, shift) for name, shift in (("kind", 1), ("stern", 0))]
    pairs, judges = agreement.tables(load_runs(places))
    (row,) = pairs.rows
    assert row.cells[0].value > 40 and row.cells[2].value > 0.98
    assert -1 <= row.cells[4].value < -0.8
    assert [r.cells[0].text for r in judges.rows] == ["kind", "stern"]
    assert not math.isnan(judges.rows[0].cells[3].value)
    assert make(*places, "-o", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="agreement"' in page and "Agreement of the judges" in page


def test_runs_of_one_judge_or_of_different_answers_have_none(tmp_path):
    same = [judged_by(tmp_path / name, "kind", 0) for name in "ab"]
    assert agreement.tables(load_runs(same)) == []
    other = [judged_by(tmp_path / name, name, 0, model=name) for name in ("kind", "stern")]
    assert agreement.tables(load_runs(other)) == []


@pytest.mark.parametrize(("shift", "told"), [(0.0, "in the same order"), (5.0, "in different orders")])
def test_judges_of_several_models_are_told_to_rank_them_alike_or_not(tmp_path, shift, told):
    places = [judged_by(tmp_path / "1", "kind", 0, "a", 1), judged_by(tmp_path / "2", "kind", -2, "b", 1)]
    places += [judged_by(tmp_path / "3", "stern", 0, "a", 1), judged_by(tmp_path / "4", "stern", -2 + shift, "b", 1)]
    ranks = agreement.tables(load_runs(places))[-1]
    assert ranks.key == "agreement_ranks" and told in ranks.notes[0]
    assert [row.name for row in ranks.rows] == ["a", "b"]
    assert ranks.rows[0].cells[0].text.startswith("1 (")
