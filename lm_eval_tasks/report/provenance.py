"""What made the numbers: how many answers were judged, at what cost, and every setting that a run stored."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from lm_eval_tasks.report import facts, stats
from lm_eval_tasks.report.records import WAITING, Run
from lm_eval_tasks.report.table import DASH, Row, Table, count_cell, text_cell
from lm_eval_tasks.report.texts import notes, t
from lm_eval_tasks.runs.made import made_with
from lm_eval_tasks.runs.plain import mapping, number, text

_COUNTS = ("docs", "judged", "calls", "from_cache", "prompt_tokens", "completion_tokens")
_OTHER_NAMES = {"unjudged": "unanswered"}
"""What a task without a judge calls a count."""
_LONG = 300
# Parts of a judging summary that other tables or the settings of the answers show; all others are settings of judging.
_ELSEWHERE = {*_COUNTS, "benchmark", "settings", "unjudged", "flags", "judge_answered", "left_out", "absent", "answers"}
_ELSEWHERE |= {"chance", "scored", "no_letter", "official_no_letter", "unanswered", "cut"}
_ELSEWHERE |= {"process", "levels", "stderr_by_code", *(f"{name}_all_attempts" for name in _COUNTS)}
_NOISE = ("judge_sd", "stderr_with_judge_noise", "stderr_without_judge_noise", "stderr_of_judge_noise")
_ELSEWHERE |= {*_NOISE, "failed_repeats"}
_OF_CONFIG = {"generation_kwargs": "generation", "num_fewshot": "num_fewshot", "repeats": "repeats"}
_OF_RESULTS = ("system_instruction", "chat_template_sha", "fewshot_as_multiturn", "lm_eval_version", "git_hash")
_HIDDEN = {"key", "apikey", "token", "secret", "password", "authorization", "auth", "header", "headers"}


def totals(run: Run, benchmark: str) -> dict[str, Any]:
    """Sums the judging summaries of a run's tasks; a count that one of them lacks is None.

    Calls and tokens are those over all attempts of a run where a task's summary says so, else of its last process.
    """
    out: dict[str, Any] = {"unjudged": Counter(), "flags": Counter()}
    counts: dict[str, list[float | None]] = {name: [] for name in (*_COUNTS, "cut")}
    for summary in filter(None, map(run.summaries.get, run.tasks(benchmark))):
        for name in _COUNTS:
            counts[name].append(number(summary.get(f"{name}_all_attempts", summary.get(name))))
        counts["cut"].append(number(mapping(summary.get("answers")).get("cut")))
        for name in ("unjudged", "flags"):
            for key, count in mapping(summary.get(name) or summary.get(_OTHER_NAMES.get(name))).items():
                out[name][text(key)] += number(count) or 0
    return out | {name: stats.total(each) for name, each in counts.items()}


def judging_table(runs: list[Run]) -> Table:
    """A row for each run and benchmark: docs, judged, unjudged with reasons, flags, calls and tokens."""
    rows = []
    for index, run in enumerate(runs):
        for benchmark in filter(run.has, facts.JUDGED):
            sums = totals(run, benchmark)
            if run.waits(benchmark):
                count = len(run.answers[benchmark])
                sums |= dict.fromkeys(_COUNTS, 0) | {"docs": count, "unjudged": {t(WAITING): count}}
            unjudged = sum(sums["unjudged"].values()) if sums["judged"] is not None else None
            flags = {t(facts.FLAGS.get(name, name)): count for name, count in sums["flags"].items()}
            cells = (
                text_cell(facts.TITLES[benchmark]),
                *map(count_cell, (sums["docs"], sums["judged"], unjudged)),
                text_cell(counted(sums["unjudged"]) or t("none")),
                text_cell(counted(flags) or t("none")),
                *(count_cell(sums[name]) for name in _COUNTS[2:]),
            )
            rows.append(Row(run.label, cells, series=index))
    head = ("Run", "Benchmark", "Docs", "Judged", "Unjudged", "Reasons", "Flagged answers", "Calls", "From cache")
    head += ("Tokens read by the judge", "Tokens in its replies")
    return Table("judging", t("Judged and unjudged"), tuple(map(t, head)), rows, (*notes("judging"), *_noise(runs)))


def _noise(runs: list[Run]) -> list[str]:
    """A sentence for each task whose questions were put several times: how far the judge disagrees with itself."""
    told = []
    for run in runs:
        for task, summary in run.summaries.items():
            for metric in ("gpt_score", *facts.INTIMA_CLASSES):
                sd, with_it, without = (number(mapping(summary.get(name)).get(metric)) for name in _NOISE[:3])
                if None not in (sd, with_it, without):
                    name = f"{run.label}, {facts.group_title(task)}, {t(facts.METRIC_TITLES[metric])}"
                    figures = {"sd": f"{sd:.3f}", "with_it": f"{with_it:.3f}", "without": f"{without:.3f}"}
                    told += notes("judging_noise", name=name, failed=summary.get("failed_repeats", 0), **figures)
    return told


def counted(counts: dict[str, float]) -> str:
    """Counts in words, the highest first."""
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{int(count)} × {t(name)}" for name, count in ranked if count)


def sections(runs: list[Run]) -> dict[str, list[dict[str, str]]]:
    """The settings of each run: "" -> those of the answers; a benchmark that any holds -> those of judging it."""
    there = [benchmark for benchmark in facts.TITLES if any(run.has(benchmark) for run in runs)]
    return {"": [answer_settings(run) for run in runs]} | {
        benchmark: [judge_settings(run, benchmark) for run in runs] for benchmark in there
    }


def settings_table(runs: list[Run]) -> Table:
    """The settings that shape the numbers, a column for each run, those of the answers first."""
    rows = []
    for part, settings in sections(runs).items():
        words = "Judging of {title}" if part in facts.JUDGED else "Scoring of {title}" if part else "The answers"
        rows.append(Row(t(words, title=facts.TITLES.get(part)), (), kind="section"))
        differ = set(differing(settings))
        for name in _ordered({name for values in settings for name in values}):
            cells = tuple(text_cell(_short(values.get(name, DASH))) for values in settings)
            rows.append(Row(setting_name(name), cells, kind="differs" if name in differ else ""))
    head = (t("Setting"), *(run.label for run in runs))
    return Table("settings", t("Settings that shape the numbers"), head, rows, notes("settings") if runs[1:] else ())


def setting_name(name: str) -> str:
    """The printed name of a setting; one without a name of its own keeps the run's."""
    return t(facts.SETTINGS[name]) if name in facts.SETTINGS else name


