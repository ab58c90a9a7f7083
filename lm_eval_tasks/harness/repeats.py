"""Several answers to each doc (``repeats`` in a task's YAML), all of which are to be judged."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from lm_eval_tasks.harness.requests import texts_left

_DEFAULT = [{"filter": [{"function": "take_first"}]}]


def check_repeats(config: Any) -> None:
    """Refuse, before anything is generated, filters that throw away answers nobody looked at.

    A filter that chooses by looking at all answers (``majority_vote``, or one of the user's own) may leave one of them.

    Args:
        config: lm-eval's ``TaskConfig``.

    Raises:
        ValueError: says what to set.
    """
    kept = max(_kept(one["filter"], config.repeats) for one in config.filter_list or _DEFAULT)
    if kept < config.repeats:
        raise ValueError(
            f"{config.task}: repeats: {config.repeats} asks the model for {config.repeats} answers to each doc, and "
            f"the task's filter passes {kept} on to the judge. To have all of them judged, set filter_list: [{{name: "
            f"judge, filter: [{{function: take_first_k, k: {config.repeats}}}]}}] in the task's YAML; for one answer, "
            "leave repeats out."
        )


def check_filters(filters: Sequence[Any], request: Any) -> None:
    """Refuse, before anything is generated, filters that leave something else than texts.

    Args:
        filters: lm-eval's ``FilterEnsemble`` objects.
        request: one of the task's requests, without answers.

    Raises:
        ValueError: says what to set.
    """
    for one in filters:
        trial = copy.copy(request)
        trial.filtered_resps, trial.resps = {}, ["an answer " * request.repeats] * request.repeats
        try:
            one.apply([trial])
        except Exception:  # a filter of the user's may need another answer than this
            continue
        left = texts_left(trial.filtered_resps[one.name], request.repeats)
        if not all(text is None or isinstance(text, str) for text in left):
            raise ValueError(
                f"{request.task_name}: the filter {one.name!r} does not leave a text of each answer but "
                f"{type(left[0]).__name__} ({str(left[0])[:60]}). Filters that go through a list of answers, such as "
                "regex, stand before take_first in filter_list."
            )


def _kept(filters: list[dict[str, Any]], answers: int) -> int:
    """How many of a doc's answers have a part in what the filters leave."""
    for one in filters:
        if one["function"] == "majority_vote":
            break
        if one["function"] in ("take_first", "take_first_k"):
            answers = min(answers, one.get("k", 1))
    return answers
