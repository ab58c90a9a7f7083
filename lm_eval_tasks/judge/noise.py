"""How far a judge disagrees with itself, where each question is put several times (``judge_repeats``). No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

Doc = Mapping[str, Sequence[Sequence[float]]]
"""Metric -> for each question about a doc the values of its usable verdicts. The doc's value is the mean over the
questions of the mean over their verdicts."""


def noise(docs: Iterable[Doc]) -> dict[str, dict[str, float]]:
    """The judge's own spread, and what it adds to the standard error of a mean over docs.

    ``judge_sd`` is the standard deviation of one verdict about the same answer in the same order, pooled over all
    questions: the root of ``SS / sum(r - 1)``, where ``SS`` sums the squared distances of a question's ``r`` verdicts
    from their own mean. A difference between the two orders is position bias, not noise, and is not in it.

    The standard error that lm-eval gives, ``sd of the docs' values / sqrt(n)``, has the judge's noise in it, because
    the docs' values vary with it (law of total variance; E. Miller, "Adding Error Bars to Evals", arXiv 2411.00640).
    The noise alone is ``judge_sd * sqrt(sum over docs of v) / n``, where ``v = sum over its Q questions of
    1 / r, divided by Q squared``. The error without it is the root of the difference of their squares, at least 0.

    Returns:
        ``judge_sd``, ``stderr_with_judge_noise``, ``stderr_without_judge_noise`` and ``stderr_of_judge_noise``, each
        with a value for each metric, in its unit; empty where no question has two verdicts.
    """
    found: dict[str, dict[str, float]] = {}
    docs = [doc for doc in docs if doc]
    for metric in docs[0] if docs else ():
        questions = [values for doc in docs for values in doc[metric]]
        freedom = sum(len(values) - 1 for values in questions)
        if not freedom or len(docs) < 2:
            continue
        squares = math.fsum((value - fmean(values)) ** 2 for values in questions for value in values)
        sd = math.sqrt(squares / freedom)
        share = math.fsum(sum(1 / len(values) for values in doc[metric]) / len(doc[metric]) ** 2 for doc in docs)
        alone = sd * math.sqrt(share) / len(docs)
        error = stdev(fmean(fmean(values) for values in doc[metric]) for doc in docs) / math.sqrt(len(docs))
        told = {
            "judge_sd": sd,
            "stderr_with_judge_noise": error,
            "stderr_without_judge_noise": math.sqrt(max(0.0, error**2 - alone**2)),
            "stderr_of_judge_noise": alone,
        }
        for name, value in told.items():
            found.setdefault(name, {})[metric] = value
    return found
