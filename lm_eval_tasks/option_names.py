"""Names that a user may have meant as options: what is nearly one of ours, or holds a key, is refused."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Mapping
from typing import Any

ENV_PREFIX = "LM_EVAL_TASKS_"
"""``LM_EVAL_TASKS_JUDGE_MODEL=...`` sets the default of ``judge_model``, and so on for every key."""

_SECRETS = ("judge_api_key", "judge_key", "judge_token")

Options = Mapping[str, Collection[str]]
"""Benchmark -> the names of its options."""


def refuse_secrets(given: dict[str, Any], options: Options) -> None:
    """Refuse a key among metadata; a ValueError says where it belongs."""
    named = [own for own in map(given.get, options) if isinstance(own, dict)]  # of benchmarks that don't run, too
    for key in _SECRETS:
        if any(key in found for found in (given, *named)):
            raise ValueError(
                f"{key} cannot be passed as metadata, because lm-eval writes that to the results file. Put the key "
                "into the environment variable JUDGE_API_KEY (or into one that judge_api_key_env names)."
            )


def refuse_unknown_keys(given: dict[str, Any], options: Options) -> None:
    """Refuse what looks like ours and is not. Other keys are the model's: ``--model_args`` land in the same dict."""
    every = _all(options)
    for key in given:
        if isinstance(key, str) and key not in every and key not in options:
            near = nearest(key, [*every, *options], 0.85)
            if near or key.lower().startswith("judge_"):
                raise ValueError(f"--metadata: {key!r} is not an option{_meant(near or nearest(key, every, 0.6))}")
    for benchmark, names in options.items():  # under a benchmark's own name nothing but options can be meant
        own = given.get(benchmark)
        for key in own if isinstance(own, dict) else ():
            if key not in names:
                near = nearest(str(key), names, 0.6) or nearest(str(key), every, 0.6)
                raise ValueError(f"{benchmark}: {key!r} is not one of its options{_meant(near)}")


def refuse_unknown_variables(options: Options) -> None:
    """Refuse a variable with our prefix that sets nothing."""
    every = _all(options)
    for name in os.environ:
        key = name.removeprefix(ENV_PREFIX).lower()
        if name.startswith(ENV_PREFIX) and key not in every:
            near = nearest(key, every, 0.6)
            raise ValueError(
                f"The environment variable {name} is not an option{_meant(near and ENV_PREFIX + near.upper())}"
            )


def _all(options: Options) -> list[str]:
    return sorted(set().union(*options.values()))


def nearest(key: str, names: Collection[str], cutoff: float) -> str | None:
    """The name that a key is most like, where it is at least as much like it as ``cutoff`` (0 to 1); else None."""
    return next(iter(difflib.get_close_matches(key.lower(), names, n=1, cutoff=cutoff)), None)


def _meant(near: str | None) -> str:
    return f"; did you mean {near!r}?" if near else " (see the README's table)."
