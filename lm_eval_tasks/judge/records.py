"""Judgement records as they are stored, and how judging went in counts: for the log and the results file. No I/O."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any


def as_records(filtered: str | Iterable[Any]) -> list[dict[str, Any]]:
    """The judgement records behind one value of ``filtered_resps``; several where the task repeats."""
    found = json.loads(filtered) if isinstance(filtered, str) else filtered
    return found if isinstance(found, list) else [found]


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Count judgement records.

    Returns:
        ``docs``, ``judged``, ``calls``, ``from_cache`` (verdicts) and the tokens as numbers, these of this process and,
        as ``..._all_attempts``, with those of earlier processes for the verdicts that are stored; ``unjudged`` (reason
        -> answers), ``judge_answered`` (model as the server named it -> verdicts) and ``flags`` (flag -> answers) as
        dicts.
    """
    verdicts = [verdict for record in records for verdict in record["verdicts"]]
    return {
        "docs": len(records),
        "judged": sum(record["judged"] for record in records),
        "unjudged": dict(Counter(record["reason"] for record in records if not record["judged"])),
        "judge_answered": dict(Counter(v["judge"] for v in verdicts if v["judge"] and not v["reason"])),
        "prompt_tokens": sum(verdict["prompt_tokens"] for verdict in verdicts if not verdict["cached"]),
        "completion_tokens": sum(verdict["completion_tokens"] for verdict in verdicts if not verdict["cached"]),
        "calls": sum(verdict["attempts"] for verdict in verdicts if not verdict["cached"]),
        "prompt_tokens_all_attempts": sum(verdict["prompt_tokens"] for verdict in verdicts),
        "completion_tokens_all_attempts": sum(verdict["completion_tokens"] for verdict in verdicts),
        "calls_all_attempts": sum(verdict["attempts"] for verdict in verdicts),
        "from_cache": sum(bool(verdict["cached"]) for verdict in verdicts),
        "flags": dict(Counter(flag for record in records for flag in record["flags"])),
    }


def describe(summary: dict[str, Any]) -> str:
    """The counts in one line."""
    reasons = "".join(f", {reason}: {count}" for reason, count in summary["unjudged"].items())
    return (
        f"{summary['judged']} judged, {sum(summary['unjudged'].values())} unjudged{reasons}; "
        f"{summary['calls']} calls with {summary['prompt_tokens']} prompt and {summary['completion_tokens']} "
        f"completion tokens, {summary['from_cache']} verdicts from the cache"
    )
