"""The check before a run: one small question that demands a verdict, so that nothing is paid for in vain."""

from __future__ import annotations

import logging
from datetime import date, datetime, timezone
from typing import Any

from lm_eval_tasks.judge.question import Question, Unjudged

log = logging.getLogger(f"lm_eval.{__name__}")

PATIENCE = 60.0
"""Seconds for which a judge that is busy may keep a run from beginning, unless it asks for longer itself."""

SOON = 60
"""Days before a model's shutdown from which the log warns."""

_NOTHING_YET = "Nothing has been generated yet."


async def check(judge: Any, trial: Question) -> None:
    """Put a trial question to a judge.

    Args:
        judge: a ``Judge``.
        trial: as the benchmark asks it.

    Raises:
        ValueError: the judge cannot be used, or gives no verdict; says what to set.
    """
    settings, client = judge.settings, judge.client
    client.begin()
    patience, client.pace.patience = client.pace.patience, min(PATIENCE, client.pace.patience)
    tries = 1 + min(1, settings.judge_max_retries)
    try:
        outcome = await judge.asker.ask(trial, tries=tries)
    finally:
        client.pace.patience = patience
    stopped = client.stopped
    client.begin()
    who = client.server.who
    if judge.budget.reached is not None:
        raise ValueError(f"{judge.budget.reached} by the trial question alone: raise it. {_NOTHING_YET}")
    if not isinstance(outcome, Unjudged):
        await _warn_of_shutdown(judge)
        return
    if stopped is not None and client.last is not None and client.last.status == 429:
        log.warning("%s is there but busy (%s); going on.", who, client.last.explained())
    elif stopped is not None:
        raise ValueError(f"{stopped.rstrip('.')}. {_NOTHING_YET}")
    elif not client.pace.proven and client.last is not None:
        raise ValueError(f"{who}, on a trial call: {client.last.explained().rstrip('.')}. {_NOTHING_YET}")
    elif settings.judge_check == "warn":
        log.warning("%s answered a trial question without a verdict (%s): %r", who, outcome.reason, outcome.reply[:200])
    else:
        said = f"Its reply: {outcome.reply[:200]!r}. " if outcome.reply else ""
        raise ValueError(
            f"{who} gave no verdict on a trial question in {outcome.attempts} tries: {outcome.reason}. {said}"
            f"Use another judge_model, or judge_check=warn to go on all the same. {_NOTHING_YET}"
        )


async def _warn_of_shutdown(judge: Any) -> None:
    """Say when the server lists a day near at hand on which the judge's model will be shut down."""
    asked, today = judge.settings.judge_model, datetime.now(timezone.utc).date()
    for model in await judge.client.models():
        day = _as_day(model.get("shutdown_date"))
        if model.get("id") == asked and day and (left := (day - today).days) <= SOON:
            log.warning(
                "%s: %r will be shut down on %s, in %d days; later runs will need another judge, whose scores are not "
                "comparable.",
                *(judge.client.server.who, asked, day, left),
            )


def _as_day(value: Any) -> date | None:
    """A day from an ISO date or a Unix time; None for anything else."""
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, timezone.utc).date()
        return date.fromisoformat(str(value)[:10])
    except (ValueError, OverflowError, OSError):
        return None
