"""What made the numbers: how many answers were judged, at what cost, and every setting that a run stored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lm_eval_tasks.report import facts
from lm_eval_tasks.report.records import WAITING, Run, mapping, number, text
from lm_eval_tasks.report.table import DASH, Row, Table, count_cell, text_cell
from lm_eval_tasks.report.texts import t

_COUNTS = ("docs", "judged", "calls", "from_cache", "prompt_tokens", "completion_tokens")
_COSTS = ("calls", "prompt_tokens", "completion_tokens")
_OTHER_NAMES = {"unjudged": "unanswered"}
"""What a task without a judge calls a count."""
_LONG = 300
# Parts of a judging summary that other tables or the settings of the answers show; all others are settings of judging.
_ELSEWHERE = {*_COUNTS, "benchmark", "settings", "unjudged", "flags", "judge_answered", "left_out", "absent", "answers"}
_ELSEWHERE |= {"chance", "scored", "no_letter", "official_no_letter", "unanswered", "cut"}
_ELSEWHERE |= {"process", "levels", "stderr_by_code", *(f"{name}_all_attempts" for name in _COUNTS)}
_NOISE = ("judge_sd", "stderr_with_judge_noise", "stderr_without_judge_noise", "stderr_of_judge_noise")
_ELSEWHERE |= {*_NOISE, "failed_repeats"}
_NOISE_TOLD = (
    "{name}: one verdict's standard deviation for the same answer and order is {sd} (judge_sd); the standard error is "
    "{with_it} with the judge's noise and {without} without it; repeats that failed: {failed}."
)
_OF_CONFIG = ("generation_kwargs", "num_fewshot", "repeats")
_OF_RESULTS = ("system_instruction", "chat_template_sha", "fewshot_as_multiturn", "lm_eval_version", "git_hash")
_HIDDEN = {"key", "apikey", "token", "secret", "password", "authorization", "auth", "header", "headers"}


def totals(run: Run, benchmark: str) -> dict[str, Any]:
    """Sums the judging summaries of a run's tasks; a count that no task has is None.

    Calls and tokens are those over all attempts of a run where a task's summary says so, else of its last process.
    """
    out: dict[str, Any] = {**dict.fromkeys((*_COUNTS, "cut")), "unjudged": {}, "flags": {}}
    for task in run.tasks(benchmark):
        summary = run.summary(task)
        found = {name: number(summary.get(name)) for name in _COUNTS}
        for name in _COSTS:
            every = number(summary.get(f"{name}_all_attempts"))
            found[name] = found[name] if every is None else every
        found["cut"] = number(mapping(summary.get("answers")).get("cut"))
        for name, count in found.items():
            out[name] = out[name] if count is None else (out[name] or 0) + count
        for name in ("unjudged", "flags"):
            for key, count in mapping(summary.get(name) or summary.get(_OTHER_NAMES.get(name))).items():
                out[name][text(key)] = out[name].get(text(key), 0) + (number(count) or 0)
    return out


def judging_table(runs: list[Run]) -> Table:
    """Returns a row for each run and benchmark: docs, judged, unjudged with reasons, flags, calls and tokens."""
    rows = []
    for index, run in enumerate(runs):
        for benchmark in filter(run.has, facts.JUDGED):
            sums = totals(run, benchmark)
            if run.waits(benchmark):
                count = len(run.answers.get(benchmark, []))
                sums |= dict.fromkeys(_COUNTS, 0) | {"docs": count, "unjudged": {t(WAITING): count}}
            unjudged = sum(sums["unjudged"].values()) if sums["judged"] is not None else None
            flags = {t(facts.FLAGS.get(name, name)): count for name, count in sums["flags"].items()}
            cells = (
                text_cell(facts.TITLES[benchmark]),
                *map(count_cell, (sums["docs"], sums["judged"], unjudged)),
                text_cell(counted(sums["unjudged"]) or t("none")),
                text_cell(counted(flags) or t("none")),
                *(count_cell(sums[name]) for name in ("calls", "from_cache", "prompt_tokens", "completion_tokens")),
            )
            rows.append(Row(run.label, cells, "", index))
    head = ("Run", "Benchmark", "Docs", "Judged", "Unjudged", "Reasons", "Flagged answers", "Calls", "From cache")
    head += ("Tokens read by the judge", "Tokens in its replies")
    notes = (
        t(
            "What could not be judged is excluded from every score. Calls and tokens: all that were paid for, over "
            "every attempt of a run, where its results say so; otherwise those of its last process."
        ),
    )
    return Table("judging", t("Judged and unjudged"), tuple(map(t, head)), tuple(rows), (*notes, *_noise(runs)))


def _noise(runs: list[Run]) -> list[str]:
    """A sentence for each task whose questions were put several times: how far the judge disagrees with itself."""
    told = []
    for run in runs:
        for task, summary in run.judging.items():
            for metric in ("gpt_score", *facts.INTIMA_CLASSES):
                sd, with_it, without = (number(mapping(summary.get(name)).get(metric)) for name in _NOISE[:3])
                if None not in (sd, with_it, without):
                    name = f"{run.label}, {facts.group_title(task)}, {t(facts.metric_title(metric))}"
                    figures = {"sd": f"{sd:.3f}", "with_it": f"{with_it:.3f}", "without": f"{without:.3f}"}
                    told.append(t(_NOISE_TOLD, name=name, failed=summary.get("failed_repeats", 0), **figures))
    return told


def counted(counts: dict[str, float]) -> str:
    """Returns counts in words, the highest first."""
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{int(count)} × {t(name)}" for name, count in ranked if count)


def settings_table(runs: list[Run]) -> Table:
    """Returns the settings that shape the numbers, a column for each run, those of the answers first."""
    sections = [(t("The answers"), [answer_settings(run) for run in runs])]
    for benchmark, title in facts.TITLES.items():
        if any(run.tasks(benchmark) for run in runs):
            words = "Judging of {title}" if benchmark in facts.JUDGED else "Scoring of {title}"
            sections.append((t(words, title=title), [judge_settings(run, benchmark) for run in runs]))
    rows = []
    for title, settings in sections:
        rows.append(Row(title, (), "", None, "section"))
        differ = set(differing(settings))
        for name in _ordered({name for values in settings for name in values}):
            cells = tuple(text_cell(_short(values.get(name, DASH))) for values in settings)
            rows.append(Row(setting_name(name), cells, "", None, "differs" if name in differ else ""))
    head = (t("Setting"), *(run.label for run in runs))
    notes = (
        (t("Coloured, or marked *: the runs differ in this setting. –: the run stored no such setting."),)
        if runs[1:]
        else ()
    )
    return Table("settings", t("Settings that shape the numbers"), head, tuple(rows), notes)


def setting_name(name: str) -> str:
    """Returns the printed name of a setting; one without a name of its own keeps the run's."""
    return t(facts.SETTINGS[name]) if name in facts.SETTINGS else name


