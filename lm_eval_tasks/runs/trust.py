"""What a stored run may not decide for the user who judges it again: where keys go, which files are read or written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lm_eval_tasks.settings import JudgeSettings, read_settings


class NotTrusted(ValueError):
    """A stored run asks for what only its user may decide; the text names it."""


ASKED_FOR = ("judge_base_url", "judge_api_key_env", "judge_cache", "judge_prompt", "judge_extra_body")
"""Settings that reach for the user's keys, files or network."""


def check_settings(stored: dict[str, Any], benchmarks: set[str], changes: dict[str, Any], place: Path) -> None:
    """Refuse what a folder asks for, where this user's own command or environment does not say the same.

    Args:
        stored: the settings of the run, those of one benchmark under its name.
        benchmarks: of the run.
        changes: the settings of this command.
        place: what the user named.

    Raises:
        NotTrusted: names the settings and their values in one line.
    """
    asked: dict[str, Any] = {}
    for benchmark in sorted(benchmarks):
        own = read_settings(benchmark, changes)
        found = {**stored, **(stored[benchmark] if isinstance(stored.get(benchmark), dict) else {})}
        changed = {*changes, *(changes[benchmark] if isinstance(changes.get(benchmark), dict) else ())}
        for key in ASKED_FOR:
            value = found.get(key)
            if value is None or key in changed or _same(key, value, own):
                continue
            asked[key] = value
    if asked:
        shown = ", ".join(f"{key}={json.dumps(value, default=str)[:200]}" for key, value in asked.items())
        raise NotTrusted(
            f"{place} asks for {shown}. A folder may come from anybody, so that is not done unasked: say the same with "
            "--metadata, or add --trust if the run is your own."
        )


def _same(key: str, value: Any, own: JudgeSettings) -> bool:
    """Whether a stored value is what this user's settings say anyway, or harmless."""
    if value is False or value == "false":  # no cache
        return True
    mine = getattr(own, key, None)
    if key == "judge_cache" and value is JudgeSettings.model_fields[key].default:  # the user's own file
        return True
    if key == "judge_base_url" and isinstance(value, str):
        value = value.rstrip("/").removesuffix("/chat/completions")
    return value == mine or str(value) == str(mine)
