"""What a reader must be told first: everything that changes how the numbers are to be read."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from lm_eval_tasks.report import facts, foundation, gaps
from lm_eval_tasks.report.airbench import mismatches
from lm_eval_tasks.report.judging import TITLES, counted, stored_settings, totals
from lm_eval_tasks.report.records import WAITING, Run, text

DEMO_JUDGE = "demo-judge"


def warnings(runs: list[Run]) -> list[tuple[str, str]]:
    """Returns (run, sentence) of everything that changes how the numbers must be read; "" for all runs together."""
    out = [("", sentence) for sentence in differences(runs)]
    for run in runs:
        missing = [f"{title}: {said}" for name, title in TITLES.items() for said in gaps.sentences(run, name)]
        say = [*missing, *_judge_warnings(run), *foundation.warnings(run)]
        if run.limit is not None:
            say.insert(0, f"Made with --limit {run.limit}: a trial on part of the docs, not a result of the benchmark.")
        waiting = [title for benchmark, title in TITLES.items() if run.waits(benchmark)]
        if waiting:
            alone = all(run.waits(name) for name in TITLES if run.has(name))
            what = WAITING.capitalize() if alone else f"{' and '.join(waiting)}: {WAITING}"
            say.insert(0, f"{what}: run `lm-eval-tasks rejudge {shlex.quote(run.place)}`.")
        for benchmark, title in TITLES.items():
            if not run.judged_at_all(benchmark):
                continue
            sums = totals(run, benchmark)
            unjudged = int(sum(sums["unjudged"].values()))
            if unjudged:
                docs = int(sums["docs"] or unjudged)
                say.append(
                    f"{title}: {unjudged} of {docs} docs are unjudged and in no score ({counted(sums['unjudged'])})."
                )
            if not run.answers.get(benchmark):
                say.append(
                    f"{title}: no samples were logged, so there are no histograms, comparisons or samples here; "
                    "add --log_samples (with --output_path) to the next lm_eval command."
                )
        if run.damaged:
            some = "; ".join(map(str, run.damaged[:3])) + (
                f"; and {len(run.damaged) - 3} more" if len(run.damaged) > 3 else ""
            )
            say.append(f"{len(run.damaged)} lines of its sample files could not be used ({some}).")
        say += [f"{note}." for note in (*run.notes, *mismatches(run))]
        out += [(run.label, sentence) for sentence in say]
    return out


def _judge_warnings(run: Run) -> Iterable[str]:
    """Says whose judgement the numbers are, and on what data."""
    shown = [benchmark for benchmark in TITLES if run.has(benchmark)]
    demo = [TITLES[name] for name in shown if any(DEMO_JUDGE in judges for judges in run.judges(name))]
    if demo:
        names = " and ".join(demo)
        yield f"{names}: judged by {DEMO_JUDGE}, a rule of thumb for trying the pack; the numbers mean nothing."
    sample = [TITLES[name] for name in shown if stored_settings(run, name).get("local_path") == "sample"]
    if sample:
        yield f"{' and '.join(sample)}: made on the few samples that come with the pack, not on the benchmark's data."
    for benchmark in shown:
        title, (asked, answered) = TITLES[benchmark], run.judges(benchmark)
        if benchmark == facts.AIR and asked and asked != [facts.OFFICIAL_JUDGE] and title not in demo:
            yield (
                f"{title} was judged by {', '.join(asked)}, not by {facts.OFFICIAL_JUDGE}: "
                "its scores are not on the scale of the published rows."
            )
        if len(answered) > 1:
            names = ", ".join(answered)
            yield f"{title} was answered by {len(answered)} judges ({names}): its scores mix their scales."


def differences(runs: list[Run]) -> Iterable[str]:
    """Names the settings in which the judged runs of a benchmark differ."""
    for benchmark, title in TITLES.items():
        shown = [run for run in runs if stored_settings(run, benchmark)]
        settings = [_shaping(run, benchmark) for run in shown]
        if settings and all(values.get("data_revision", "none") != "none" for values in settings):
            # the commit of the data says more than where it came from
            settings = [{k: v for k, v in values.items() if k not in ("source", "revision")} for values in settings]
        names = dict.fromkeys(name for values in settings for name in values)
        found = [name for name in names if len({values.get(name) for values in settings}) > 1]
        if "judge_model" not in found and len({tuple(sorted(run.judges(benchmark)[1])) for run in shown}) > 1:
            found.append("the judge that answered")
        if found:
            yield (
                f"{title}: the runs differ in {', '.join(found)}: the difference is not the model's alone "
                "(the values are in the table of settings)."
            )


def _shaping(run: Run, benchmark: str) -> dict[str, str]:
    """Returns the settings that shape a run's numbers, in the order of the table of settings."""
    stored = {**stored_settings(run, benchmark), "--limit": "none" if run.limit is None else text(run.limit)}
    order = [name for name in facts.SETTINGS_FIRST if name in stored]
    order += [name for name in stored if name not in order and name not in facts.SETTINGS_ASIDE]
    return {name: stored[name] for name in order}
