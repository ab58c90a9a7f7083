"""Pure statistics of the report: paired differences, bootstrap intervals, histograms. No I/O, no text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import sem

from lm_eval_tasks.report.records import Estimate

SEED = 20240217
RESAMPLES = 2000
Z95 = 1.959963984540054


def paired_difference(first: Mapping[str, float], second: Mapping[str, float]) -> Estimate:
    """The mean of second - first over the docs that both have, with the standard error of that mean.

    The error is that of the paired differences, s / sqrt(n) with s their sample standard deviation (n - 1): what
    makes a doc hard for both runs cancels, so it is smaller than the error of two independent means.
    """
    common = [key for key in first if key in second]
    if not common:
        return Estimate(None, None, "no doc was judged in both runs", 0)
    found = mean([second[key] - first[key] for key in common])
    return found if len(common) > 1 else replace(found, reason="one common doc has no standard error")


def mean(values: Sequence[float]) -> Estimate:
    """The mean of independent values with its standard error, s / sqrt(n)."""
    if not values:
        return Estimate(None, None, "none of its docs was judged", 0)
    if len(values) == 1:
        return Estimate(float(values[0]), None, "a single doc has no standard error", 1)
    return Estimate(float(np.mean(values)), float(sem(values)), "", len(values))


def unweighted_mean(parts: Sequence[Estimate]) -> Estimate:
    """The mean of independent estimates, each counted once whatever its size; the error adds in squares."""
    missing = next((part for part in parts if part.value is None), None)
    if missing:
        return Estimate(None, None, missing.reason)
    n = sum(part.n or 0 for part in parts)
    average = sum(part.value or 0 for part in parts) / len(parts)
    if any(part.stderr is None for part in parts):
        return Estimate(average, None, "one of its parts has no standard error", n)
    return Estimate(average, math.hypot(*(part.stderr or 0 for part in parts)) / len(parts), "", n)


def bootstrap_intervals(values: Sequence[Sequence[float]], strata: Sequence[str]) -> list[tuple[float, float]]:
    """The percentile interval of the mean of each column, by drawing rows (prompts) with replacement.

    Args:
        values: one row a prompt, one column a metric. All columns share the draws.
        strata: name of each row's category. As many rows are drawn within a category as it has, so that the interval
            holds no variance between categories, whose sizes the benchmark fixes.
    """
    table = np.asarray(values, dtype=float)
    if table.ndim != 2 or not len(table):
        return []
    names, draw = np.asarray(strata), np.random.default_rng(SEED)
    sums = np.zeros((RESAMPLES, table.shape[1]))
    for name in dict.fromkeys(names.tolist()):
        part = table[names == name]
        # How often each row is drawn is all that the mean needs; it is one multinomial draw.
        sums += draw.multinomial(len(part), np.full(len(part), 1 / len(part)), size=RESAMPLES) @ part
    return list(map(tuple, np.quantile(sums / len(table), [0.025, 0.975], axis=0).T.tolist()))


def histogram(scores: Sequence[float]) -> list[int]:
    """Counts scores by the nearest half point from 1 to 10 (half-way values go up)."""
    return np.histogram(np.clip(scores, 1, 10), bins=np.arange(0.75, 10.5, 0.5))[0].tolist()


def normal_interval(estimate: Estimate, low: float, high: float) -> tuple[float, float] | None:
    """The 95% interval of an estimate under a normal law, cut to its scale; None without a standard error."""
    if estimate.value is None or estimate.stderr is None:
        return None
    return max(estimate.value - Z95 * estimate.stderr, low), min(estimate.value + Z95 * estimate.stderr, high)


def total(counts: Sequence[float | None]) -> float | None:
    """The sum of counts, where there are any and all of them are known."""
    return sum(counts) if counts and None not in counts else None
