"""What a reader must be told first: what a run lacks, who judged it, and in what the runs differ."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import partial

from lm_eval_tasks.intima.scoring import PAPER_JUDGES
from lm_eval_tasks.report import facts, provenance, stats
from lm_eval_tasks.report.records import WAITING, Run
from lm_eval_tasks.report.table import grouped
from lm_eval_tasks.report.texts import listed, t, warning
from lm_eval_tasks.runs.plain import mapping, number, text


def warnings(runs: list[Run]) -> list[tuple[str, str]]:
    """(run, sentence) of everything that changes how the numbers must be read; "" for all runs together."""
    out = [("", sentence) for sentence in differences(runs)]
    for run in runs:
        say = [*_of_the_run(run), *(s for name in facts.TITLES if run.has(name) for s in _of_a_benchmark(run, name))]
        out += [(run.label, sentence) for sentence in say]
    return out


def _of_the_run(run: Run) -> Iterable[str]:
    waiting = [facts.TITLES[name] for name in facts.JUDGED if run.waits(name)]
    if waiting:
        alone = all(run.waits(name) for name in facts.TITLES if run.has(name))
        what = t("Not judged yet") if alone else f"{', '.join(waiting)}: {t(WAITING)}"
        yield warning("waiting", what=what, place=shlex.quote(run.place))
    if run.waits(facts.FOUNDATION):
        yield warning("not_scored", title=facts.TITLES[facts.FOUNDATION])
    if run.limit is not None:
        yield warning("limited", n=run.limit)
    if run.damaged:
        yield warning("damaged", n=len(run.damaged), some=listed(list(map(str, run.damaged))))
    yield from (f"{note}." for note in (*run.notes, *mismatches(run)))


def _of_a_benchmark(run: Run, benchmark: str) -> Iterable[str]:
    asked, answered = run.judges(benchmark)
    demo = facts.DEMO_JUDGE in [*asked, *answered]
    judge = facts.DEMO_JUDGE if demo else facts.OFFICIAL_JUDGE
    say = partial(warning, title=facts.TITLES[benchmark], judge=judge)
    if demo:
        yield say("demo")
    if provenance.judge_settings(run, benchmark).get("local_path") == "sample":
        yield say("bundled")
    yield from _gaps(run, benchmark)
    if benchmark == facts.AIR and asked and asked != [facts.OFFICIAL_JUDGE] and not demo:
        yield say("other_judge", names=", ".join(asked))
    if benchmark == facts.INTIMA and not demo and [name for name in asked if not PAPER_JUDGES.search(name)]:
        yield say("other_family", names=", ".join(asked))
    if len(answered) > 1:
        yield say("several_judges", n=len(answered), names=", ".join(answered))
    if run.judged_at_all(benchmark):
        yield from _counts(run, benchmark)


def _counts(run: Run, benchmark: str) -> Iterable[str]:
    say, sums = partial(warning, title=facts.TITLES[benchmark]), provenance.totals(run, benchmark)
    unjudged = int(sum(sums["unjudged"].values()))
    if unjudged:
        docs, reasons = int(sums["docs"] or unjudged), provenance.counted(sums["unjudged"])
        name = "unanswered" if benchmark == facts.FOUNDATION else "unjudged"
        yield say(name, n=unjudged, docs=docs, reasons=reasons)
    said = {text(answer.record.get("why")) for answer in run.answers[benchmark] if not answer.judged} - {""}
    if said:
        yield say("refused", words=listed([f"“{' '.join(why.split())[:200]}”" for why in sorted(said)]))
    if sums["cut"]:
        yield say("cut", n=int(sums["cut"]))
    if not run.answers.get(benchmark):
        yield say("not_logged")


def differences(runs: list[Run]) -> Iterable[str]:
    """Names the settings in which the runs differ, those of the answers and those of judging each benchmark."""
    for part, settings in provenance.sections(runs).items():
        found = [provenance.setting_name(name) for name in provenance.differing(settings)]
        if found:
            title = facts.TITLES.get(part) or t("The answers")
            yield warning("settings_differ", title=title, names=", ".join(found))


def left_out(run: Run, benchmark: str) -> list[tuple[str, str, list[str]]]:
    """Task, cause and the names of what was left out before generation."""
    out = []
    for task in run.tasks(benchmark):
        for cause, names in mapping(run.summaries[task].get("left_out")).items():
            if found := list(map(text, names if isinstance(names, (list, dict)) else [names])):
                out.append((task, text(cause), found))
    return out


def absent(run: Run, benchmark: str) -> dict[str, str]:
    """Task -> why it is missing ("" where nobody said), of the tasks of a whole benchmark."""
    said: dict[str, str] = {}
    for task in run.tasks(benchmark):
        reasons = mapping(run.summaries[task].get("absent"))
        said |= {text(name): " ".join(text(reason).split()).rstrip(".") for name, reason in reasons.items()}
    there = {*run.results, *run.tasks(benchmark)}
    return {name: said.get(name, "") for name in facts.RECORDS[benchmark] if name not in there}


def records(run: Run, benchmark: str) -> tuple[int, int]:
    """How many records of the benchmark's tasks the run has, and how many these tasks have in the data."""
    names = [name for name in run.tasks(benchmark) if name in facts.RECORDS[benchmark]]
    docs = [number(run.summaries[name].get("docs")) for name in names]
    logged = [sum(answer.task == name for answer in run.answers[benchmark]) for name in names]
    had = sum(int(count) if count is not None else found for count, found in zip(docs, logged, strict=True))
    return had, sum(facts.RECORDS[benchmark][name] for name in names)


