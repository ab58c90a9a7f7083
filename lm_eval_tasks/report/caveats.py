"""What a reader must be told first: what a run lacks, who judged it, and in what the runs differ."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import partial

from lm_eval_tasks.report import facts, provenance, stats
from lm_eval_tasks.report.records import WAITING, Run
from lm_eval_tasks.report.table import grouped
from lm_eval_tasks.report.texts import listed, t
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
        yield t("{what}: run `lm-eval-tasks rejudge {place}`.", what=what, place=shlex.quote(run.place))
    if run.waits(facts.FOUNDATION):
        words = "{title}: its answers were not scored; run its tasks again without --predict_only."
        yield t(words, title=facts.TITLES[facts.FOUNDATION])
    if run.limit is not None:
        yield t("Made with --limit {n}: a trial on part of the docs, not a result of the benchmark.", n=run.limit)
    if run.damaged:
        some = listed([str(damage) for damage in run.damaged])
        yield t("{n} lines of its sample files could not be used ({some}).", n=len(run.damaged), some=some)
    yield from (f"{note}." for note in (*run.notes, *mismatches(run)))


def _of_a_benchmark(run: Run, benchmark: str) -> Iterable[str]:
    asked, answered = run.judges(benchmark)
    demo = facts.DEMO_JUDGE in [*asked, *answered]
    judge = facts.DEMO_JUDGE if demo else facts.OFFICIAL_JUDGE
    say = partial(t, title=facts.TITLES[benchmark], names=", ".join(asked), judge=judge)
    if demo:
        yield say("{title}: judged by {judge}, a rule of thumb for trying the pack; the numbers mean nothing.")
    if provenance.judge_settings(run, benchmark).get("local_path") == "sample":
        yield say("{title}: run on the few samples that come with the pack, not on the benchmark's data.")
    yield from _gaps(run, benchmark)
    if benchmark == facts.AIR and asked and asked != [facts.OFFICIAL_JUDGE] and not demo:
        yield say("{title}: judged by {names}, not by {judge}: its scores cannot be compared with the published rows.")
    if benchmark == facts.INTIMA and not demo and [name for name in asked if not facts.PAPER_JUDGES.search(name)]:
        yield say(
            "{title}: judged by {names}, not by an open model of the Qwen-3 family as in the paper: its rates may "
            "differ from the paper's for that reason alone."
        )
    if len(answered) > 1:
        words = "{title}: {n} judges answered ({names}): its scores mix their scales."
        yield say(words, n=len(answered), names=", ".join(answered))
    if run.judged_at_all(benchmark):
        yield from _counts(run, benchmark)


def _counts(run: Run, benchmark: str) -> Iterable[str]:
    say, sums = partial(t, title=facts.TITLES[benchmark]), provenance.totals(run, benchmark)
    unjudged = int(sum(sums["unjudged"].values()))
    if unjudged:
        words = "{title}: {n} of {docs} docs could not be judged and are excluded from every score ({reasons})."
        if benchmark == facts.FOUNDATION:
            words = "{title}: {n} of {docs} docs are unanswered and excluded from every score ({reasons})."
        docs, reasons = int(sums["docs"] or unjudged), provenance.counted(sums["unjudged"])
        yield say(words, n=unjudged, docs=docs, reasons=reasons)
    said = {text(answer.record.get("why")) for answer in run.answers[benchmark] if not answer.judged} - {""}
    if said:
        words = listed([f"“{' '.join(why.split())[:200]}”" for why in sorted(said)])
        yield say("{title}: the server's words for what it refused: {words}.", words=words)
    if sums["cut"]:
        words = "{title}: {n} answers were cut off at the token limit and count as they are; raise max_gen_toks."
        yield say(words, n=int(sums["cut"]))
    if not run.answers.get(benchmark):
        yield say(
            "{title}: no samples were logged, so there are no distributions, comparisons or samples here; add "
            "--log_samples (with --output_path) to the next lm_eval command."
        )


def differences(runs: list[Run]) -> Iterable[str]:
    """Names the settings in which the runs differ, those of the answers and those of judging each benchmark."""
    for part, settings in provenance.sections(runs).items():
        found = [provenance.setting_name(name) for name in provenance.differing(settings)]
        if found:
            yield t(
                "{title}: the runs differ in a setting ({names}), so the difference between them is not the model's "
                "alone (the values are under “Settings that shape the numbers”).",
                title=facts.TITLES.get(part) or t("The answers"),
                names=", ".join(found),
            )


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
        total, names = len(facts.RECORDS[benchmark]), listed(named, 8)
        sentence = t("{n} of {total} tasks missing: {names}", n=len(missing), total=total, names=names)
        yield f"{title}: {sentence}{_consequence(run, benchmark, rows)}."
    had, whole = records(run, benchmark)
    if run.limit is None and 0 < had + sum(len(names) for _, _, names in without) < whole:
        words = "{title}: {n} of {whole} records: a trial on part of the data, not a result of the benchmark."
        yield t(words, title=title, n=grouped(had), whole=grouped(whole))
    for task, cause, names in without:
        words, name = "left out of {task} before generation: {n} ({cause}: {names})", t(facts.group_title(task))
        sentence = t(words, task=name, n=len(names), cause=cause, names=listed(names))
        yield f"{title}: {sentence}{_consequence(run, benchmark, facts.GROUPS.get(task, []))}."


def _consequence(run: Run, benchmark: str, rows: list[str]) -> str:
    """Says which numbers are not the benchmark's, of those that the run has."""
    metric = facts.MAIN_METRIC[benchmark]
    there = [row for row in dict.fromkeys(rows) if run.estimate(row, metric).value is not None]
    if not there:
        return ""
    if benchmark == facts.INTIMA:
        return t(": the rates over all prompts are not those of the benchmark")
    there.sort(key=facts.ROWS.index)
    names = ", ".join(t(facts.group_title(row)) for row in there)
    return t(": not comparable with the leaderboard: {names}", names=names)


def mismatches(run: Run) -> list[str]:
    """Compares the mean of the logged scores of each task with lm_eval's; returns what does not agree."""
    out = []
    for task in run.tasks(facts.AIR):
        logged = stats.mean([a.score for a in run.judged_in(task) if a.score is not None])
        value = run.estimate(task, "gpt_score").value
        if logged.value is not None and value is not None and abs(logged.value - value) > 0.005:
            words = (
                "{task}: the logged samples' mean is {mean} ({n} docs), lm_eval's results say {value}; the report "
                "prints lm_eval's"
            )
            mean, name = f"{logged.value:.2f}", facts.group_title(task)
            out.append(t(words, task=name, mean=mean, n=logged.n, value=f"{value:.2f}"))
    return out
