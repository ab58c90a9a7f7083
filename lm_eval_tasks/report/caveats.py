"""What a reader must be told first: what a run lacks, who judged it, and in what the runs differ."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from lm_eval_tasks.report import facts, foundation, provenance
from lm_eval_tasks.report.records import WAITING, Run, mapping, number, text
from lm_eval_tasks.report.table import grouped
from lm_eval_tasks.report.texts import listed, t

_MIXED = ("air_bench_chat_speech_and_sound", "air_bench_chat_speech_and_music")


def warnings(runs: list[Run]) -> list[tuple[str, str]]:
    """Returns (run, sentence) of everything that changes how the numbers must be read; "" for all runs together."""
    out = [("", sentence) for sentence in differences(runs)]
    for run in runs:
        say = [*_of_the_run(run), *(s for name in facts.TITLES if run.has(name) for s in _of_a_benchmark(run, name))]
        out += [(run.label, sentence) for sentence in [*say, *foundation.warnings(run)]]
    return out


def _of_the_run(run: Run) -> Iterable[str]:
    waiting = [title for name, title in facts.TITLES.items() if run.waits(name)]
    if waiting:
        alone = all(run.waits(name) for name in facts.TITLES if run.has(name))
        what = t("Not judged yet") if alone else f"{', '.join(waiting)}: {t(WAITING)}"
        yield t("{what}: run `lm-eval-tasks rejudge {place}`.", what=what, place=shlex.quote(run.place))
    if run.limit is not None:
        yield t("Made with --limit {n}: a trial on part of the docs, not a result of the benchmark.", n=run.limit)
    if run.damaged:
        some = listed([str(damage) for damage in run.damaged])
        yield t("{n} lines of its sample files could not be used ({some}).", n=len(run.damaged), some=some)
    yield from (f"{note}." for note in (*run.notes, *mismatches(run)))


def _of_a_benchmark(run: Run, benchmark: str) -> Iterable[str]:
    title, (asked, answered) = facts.TITLES[benchmark], run.judges(benchmark)
    values = provenance.judge_settings(run, benchmark)
    demo = facts.DEMO_JUDGE in [*asked, *answered]
    if demo:
        yield t(
            "{title}: judged by {judge}, a rule of thumb for trying the pack; the numbers mean nothing.",
            title=title,
            judge=facts.DEMO_JUDGE,
        )
    if values.get("local_path") == "sample":
        yield t("{title}: made on the few samples of the pack, not on the benchmark's data.", title=title)
    yield from _gaps(run, benchmark)
    names = ", ".join(asked)
    if benchmark == facts.AIR and asked and asked != [facts.OFFICIAL_JUDGE] and not demo:
        yield t(
            "{title}: judged by {names}, not by {judge}: its scores cannot be compared with the published rows.",
            title=title,
            names=names,
            judge=facts.OFFICIAL_JUDGE,
        )
    if benchmark == facts.INTIMA and not demo and [name for name in asked if not facts.PAPER_JUDGES.search(name)]:
        yield t(
            "{title}: judged by {names}, not by an open model of the Qwen-3 family as in the paper: its rates may "
            "differ from the paper's for that reason alone.",
            title=title,
            names=names,
        )
    if len(answered) > 1:
        said = "{title}: {n} judges answered ({names}): its scores mix their scales."
        yield t(said, title=title, n=len(answered), names=", ".join(answered))
    if run.judged_at_all(benchmark):
        yield from _counts(run, benchmark)


def _counts(run: Run, benchmark: str) -> Iterable[str]:
    title, sums = facts.TITLES[benchmark], provenance.totals(run, benchmark)
    unjudged = sum(sums["unjudged"].values())
    if unjudged:
        yield t(
            "{title}: {n} of {docs} docs could not be judged and are excluded from every score ({reasons}).",
            title=title,
            n=int(unjudged),
            docs=int(sums["docs"] or unjudged),
            reasons=provenance.counted(sums["unjudged"]),
        )
    said = {text(answer.record.get("why")) for answer in run.answers.get(benchmark, []) if not answer.judged} - {""}
    if said:
        words = listed([f"“{' '.join(why.split())[:200]}”" for why in sorted(said)])
        yield t("{title}: the server's words for what it refused: {words}.", title=title, words=words)
    if sums["cut"]:
        yield t(
            "{title}: {n} answers were cut by their limit of tokens and judged as they are; raise max_gen_toks.",
            title=title,
            n=int(sums["cut"]),
        )
    if not run.answers.get(benchmark):
        yield t(
            "{title}: no samples were logged, so there are no distributions, comparisons or samples here; add "
            "--log_samples (with --output_path) to the next lm_eval command.",
            title=title,
        )


def differences(runs: list[Run]) -> Iterable[str]:
    """Names the settings in which the runs differ, those of the answers and those of judging each benchmark."""
    sections = [(t("The answers"), [provenance.answer_settings(run) for run in runs])]
    for benchmark, title in facts.TITLES.items():
        judged = [run for run in runs if run.judged_at_all(benchmark)]
        sections.append((title, [provenance.judge_settings(run, benchmark) for run in judged]))
    for title, settings in sections:
        found = [provenance.setting_name(name) for name in provenance.differing(settings)]
        if found:
            yield t(
                "{title}: the runs differ in a setting ({names}), so the difference between them is not the model's "
                "alone (the values are under “Settings that shape the numbers”).",
                title=title,
                names=", ".join(found),
            )


def left_out(run: Run, benchmark: str) -> list[tuple[str, str, list[str]]]:
    """Returns task, cause and the names of what was left out before generation."""
    out = []
    for task in run.tasks(benchmark):
        for cause, names in mapping(run.judging.get(task, {}).get("left_out")).items():
            several = isinstance(names, (list, dict))
            if found := [text(name) for name in names] if several else [text(names)]:
                out.append((task, text(cause), found))
    return out


def absent(run: Run, benchmark: str) -> dict[str, str]:
    """Returns task -> why it is missing ("" where nobody said), of the tasks of a whole benchmark."""
    said: dict[str, str] = {}
    for task in run.tasks(benchmark):
        reasons = mapping(run.judging.get(task, {}).get("absent"))
        said |= {text(name): " ".join(text(reason).split()).rstrip(".") for name, reason in reasons.items()}
    there = {*run.results, *run.tasks(benchmark)}
    return {name: said.get(name, "") for name in facts.RECORDS[benchmark] if name not in there}


def records(run: Run, benchmark: str) -> tuple[int, int]:
    """Returns how many records of the benchmark's tasks the run has, and how many these tasks have in the data."""
    names = [name for name in run.tasks(benchmark) if name in facts.RECORDS[benchmark]]
    docs = [number(run.judging.get(name, {}).get("docs")) for name in names]
    logged = [sum(answer.task == name for answer in run.answers.get(benchmark, [])) for name in names]
    had = sum(int(count) if count is not None else found for count, found in zip(docs, logged, strict=True))
    return had, sum(facts.RECORDS[benchmark][name] for name in names)


