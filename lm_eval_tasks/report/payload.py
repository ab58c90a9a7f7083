"""The samples as the page's script takes them: one doc with the answer of each run, short names, numbers for levels."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup

from lm_eval_tasks.intima.scoring import LEVELS
from lm_eval_tasks.report import facts
from lm_eval_tasks.report.audio import Clips
from lm_eval_tasks.report.records import Answer, Run, mapping, number, text

# What ends a script element, opens a comment in it, or ends a line for an old JavaScript parser.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def script_json(value: Any) -> Markup:
    """Returns JSON that is safe inside a <script> element, whatever text it holds."""
    return Markup(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES))


def air_docs(runs: list[Run], clips: Clips) -> list[dict[str, Any]]:
    """Returns the docs of AIR-Bench-Chat by task, and in the order in which they were logged."""
    docs: dict[str, dict[str, Any]] = {}
    for place, run in enumerate(runs):
        for answer in run.answers.get(facts.AIR, []):
            doc = answer.doc
            if answer.key not in docs:
                docs[answer.key] = {
                    "k": answer.key,
                    "id": text(doc.get("uniq_id")),
                    "t": text(doc.get("task_name")),
                    "s": text(doc.get("dataset_name")),
                    "q": text(doc.get("question")),
                    "r": text(doc.get("answer_gt")),
                    "m": text(doc.get("meta_info")),
                    "f": text(doc.get("path")),
                    "sec": number(mapping(doc.get("audio")).get("seconds")),
                    "a": "",
                    "no": "",
                    "x": [None] * len(runs),
                }
            entry = docs[answer.key]
            if not entry["a"]:
                entry["a"], entry["no"] = clips.source(doc)
            entry["x"][place] = _answer(answer) | {
                "sc": answer.score,
                "rf": answer.reference_score,
                "gap": number(answer.record.get("position_gap")),
            }
    order = list(facts.AIR_TASKS)
    return sorted(docs.values(), key=lambda doc: order.index(doc["t"]) if doc["t"] in order else len(order))


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
    flags = answer.record.get("flags")
    verdicts = answer.record.get("verdicts")
    return {
        "p": answer.prediction,
        "j": answer.judged,
        "why": answer.reason,
        "fl": [text(flag) for flag in flags] if isinstance(flags, list) else [],
        "v": [_verdict(mapping(verdict)) for verdict in verdicts] if isinstance(verdicts, list) else [],
    }


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
    }