def differing(settings: list[dict[str, str]]) -> list[str]:
    """Returns the settings that shape the numbers and are not the same in all runs that have any."""
    known = [values for values in settings if values]
    if known and all(values.get("data_revision", "none") != "none" for values in known):
        # the commit of the data says more than where it came from
        known = [{k: v for k, v in values.items() if k not in ("source", "revision")} for values in known]
    names = _ordered({name for values in known for name in values})
    return [n for n in names if not facts.ASIDE.fullmatch(n) and len({values.get(n) for values in known}) > 1]


def answer_settings(run: Run) -> dict[str, str]:
    """Returns what the answers of a run were made with, as text; one that differs between tasks lists all values."""
    results = run.content
    config, values = mapping(results.get("config")), _Values()
    values.add("", {name: value for name, value in config.items() if name != "limit"})
    values.add("", {name: results.get(name) for name in _OF_RESULTS if name in results})
    values.add("", {"limit": run.limit, "written": run.written})
    values.add("judged_again", mapping(results.get("judged_again")))
    answers: dict[str, Any] = {}
    for benchmark in facts.TITLES:
        for task in run.tasks(benchmark):
            stored = mapping(mapping(results.get("configs")).get(task))
            summary, metadata = run.summary(task), mapping(stored.get("metadata"))
            made = mapping(metadata.get("made_with"))
            for name in _OF_CONFIG:
                if name in stored:
                    values.add("generation" if name == "generation_kwargs" else name, stored[name])
            values.add("process", mapping(summary.get("process") or made.get("process")))
            _add_up(answers, mapping(summary.get("answers") or made.get("answers")))
    values.add("answers", answers)
    return values.joined()