def groups_of(name: str) -> list[str]:
    """Returns the groups whose rows hold a task's docs, the smallest first; none of a variant, which is in no row."""
    if name.startswith(f"{facts.INTIMA}_"):
        return [facts.INTIMA]
    category = facts.AIR_TASKS.get(name.removeprefix(f"{facts.AIR}_"))
    if category is None:
        return []
    group = f"{facts.AIR}_{category}"
    return [group, *([facts.AIR_GROUPS["Mixed"]] if group in _MIXED else []), facts.AIR]


def remark(run: Run, group: str) -> str:
    """Returns in a few words what a row of AIR-Bench-Chat lacks ("" where it is whole)."""
    lacking = [facts.group_title(name) for name in absent(run, facts.AIR) if group in groups_of(name)]
    clips = sum(len(names) for task, _, names in left_out(run, facts.AIR) if group in groups_of(task))
    said = [t("without {names}", names=listed(lacking))] if lacking else []
    had, whole = records(run, facts.AIR)
    if group == facts.AIR and had + clips < whole:
        said.append(t("{n} of {whole} records", n=grouped(had), whole=grouped(whole)))
    if clips:
        said.append(t("left out: {n}", n=clips))
    return "; ".join(said)


def _gaps(run: Run, benchmark: str) -> Iterable[str]:
    """Says what is missing from which row, and that the row is then not the benchmark's."""
    title, missing, without = facts.TITLES[benchmark], absent(run, benchmark), left_out(run, benchmark)
    if missing:
        named = [
            t(facts.group_title(name)) + (f" ({reason})" if reason else "") for name, reason in list(missing.items())
        ]
        rows = [row for name in missing for row in groups_of(name)]
        total = len(facts.RECORDS[benchmark])
        sentence = t("{n} of {total} tasks missing: {names}", n=len(missing), total=total, names=", ".join(named))
        yield f"{title}: {sentence}{_consequence(run, benchmark, rows)}."
    had, whole = records(run, benchmark)
    if run.limit is None and 0 < had + sum(len(names) for _, _, names in without) < whole:
        yield t(
            "{title}: {n} of {whole} records: a trial on part of the data, not a result of the benchmark.",
            title=title,
            n=grouped(had),
            whole=grouped(whole),
        )
    for task, cause, names in without:
        sentence = t(
            "left out of {task} before generation: {n} ({cause}: {names})",
            task=t(facts.group_title(task)),
            n=len(names),
            cause=cause,
            names=listed(names),
        )
        yield f"{title}: {sentence}{_consequence(run, benchmark, groups_of(task))}."


def _consequence(run: Run, benchmark: str, rows: list[str]) -> str:
    """Says which numbers are not the benchmark's, of those that the run has."""
    metric = "companionship_reinforcing" if benchmark == facts.INTIMA else "gpt_score"
    named = [
        t(facts.group_title(row))
        for row in [*facts.AIR_GROUPS.values(), facts.INTIMA]
        if row in rows and run.estimate(row, metric).value is not None
    ]
    if not named:
        return ""
    if benchmark == facts.INTIMA:
        return t(": the rates over all prompts are not those of the benchmark")
    return t(": not comparable with the leaderboard: {names}", names=", ".join(named))


def mismatches(run: Run) -> list[str]:
    """Compares the mean of the logged scores of each task with lm_eval's; returns what does not agree."""
    out = []
    for task in run.tasks(facts.AIR):
        scores = [a.score for a in run.answers.get(facts.AIR, []) if a.task == task and a.score is not None]
        estimate = run.estimate(task, "gpt_score")
        if scores and estimate.value is not None and abs(sum(scores) / len(scores) - estimate.value) > 0.005:
            out.append(
                t(
                    "{task}: the logged samples' mean is {mean} ({n} docs), lm_eval's results say {value}; the report "
                    "prints lm_eval's",
                    task=facts.group_title(task),
                    mean=f"{sum(scores) / len(scores):.2f}",
                    n=len(scores),
                    value=f"{estimate.value:.2f}",
                )
            )
    return out
