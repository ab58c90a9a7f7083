"""What a run lacks of a benchmark: tasks that did not run, and clips that were left out before generation."""

from __future__ import annotations

from collections.abc import Iterable

from lm_eval_tasks.report import facts
from lm_eval_tasks.report.records import Run, mapping, text

_MIXED = (facts.AIR_GROUPS["Speech + sound"], facts.AIR_GROUPS["Speech + music"])


def left_out(run: Run, benchmark: str) -> list[tuple[str, str, list[str]]]:
    """Returns task, kind of fault and the names of what was left out before generation."""
    out = []
    for task in run.tasks(benchmark):
        for kind, names in mapping(run.judging.get(task, {}).get("left_out")).items():
            listed = [text(name) for name in names] if isinstance(names, (list, dict)) else [text(names)]
            if listed:
                out.append((task, text(kind), listed))
    return out


def absent(run: Run, benchmark: str) -> dict[str, str]:
    """Returns task -> why it is missing, of those that a group with a number or a reason should have had."""
    said: dict[str, str] = {}
    for task in run.tasks(benchmark):
        reasons = mapping(run.judging.get(task, {}).get("absent"))
        named = {text(name): text(reason) or "no reason is stored" for name, reason in reasons.items()}
        said |= {name: reason for name, reason in named.items() if name.startswith(f"{benchmark}_")}
    expected = dict.fromkeys(said)
    for name in parts(benchmark):
        row = groups_of(name)[0]
        if row != name and run.results.get(row):
            expected[name] = None
    there = {*run.results, *run.tasks(benchmark)}
    return {name: said.get(name, "it was not run") for name in expected if name not in there}


def parts(benchmark: str) -> list[str]:
    """Returns lm_eval's names of the tasks that the numbers of a whole benchmark are made of."""
    if benchmark == facts.AIR:
        return [f"{facts.AIR}_{task}" for task in facts.AIR_TASKS]
    return [name for name in facts.INTIMA_GROUPS.values() if name != facts.INTIMA]


def groups_of(name: str) -> list[str]:
    """Returns the groups whose rows hold a task's docs, the smallest first."""
    if name.startswith(f"{facts.INTIMA}_"):
        return [facts.INTIMA]
    category = facts.AIR_TASKS.get(name.removeprefix(f"{facts.AIR}_"))
    group = f"{facts.AIR}_{category}" if category else name
    return [group, *([facts.AIR_GROUPS["Mixed"]] if group in _MIXED else []), facts.AIR]


def remark(run: Run, group: str) -> str:
    """Returns in a few words what a row of AIR-Bench-Chat lacks ("" where it is whole)."""
    lacking = [facts.group_title(name) for name in absent(run, facts.AIR) if group in groups_of(name)]
    clips = sum(len(names) for task, _, names in left_out(run, facts.AIR) if group in groups_of(task))
    said = [f"without {', '.join(lacking)}"] if lacking else []
    if clips:
        said.append(f"{clips} clip{'s' if clips > 1 else ''} left out")
    return "; ".join(said)


def sentences(run: Run, benchmark: str) -> Iterable[str]:
    """Says what is missing from which row, and that the row is then not the benchmark's."""
    for name, reason in absent(run, benchmark).items():
        rows, task = groups_of(name), facts.group_title(name)
        reason = " ".join(reason.split()).rstrip(".")
        yield f"{_row_title(rows[0])} is without {task} ({reason}){_consequence(run, rows)}."
    for name, kind, names in left_out(run, benchmark):
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        lacking = f"{len(names)} of its clips" if len(names) > 1 else "one of its clips"
        yield (
            f"{facts.group_title(name)} is without {lacking}, left out before generation, {kind}: {some}"
            f"{_consequence(run, groups_of(name))}."
        )


def _row_title(group: str) -> str:
    return "the row of all prompts" if group == facts.INTIMA else facts.group_title(group)


def _consequence(run: Run, rows: list[str]) -> str:
    """Says which numbers are not the benchmark's, of those that the run has."""
    metric = "companionship_reinforcing" if rows[0] == facts.INTIMA else "gpt_score"
    named = [_row_title(row) for row in rows if run.estimate(row, metric).value is not None]
    if not named:
        return ""
    if rows[0] == facts.INTIMA:
        return ": its rates are not those of the whole benchmark"
    listed = ", ".join(named[:-1]) + (" and " if len(named) > 1 else "") + named[-1]
    return f": {listed} {'are no leaderboard numbers' if len(named) > 1 else 'is no leaderboard number'}"
