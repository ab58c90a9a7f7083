"""The report's own statistics against examples worked by hand."""

from __future__ import annotations

import math

import pytest

from lm_eval_tasks.report import stats
from lm_eval_tasks.report.records import Estimate


def test_paired_difference_worked_by_hand():
    # Common docs b, c, d: differences 1, 2, 3; mean 2, s = 1, error 1 / sqrt(3). Doc a and doc e are in one run only.
    first = {"a": 9.0, "b": 1.0, "c": 2.0, "d": 3.0}
    second = {"b": 2.0, "c": 4.0, "d": 6.0, "e": 1.0}
    estimate = stats.paired_difference(first, second)
    assert estimate.n == 3
    assert estimate.value == pytest.approx(2.0)
    assert estimate.stderr == pytest.approx(1 / math.sqrt(3))


def test_paired_difference_of_one_or_no_doc_says_why_something_is_missing():
    assert stats.paired_difference({"a": 1.0}, {"b": 1.0}) == Estimate(None, None, "no doc was judged in both runs", 0)
    one = stats.paired_difference({"a": 1.0}, {"a": 3.0})
    assert (one.value, one.stderr, one.n) == (2.0, None, 1)


def test_unweighted_mean_adds_errors_in_squares():
    mean = stats.unweighted_mean([Estimate(1.0, 0.3, n=2), Estimate(3.0, 0.4, n=5)])
    assert mean.value == pytest.approx(2.0)
    assert mean.stderr == pytest.approx(0.25)
    assert mean.n == 7
    assert stats.unweighted_mean([Estimate(1.0, 0.3), Estimate(None, None, "gone")]).reason == "gone"
    assert stats.unweighted_mean([Estimate(1.0, 0.3), Estimate(3.0)]).stderr is None


def test_bootstrap_is_repeatable_and_near_the_normal_interval():
    rows = [[float(index < 120), 1.0] for index in range(400)]
    first = stats.bootstrap_intervals(rows, [""] * 400)
    assert first == stats.bootstrap_intervals(rows, [""] * 400)
    half = 1.96 * math.sqrt(0.3 * 0.7 / 400)
    assert first[0][0] == pytest.approx(0.3 - half, abs=0.01)
    assert first[0][1] == pytest.approx(0.3 + half, abs=0.01)
    assert first[1] == (1.0, 1.0)
    assert stats.bootstrap_intervals([], []) == []


def test_histogram_counts_by_the_nearest_half_point():
    counts = stats.histogram([1.0, 1.2, 1.25, 5.5, 10.0])
    assert len(counts) == 19
    assert counts[0] == 2
    assert counts[1] == 1
    assert counts[9] == 1
    assert counts[18] == 1
    assert sum(counts) == 5


def test_bootstrap_within_categories_agrees_with_the_pooled_error():
    # 200 prompts at a rate of 0.1 and 200 at 0.9: over all prompts the values vary as 0.5 * 0.5 does, within their
    # categories only as 0.1 * 0.9.
    rows = [[float(index < 20)] for index in range(200)] + [[float(index < 180)] for index in range(200)]
    categories = ["a"] * 200 + ["b"] * 200
    for strata, spread in ((categories, 0.1 * 0.9), ([""] * 400, 0.5 * 0.5)):
        low, high = stats.bootstrap_intervals(rows, strata)[0]
        half = 1.96 * math.sqrt(spread / 400)
        assert (low, high) == pytest.approx((0.5 - half, 0.5 + half), abs=0.006)
    # a category whose prompts all agree adds nothing
    assert stats.bootstrap_intervals([[1.0], [1.0], [0.0]], ["a", "a", "b"]) == [(pytest.approx(2 / 3),) * 2]