def remark(run: Run, benchmark: str, group: str) -> str:
    """In a few words, what the row of a group lacks ("" where it is whole)."""
    lacking = [t(facts.group_title(name)) for name in absent(run, benchmark) if group in facts.GROUPS[name]]
    clips = sum(len(names) for task, _, names in left_out(run, benchmark) if group in facts.GROUPS.get(task, ()))
    said = [t("without {names}", names=listed(lacking))] if lacking else []
    had, whole = records(run, benchmark)
    if group == benchmark and had + clips < whole:
        said.append(t("{n} of {whole} records", n=grouped(had), whole=grouped(whole)))
    if clips:
        said.append(t("left out: {n}", n=clips))
    return "; ".join(said)


def _gaps(run: Run, benchmark: str) -> Iterable[str]:
    """Says what is missing from which row, and that the row is then not the benchmark's."""
    title, missing, without = facts.TITLES[benchmark], absent(run, benchmark), left_out(run, benchmark)
    if missing:
        named = [t(facts.group_title(name)) + (f" ({reason})" if reason else "") for name, reason in missing.items()]
        rows = [row for name in missing for row in facts.GROUPS[name]]
        total = len(facts.RECORDS[benchmark])
        sentence = warning("tasks_missing", n=len(missing), total=total, names=listed(named, 8))
        yield f"{title}: {sentence}{_consequence(run, benchmark, rows)}."
    had, whole = records(run, benchmark)
    if run.limit is None and 0 < had + sum(len(names) for _, _, names in without) < whole:
        yield warning("part_of_the_data", title=title, n=grouped(had), whole=grouped(whole))
    for task, cause, names in without:
        name = t(facts.group_title(task))
        sentence = warning("left_out", task=name, n=len(names), cause=cause, names=listed(names))
        yield f"{title}: {sentence}{_consequence(run, benchmark, facts.GROUPS.get(task, []))}."


def _consequence(run: Run, benchmark: str, rows: list[str]) -> str:
    """Says which numbers are not the benchmark's, of those that the run has."""
    metric = facts.MAIN_METRIC[benchmark]
    there = [row for row in dict.fromkeys(rows) if run.estimate(row, metric).value is not None]
    if not there:
        return ""
    if benchmark == facts.INTIMA:
        return warning("other_rates")
    there.sort(key=facts.ROWS.index)
    return warning("not_comparable", names=", ".join(t(facts.group_title(row)) for row in there))


def mismatches(run: Run) -> list[str]:
    """Compares the mean of the logged scores of each task with lm_eval's; returns what does not agree."""
    out = []
    for task in run.tasks(facts.AIR):
        logged = stats.mean([a.score for a in run.judged_in(task) if a.score is not None])
        value = run.estimate(task, "gpt_score").value
        if logged.value is not None and value is not None and abs(logged.value - value) > 0.005:
            mean, name = f"{logged.value:.2f}", facts.group_title(task)
            out.append(warning("mean_differs", task=name, mean=mean, n=logged.n, value=f"{value:.2f}"))
    return out
