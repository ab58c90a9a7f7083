"""What is said of requests that have no answer, whichever model was asked."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from lm_eval.api.instance import Instance

from lm_eval_tasks.data.records import some
from lm_eval_tasks.errors import ModelUnavailable
from lm_eval_tasks.runs.answers import Unanswered

log = logging.getLogger(f"lm_eval.{__name__}")

AGAIN = "Run the same command again to ask for these only (with --use_cache, which keeps all other answers)."


@contextmanager
def break_off_told(requests: list[Instance]) -> Iterator[None]:
    """Tell those who take answers at once when no more will come, because of an error or Ctrl-C in this block."""
    try:
        yield
    except BaseException:
        for tell in {getattr(request, "on_break_off", None) for request in requests} - {None}:
            tell()
        raise


def reasons(requests: list[Instance], answers: list[str]) -> dict[str, list[Instance]]:
    """Reason -> the requests that have no answer for it."""
    found: dict[str, list[Instance]] = defaultdict(list)
    for request, answer in zip(requests, answers, strict=True):
        if isinstance(answer, Unanswered):
            found[answer.reason].append(request)
    return found


def described(missing: dict[str, list[Instance]]) -> str:
    """The reasons, each with its count and some of its docs."""
    return "; ".join(f"{reason}: {len(those)} ({some(map(name_of, those))})" for reason, those in missing.items())


def name_of(request: Instance) -> str:
    """Task and doc."""
    return f"{request.task_name} doc {request.doc_id}"


def go_on_without(missing: dict[str, list[Instance]], total: int, why: str) -> None:
    """Say what is missing, if anything is.

    Args:
        missing: see ``reasons``.
        total: how many requests there were.
        why: a sentence on the cause with a space before it, or "".

    Raises:
        ModelUnavailable: a task needs all of its answers.
    """
    if not missing:
        return
    requests = [request for those in missing.values() for request in those]
    said = f"{described(missing)}.{why} {AGAIN}"
    if not all(getattr(request, "may_stay_unanswered", False) for request in requests):
        raise ModelUnavailable(f"{len(requests)} of {total} requests have no answer: {said}")
    log.error("%d of %d REQUESTS HAVE NO ANSWER: %s", len(requests), total, said)