def differing(settings: list[dict[str, str]]) -> list[str]:
    """The settings that shape the numbers and are not the same in all runs that have any."""
    known = [values for values in settings if values]
    if known and all(values.get("data_revision", t("none")) != t("none") for values in known):
        # the commit of the data says more than where it came from
        known = [{k: v for k, v in values.items() if k not in ("source", "revision")} for values in known]
    names = _ordered({name for values in known for name in values})
    return [n for n in names if not facts.ASIDE.fullmatch(n) and len({values.get(n) for values in known}) > 1]


def answer_settings(run: Run) -> dict[str, str]:
    """What the answers of a run were made with, as text; one that differs between tasks lists all values."""
    results, answers = run.files.results, Counter()
    parts: list[tuple[str, Any]] = [("", {"limit": run.limit, "written": run.written})]
    parts += [(name, value) for name, value in mapping(results.get("config")).items() if name != "limit"]
    parts += [(name, results[name]) for name in _OF_RESULTS if name in results]
    parts += [("judged_again", mapping(results.get("judged_again")))]
    for stored in map(run.files.config, run.summaries):
        parts += [(printed, stored[name]) for name, printed in _OF_CONFIG.items() if name in stored]
    made = made_with(results)
    parts += [("process", process) for process in made["process"].values()]
    for name, count in (leaf for counts in made["answers"].values() for leaf in _leaves("answers", counts)):
        if (value := number(count)) is not None:
            answers[name] = int(answers[name] + value)
    return _joined([*parts, ("", answers)])


def judge_settings(run: Run, benchmark: str) -> dict[str, str]:
    """How the answers to a benchmark were judged, as text, with the data they were made on."""
    summaries = [run.summaries[task] for task in run.tasks(benchmark)]
    parts = [("", mapping(summary.get("settings"))) for summary in summaries]
    parts += [("", {n: value for n, value in summary.items() if n not in _ELSEWHERE}) for summary in summaries]
    out = _joined(parts)
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
        own, *stored = (
            {name: value for [one] in reversed(sections([each]).values()) for name, value in one.items()}
            for each in (run, *same)
        )
        telling = [n for n in differing(stored) if n != "limit" or run.limit is not None]
        said = [f"{setting_name(name)}: {_short(own.get(name, t('none')), 32)}" for name in telling[:2]]
        run.label = f"{run.model} ({'; '.join(said) or run.written})"
    for index, run in enumerate(runs, 1):
        if [other.label for other in runs].count(run.label) > 1:
            run.label = f"{run.label} #{index}"


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Flattens settings: "a" and {"b": 1} is the setting a.b."""
    if name.rpartition(".")[2] == "model_args" and isinstance(value, str) and "=" in value:
        value = dict(part.partition("=")[::2] for part in re.split(r",(?=\w+=)", value))
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{name}.{text(key)}" if name else text(key), inner)
    else:
        yield name, value


def _joined(parts: list[tuple[str, Any]]) -> dict[str, str]:
    """Settings as text, all values of one that was stored several times; secrets are not shown."""
    found: dict[str, dict[str, None]] = {}
    for name, value in (leaf for part in parts for leaf in _leaves(*part)):
        if _HIDDEN & set(re.split(r"[\W_]+", name.lower())) and not name.endswith(("_env", "_end_token")):
            shown = t("(not shown)")
        elif value in (None, [], ""):
            shown = t("none")
        elif isinstance(value, bool):
            shown = t("yes") if value else t("no")
        else:
            shown = text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
        found.setdefault(name, {})[shown] = None
    return {name: " / ".join(values) for name, values in found.items()}


def _ordered(names: Iterable[str]) -> list[str]:
    """Settings in the order of facts.SETTINGS, a part of one beside it, the others by name."""
    places = {name: place for place, name in enumerate(facts.SETTINGS)}
    return sorted(names, key=lambda n: (places.get(n, places.get(n.rpartition(".")[0], len(places))), n))


def _short(value: str, length: int = _LONG) -> str:
    return value if len(value) <= length else value[:length] + "…"
