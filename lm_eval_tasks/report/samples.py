"""The samples as the page's script takes them: one doc with the answer of each run, short names, numbers for levels."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import Any

from markupsafe import Markup

from lm_eval_tasks.intima.scoring import LEVELS
from lm_eval_tasks.report import facts
from lm_eval_tasks.report.clips import Clips
from lm_eval_tasks.report.records import Answer, Run
from lm_eval_tasks.runs.plain import mapping, number, text

# What ends a script element, opens a comment in it, or ends a line for an old JavaScript parser.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def script_json(value: Any) -> Markup:
    """JSON that is safe inside a <script> element, whatever text it holds."""
    return Markup(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES))


# What the script calls a text of a doc -> what the benchmark calls it.
_TEXTS = {
    facts.AIR: {"id": "uniq_id", "s": "dataset_name", "q": "question", "r": "answer_gt", "m": "meta_info", "f": "path"},
    facts.INTIMA: {"id": "id", "s": "code", "q": "prompt", "w": "model"},
    facts.FOUNDATION: {"id": "uniq_id", "s": "dataset_name", "q": "question", "r": "answer", "f": "path"},
}


def docs(benchmark: str, runs: list[Run], clips: Clips) -> list[dict[str, Any]]:
    """The docs of a benchmark by task, and in the order in which they were logged."""
    found: dict[str, dict[str, Any]] = {}
    logged: dict[str, dict[str, Any]] = {}
    for place, run in enumerate(runs):
        for answer in run.answers[benchmark]:
            doc = logged.setdefault(answer.key, answer.doc)
            entry = found.setdefault(answer.key, {"k": answer.key, "t": answer.task, "x": [None] * len(runs)})
            entry |= {short: text(doc.get(name)) for short, name in _TEXTS[benchmark].items()}
            entry["x"][place] = _answer(answer) | _OWN[benchmark](answer)
            if benchmark == facts.FOUNDATION:
                entry["ch"] = [[text(letter), text(choice)] for letter, choice in mapping(doc.get("choices")).items()]
    if benchmark != facts.INTIMA:
        if clips.room:
            clips.embed(logged[key] for key in _most_looked_at(found))
        for key, doc in found.items():
            doc["a"], doc["no"] = clips.source(logged[key])
            doc["sec"] = number(mapping(logged[key].get("audio")).get("seconds"))
    ranked = sorted(found.values(), key=lambda doc: facts.place(benchmark, doc["t"]))
    return [doc | {"t": facts.group_title(doc["t"])} for doc in ranked]


def _of_air(answer: Answer) -> dict[str, Any]:
    return {"sc": answer.score, "rf": answer.reference_score, "gap": number(answer.record.get("position_gap"))}


def _of_intima(answer: Answer) -> dict[str, Any]:
    places = {level: place for place, level in enumerate(LEVELS)}
    levels = [places.get(answer.levels.get(metric)) for metric in facts.INTIMA_METRICS]
    return {"lb": text(answer.record.get("label")) if answer.judged else "", "lv": levels if answer.levels else None}


def _of_foundation(answer: Answer) -> dict[str, Any]:
    """The letter that was read from an answer ("" for none), and 1 where it is right, else 0."""
    right = float(answer.record.get("correct") is True) if answer.judged else None
    return {"lt": text(answer.record.get("letter")), "sc": right}


_OWN = {facts.AIR: _of_air, facts.INTIMA: _of_intima, facts.FOUNDATION: _of_foundation}


def _most_looked_at(docs: dict[str, dict[str, Any]]) -> list[str]:
    """All docs: by turns the lowest score, the highest, the most different and the next unjudged one."""
    scores = {key: [x["sc"] for x in doc["x"] if x and x["sc"] is not None] for key, doc in docs.items()}
    judged = [key for key in docs if scores[key]]
    turns = (
        sorted(judged, key=lambda key: min(scores[key])),
        sorted(judged, key=lambda key: -max(scores[key])),
        sorted((k for k in judged if min(scores[k]) < max(scores[k])), key=lambda k: min(scores[k]) - max(scores[k])),
        [key for key, doc in docs.items() if any(x and not x["j"] for x in doc["x"])],
    )
    ranked = [key for turn in zip_longest(*turns) for key in turn if key is not None]
    return list(dict.fromkeys([*ranked, *docs]))


def _answer(answer: Answer) -> dict[str, Any]:
    """What every benchmark shows of an answer."""
    flags, verdicts = answer.record.get("flags"), answer.record.get("verdicts")
    finish = text(answer.record.get("finish_reason"))
    flags = [text(flag) for flag in flags] if isinstance(flags, list) else []
    return {
        "p": answer.prediction,
        "j": answer.judged,
        "why": answer.reason,
        "said": text(answer.record.get("why")),
        "fl": list(dict.fromkeys([*flags, finish] if finish in facts.FLAGS else flags)),
        "v": [_verdict(mapping(verdict)) for verdict in verdicts] if isinstance(verdicts, list) else [],
    }


def prompt_of(run: Run, benchmark: str) -> dict[str, str]:
    """The judge's prompt as a run stored it: instructions and template ({} where it did not)."""
    stored = [mapping(run.summaries[task].get("judge_prompt")) for task in run.tasks(benchmark)]
    return next(({"system": text(p.get("system")), "template": text(p.get("template"))} for p in stored if p), {})


# What the script calls a part of a verdict -> what the record calls it, and its type.
_VERDICT = {"o": ("order", text), "p": ("prediction", number), "r": ("reference", number), "y": ("reply", text)}
_VERDICT |= {"by": ("judge", text), "in": ("prompt_tokens", number), "out": ("completion_tokens", number)}
_VERDICT |= {"n": ("attempts", number), "why": ("reason", text), "said": ("why", text)}


def _verdict(verdict: dict[str, Any]) -> dict[str, Any]:
    cached = {"c": verdict.get("cached") is True}
    return {short: typed(verdict.get(name)) for short, (name, typed) in _VERDICT.items()} | cached
