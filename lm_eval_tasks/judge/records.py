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
    fresh = [verdict for verdict in verdicts if not verdict["cached"]]
    spent = {"prompt_tokens": "prompt_tokens", "completion_tokens": "completion_tokens", "calls": "attempts"}
    return {
        "docs": len(records),
        "judged": sum(record["judged"] for record in records),
        "unjudged": dict(Counter(record["reason"] for record in records if not record["judged"])),
        "judge_answered": dict(Counter(v["judge"] for v in verdicts if v["judge"] and not v["reason"])),
        **{name: sum(verdict[field] for verdict in fresh) for name, field in spent.items()},
        **{f"{name}_all_attempts": sum(verdict[field] for verdict in verdicts) for name, field in spent.items()},
        "from_cache": len(verdicts) - len(fresh),
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
