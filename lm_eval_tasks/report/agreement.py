"""How far judges agree on the same answers: runs of AIR-Bench-Chat whose answers are equal and whose judges differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import combinations

import krippendorff
import numpy as np
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import cohen_kappa_score

from lm_eval_tasks.report import facts, stats
from lm_eval_tasks.report.records import Estimate, Run
from lm_eval_tasks.report.table import Row, Table, count_cell, score_cell, text_cell
from lm_eval_tasks.report.texts import notes, t

SAME = "one judge gave all of these the same score"
FEW = "fewer than two answers that both judged"
_STEPS = range(21)
"""Half points from 0 to 10, the classes of kappa: a sample's score is the mean of two whole numbers."""

Scores = Mapping[tuple[str, str], float]
"""(doc, answer) -> the score that a judge gave; the answer's own words, so that only equal answers are compared."""


MEASURES: dict[str, Callable[[np.ndarray], float]] = {
    "Kappa": lambda table: cohen_kappa_score(*np.rint(2 * table).astype(int), weights="quadratic", labels=_STEPS),
    "Spearman": lambda table: spearmanr(*table).statistic,
    "Alpha": lambda table: krippendorff.alpha(table, level_of_measurement="ordinal"),
}
"""Cohen's kappa with quadratic weights over half points and Spearman's rank correlation, both of two judges, and
Krippendorff's alpha with the ordinal distance, of any number. Each takes scores, a row a judge, NaN where it gave none.
"""


def agreement(measure: str, *judges: Scores) -> Estimate:
    """One of MEASURES on the answers that two or more judged, unless they are too few or their scores do not vary."""
    keys = sorted({key for scores in judges for key in scores if sum(key in other for other in judges) > 1})
    table = np.array([[scores.get(key, np.nan) for key in keys] for scores in judges])
    varying = table if measure == "Spearman" else [table[~np.isnan(table)]]
    fault = FEW if len(keys) < 2 else SAME if any(len(np.unique(scores)) == 1 for scores in varying) else ""
    return Estimate(None if fault else float(MEASURES[measure](table)), reason=fault, n=len(keys))


def tables(runs: list[Run]) -> list[Table]:
    """The tables of the section; none where no two runs have equal answers and different judges."""
    named = [(run, "+".join(run.judges(facts.AIR)[0]), _scores_of(run)) for run in runs]
    pairs = [
        (one, other)
        for one, other in combinations(named, 2)
        if one[1] != other[1] and len(one[2].keys() & other[2].keys()) > 1
    ]
    if not pairs:
        return []
    found = [_pairs(pairs), _judges([one for one in named if any(one in pair for pair in pairs)]), _ranks(named)]
    return list(filter(None, found))


def _scores_of(run: Run) -> dict[tuple[str, str], float]:
    """The scores of a run's judged answers; docs that were answered several times are left out."""
    answers = [answer for answer in run.judged_in(facts.AIR) if len(answer.predictions) < 2]
    return {(answer.key, answer.prediction): answer.score for answer in answers if answer.score is not None}


def _pairs(pairs: list[tuple[tuple[Run, str, Scores], tuple[Run, str, Scores]]]) -> Table:
    rows = []
    for (first, _, before), (second, _, after) in pairs:
        shift = stats.paired_difference(before, after)
        measured = [agreement(measure, before, after) for measure in MEASURES]
        cells = (count_cell(shift.n), *map(score_cell, measured), score_cell(shift, signed=True))
        rows.append(Row(f"{second.label} · {first.label}", cells))
    head = (t("Judges"), t("Samples"), *map(t, MEASURES), t("Shift"))
    return Table("agreement", t("Agreement of the judges"), head, rows, notes("agreement"))


def _judges(named: list[tuple[Run, str, Scores]]) -> Table:
    """Each judge on its own, and alpha over all judges of the same answers."""
    rows = []
    for run, judge, scores in named:
        gap = run.estimate(facts.AIR, "position_gap")
        same = [other for _, _, other in named if other.keys() & scores.keys()]
        cells = (text_cell(judge), score_cell(stats.mean(list(scores.values()))), score_cell(gap, signed=True))
        rows.append(Row(run.label, (*cells, score_cell(agreement("Alpha", *same)), count_cell(len(same)))))
    head = (t("Run"), t("Judge"), t("Mean"), t("Position gap"), t("Alpha of all"), t("Judges"))
    return Table("agreement_judges", t("Each judge"), head, rows, notes("agreement_judges"))


def _ranks(named: list[tuple[Run, str, Scores]]) -> Table | None:
    """Places of the models by each judge; None unless two judges judged the same two models."""
    by_judge: dict[str, dict[str, Scores]] = defaultdict(dict)
    for run, judge, scores in named:
        if scores:
            by_judge[judge].setdefault(run.model, scores)
    judges = [judge for judge, models in by_judge.items() if len(models) > 1]
    models = [m for m in by_judge[judges[0]] if all(m in by_judge[judge] for judge in judges)] if judges else []
    common = {model: set.intersection(*(set(by_judge[judge][model]) for judge in judges)) for model in models}
    if len(judges) < 2 or len(models) < 2 or not all(common.values()):
        return None
    means = np.array([[np.mean([by_judge[j][m][key] for key in common[m]]) for m in models] for j in judges])
    places = rankdata(-means, method="min", axis=1).astype(int)
    rows = tuple(
        Row(model, tuple(text_cell(f"{place} ({mean:.2f})") for place, mean in zip(order, scores, strict=True)))
        for model, order, scores in zip(models, places.T, means.T, strict=True)
    )
    alike, different, meaning = notes("agreement_ranks")
    told = alike if (places == places[0]).all() else different
    return Table("agreement_ranks", t("Models by judge"), (t("Model"), *judges), rows, (told, meaning))
