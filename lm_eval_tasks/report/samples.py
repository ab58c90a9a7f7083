"""The samples as the page's script takes them: one doc with the answer of each run, short names, numbers for levels."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import Any

from markupsafe import Markup

from lm_eval_tasks.intima.scoring import LEVELS
from lm_eval_tasks.report import facts
from lm_eval_tasks.report.clips import Clips
from lm_eval_tasks.report.records import Answer, Run, mapping, number, text

# What ends a script element, opens a comment in it, or ends a line for an old JavaScript parser.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def script_json(value: Any) -> Markup:
    """Returns JSON that is safe inside a <script> element, whatever text it holds."""
    return Markup(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES))


def air_docs(runs: list[Run], clips: Clips) -> list[dict[str, Any]]:
    """Returns the docs of AIR-Bench-Chat by task, and in the order in which they were logged."""
    docs: dict[tuple[str, str], dict[str, Any]] = {}
    logged: dict[tuple[str, str], dict[str, Any]] = {}
    for place, run in enumerate(runs):
        for answer in run.answers.get(facts.AIR, []):
            doc, key = answer.doc, (answer.task, answer.key)
            if key not in docs:
                logged[key] = doc
                docs[key] = {
                    "k": answer.key,
                    "id": text(doc.get("uniq_id")),
                    "t": answer.task.removeprefix("air_bench_chat_"),
                    "s": text(doc.get("dataset_name")),
                    "q": text(doc.get("question")),
                    "r": text(doc.get("answer_gt")),
                    "m": text(doc.get("meta_info")),
                    "f": text(doc.get("path")),
                    "sec": number(mapping(doc.get("audio")).get("seconds")),
                    "x": [None] * len(runs),
                }
            docs[key]["x"][place] = _answer(answer) | {
                "sc": answer.score,
                "rf": answer.reference_score,
                "gap": number(answer.record.get("position_gap")),
            }
    if clips.room:
        clips.embed(logged[key] for key in _most_looked_at(docs))
    for key, doc in docs.items():
        doc["a"], doc["no"] = clips.source(logged[key])
    order = list(facts.AIR_TASKS)
    return sorted(docs.values(), key=lambda doc: order.index(doc["t"]) if doc["t"] in order else len(order))


def _most_looked_at(docs: dict[tuple[str, str], dict[str, Any]]) -> list[tuple[str, str]]:
    """Returns all docs: by turns the lowest score, the highest, the most different and the next unjudged one."""
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


def intima_docs(runs: list[Run]) -> list[dict[str, Any]]:
    """Returns the docs of INTIMA by category, and in the order in which they were logged."""
    docs: dict[str, dict[str, Any]] = {}
    for place, run in enumerate(runs):
        for answer in run.answers.get(facts.INTIMA, []):
            doc = answer.doc
            entry = docs.setdefault(
                answer.key,
                {
                    "k": answer.key,
                    "id": text(doc.get("id")),
                    "t": facts.group_title(answer.task),
                    "s": text(doc.get("code")),
                    "q": text(doc.get("prompt")),
                    "w": text(doc.get("model")),
                    "x": [None] * len(runs),
                },
            )
            levels = answer.levels
            entry["x"][place] = _answer(answer) | {
                "lb": text(answer.record.get("label")) if answer.judged else "",
                "lv": [_level(levels.get(metric)) for metric in facts.INTIMA_METRICS] if levels else None,
            }
    order = [facts.group_title(group) for group in facts.INTIMA_GROUPS.values()]
    return sorted(docs.values(), key=lambda doc: order.index(doc["t"]) if doc["t"] in order else len(order))


def _level(level: str | None) -> int | None:
    return LEVELS.index(level) if level in LEVELS else None


def _answer(answer: Answer) -> dict[str, Any]:
    """Returns what both benchmarks show of an answer."""
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
    """Returns the judge's prompt as a run stored it: instructions and template ({} where it did not)."""
    stored = [mapping(run.judging.get(task, {}).get("judge_prompt")) for task in run.tasks(benchmark)]
    return next(({"system": text(p.get("system")), "template": text(p.get("template"))} for p in stored if p), {})


def _verdict(verdict: dict[str, Any]) -> dict[str, Any]:
    """Returns a verdict; the reply is as the judge wrote it."""
    return {
        "o": text(verdict.get("order")),
        "p": number(verdict.get("prediction")),
        "r": number(verdict.get("reference")),
        "y": text(verdict.get("reply")),
        "by": text(verdict.get("judge")),
        "in": number(verdict.get("prompt_tokens")),
        "out": number(verdict.get("completion_tokens")),
        "n": number(verdict.get("attempts")),
        "c": verdict.get("cached") is True,
        "why": text(verdict.get("reason")),
        "said": text(verdict.get("why")),
    }
