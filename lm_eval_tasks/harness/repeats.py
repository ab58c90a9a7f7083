"""Several answers to each doc (``repeats`` in a task's YAML), all of which are to be judged."""

from __future__ import annotations

from typing import Any

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


def _kept(filters: list[dict[str, Any]], answers: int) -> int:
    """How many of a doc's answers have a part in what the filters leave."""
    for one in filters:
        if one["function"] == "majority_vote":
            break
        if one["function"] in ("take_first", "take_first_k"):
            answers = min(answers, one.get("k", 1))
    return answers