def judge_settings(run: Run, benchmark: str) -> dict[str, str]:
    """Returns how the answers to a benchmark were judged, as text, with the data they were made on."""
    values = _Values()
    for task in run.tasks(benchmark):
        summary = run.summary(task)
        values.add("", mapping(summary.get("settings")))
        values.add("", {name: value for name, value in summary.items() if name not in _ELSEWHERE})
    out = values.joined()
    if "dialect" in out:
        met = [t(meaning) for name, meaning in facts.DIALECT.items() if name in out["dialect"]]
        out["dialect"] = "; ".join(met) or (t("nothing") if out["dialect"] == t("none") else out["dialect"])
    answered = run.judges(benchmark)[1]
    return out | ({"answered": ", ".join(answered)} if answered else {})


def label_runs(runs: list[Run]) -> None:
    """Names each run by its model, and by the settings that differ where several share a model."""
    for run in runs:
        same = [other for other in runs if other.model == run.model]
        if len(same) < 2:
            continue
        stored = [_all_settings(other) for other in same]
        own = _all_settings(run)
        telling = [n for n in differing(stored) if n != "limit" or run.limit is not None]
        said = [f"{setting_name(name)}: {_short(own.get(name, t('none')), 32)}" for name in telling[:2]]
        run.label = f"{run.model} ({'; '.join(said) or run.written})"
    for index, run in enumerate(runs, 1):
        if [other.label for other in runs].count(run.label) > 1:
            run.label = f"{run.label} #{index}"


def _all_settings(run: Run) -> dict[str, str]:
    judging = [judge_settings(run, name) for name in reversed(facts.TITLES)]
    return {name: value for settings in (*judging, answer_settings(run)) for name, value in settings.items()}


class _Values:
    """Settings as they come, flattened: `add("a", {"b": 1})` is the setting a.b."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, None]] = {}

    def add(self, name: str, value: Any) -> None:
        if name.rpartition(".")[2] == "model_args" and isinstance(value, str):
            value = dict(part.partition("=")[::2] for part in value.split(",")) if "=" in value else value
        if isinstance(value, dict):
            for key, inner in value.items():
                self.add(f"{name}.{text(key)}" if name else text(key), inner)
            return
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        shown = t("none") if value in (None, [], {}, "") else t("yes") if value is True else shown
        shown = t("no") if value is False else text(shown)
        secret = name.rpartition(".")[2].lower()
        if (_HIDDEN & set(secret.split("_")) or secret.endswith("_token")) and not secret.endswith(
            ("_env", "_end_token")
        ):
            shown = t("(not shown)")
        self.found.setdefault(name, {})[shown] = None

    def joined(self) -> dict[str, str]:
        return {name: " / ".join(values) for name, values in self.found.items()}


def _add_up(sums: dict[str, Any], counts: dict[str, Any]) -> None:
    """Adds counts, some of them in dicts, to sums."""
    for name, count in counts.items():
        if isinstance(count, dict):
            _add_up(sums.setdefault(text(name), {}), count)
        elif (value := number(count)) is not None:
            sums[text(name)] = int(sums.get(text(name), 0) + value)


def _ordered(names: Iterable[str]) -> list[str]:
    """Returns settings in the order of facts.SETTINGS, a part of one beside it, the others by name."""
    order = list(facts.SETTINGS)

    def place(name: str) -> tuple[int, str]:
        known = next((stem for stem in (name, name.rpartition(".")[0]) if stem in facts.SETTINGS), None)
        return (order.index(known) if known else len(order), name)

    return sorted(names, key=place)


def _short(value: str, length: int = _LONG) -> str:
    return value if len(value) <= length else value[:length] + "…"
