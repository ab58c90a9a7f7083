"""What every model of the pack does with requests and answers, and what is said of requests that have no answer."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lm_eval.api.instance import Instance

from lm_eval_tasks.data.records import describe
from lm_eval_tasks.errors import ModelUnavailable
from lm_eval_tasks.harness import compat
from lm_eval_tasks.runs.answers import Answer, Unanswered, mark_unanswered

log = logging.getLogger(f"lm_eval.{__name__}")

_AGAIN = "Run the same command again to ask for these only (with --use_cache, which keeps all other answers)."


@contextmanager
def chats(requests: list[Instance]) -> Iterator[None]:
    """Requests that a model answers in this block, all of which must be chats.

    Those who take answers at once are told when no more will come, because of an error or Ctrl-C.
    """
    for request in requests:
        if not isinstance(request.args[0], compat.JsonChatStr):
            raise ValueError(f"{request.task_name}: this model takes chats; add --apply_chat_template.")
    try:
        yield
    except BaseException:
        for tell in {getattr(request, "on_break_off", None) for request in requests} - {None}:
            tell()
        raise


def keep(model: Any, request: Instance, answer: Answer) -> None:
    """Store an answer for ``--use_cache`` and hand it on, the moment that it is there."""
    compat.keep_answer(model, request, answer)
    hand_over = getattr(request, "on_answer", None)
    if hand_over:
        hand_over(request, answer)


def name_of(request: Instance) -> str:
    """Task and doc."""
    return f"{request.task_name} doc {request.doc_id}"


def conclude(who: str, requests: list[Instance], answers: list[str], cause: str, may_be_all: bool) -> None:
    """Say what has no answer, if anything has none, and write the reason into the request.

    Args:
        who: the model in a few words.
        requests: all.
        answers: in their order; ``Unanswered`` where there is none.
        cause: a sentence on it with a space before it, or "".
        may_be_all: whether a run may go on without any of them, because it has other answers.

    Raises:
        ModelUnavailable: nothing is answered, or a task needs all of its answers.
    """
    missing: dict[str, list[str]] = defaultdict(list)
    needed = False
    for request, answer in zip(requests, answers, strict=True):
        if isinstance(answer, Unanswered):
            missing[answer.reason].append(name_of(request))
            needed |= not getattr(request, "may_stay_unanswered", False)
            mark_unanswered(request, answer)
    count, total = sum(map(len, missing.values())), len(requests)
    if not count:
        return
    told = f"{describe(missing)}.{cause}"
    if count == total and not may_be_all:
        raise ModelUnavailable(f"{who} answered none of {total} requests: {told}")
    if needed:
        raise ModelUnavailable(f"{count} of {total} requests have no answer: {told} {_AGAIN}")
    log.error("%d of %d REQUESTS HAVE NO ANSWER: %s %s", count, total, told, _AGAIN)
