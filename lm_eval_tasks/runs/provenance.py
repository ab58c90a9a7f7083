"""Where numbers come from: this process and its versions, and what the answers say of themselves. Pure functions."""

from __future__ import annotations

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from lm_eval_tasks import __version__
from lm_eval_tasks.runs.answers import Answer, Unanswered
from lm_eval_tasks.settings import ENV_PREFIX, OPTIONS

_PACKAGES = ("lm_eval", "openai", "soundfile", "soxr", "numpy")


def of_process() -> dict[str, Any]:
    """This process.

    Returns:
        ``version`` of the package, ``commit`` (of a checkout, with ``+changes`` where files differ from it; else None),
        ``versions`` (package or ``python`` -> version, None where it is not installed) and ``environment``
        (``LM_EVAL_TASKS_...`` -> value; not of a name that is no option's, nor of what should name a key's variable and
        names none: either may be a key).
    """
    names = sorted(name for name in os.environ if name.startswith(ENV_PREFIX))
    return {
        "version": __version__,
        "commit": commit(Path(__file__).parents[2]),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "environment": {name: _shown(name) for name in names},
    }


def of_answers(instances: Iterable[Any]) -> dict[str, Any]:
    """What the answers to some requests say of themselves.

    Args:
        instances: lm-eval's, with ``resps``; an answer that is a plain string says nothing.

    Returns:
        ``finish`` (why the model stopped -> answers; ``not told`` where nobody said, ``no answer`` where there is
        none), ``cut`` (answers that are not whole), ``prompt_tokens``, ``completion_tokens``, ``without`` (what the
        server refused -> answers asked for without it), ``models`` (name as served -> answers). Numbers and dicts of
        numbers only, so that those of several processes can be added up.
    """
    answers = [answer for instance in instances for answer in instance.resps]
    told = [answer for answer in answers if isinstance(answer, Answer)]
    return {
        "finish": dict(Counter(map(_finish, answers))),
        "cut": sum(answer.cut for answer in told),
        "prompt_tokens": sum(answer.prompt_tokens for answer in told),
        "completion_tokens": sum(answer.completion_tokens for answer in told),
        "without": dict(Counter(field for answer in told for field in getattr(answer, "without", ()))),
        "models": dict(Counter(answer.model for answer in told if answer.model)),
    }


def _finish(answer: str) -> str:
    if isinstance(answer, Unanswered):
        return "no answer"
    return (answer.finish if isinstance(answer, Answer) else "") or "not told"


@lru_cache
def commit(folder: Path) -> str | None:
    """The commit that a checkout of this package stands at, or None where the folder is none or there is no git."""
    if not (folder / ".git").exists():
        return None

    def git(*words: str) -> str:
        command = ["git", "-C", str(folder), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "lm_eval_tasks")
        return git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _shown(name: str) -> str:
    """The value of a variable, where it cannot be a key."""
    key, value = name.removeprefix(ENV_PREFIX).lower(), os.environ[name]
    if key not in OPTIONS:
        return "(no option)"
    return "(not shown)" if key == "judge_api_key_env" and value not in os.environ else value


@lru_cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
