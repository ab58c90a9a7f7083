"""Values of a file that anybody may have written, taken as what they should be or as nothing."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any


def number(value: Any) -> float | None:
    """A finite number as float, and None for anything else (lm-eval writes "N/A" where it has none)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def text(value: Any) -> str:
    """A string as it is, nothing for None, and the usual form of anything else."""
    if value is None:
        return ""
    # A lone surrogate can be read from JSON, but not written as UTF-8.
    return (value if isinstance(value, str) else str(value)).encode("utf-8", "replace").decode("utf-8")


def mapping(value: Any) -> dict[str, Any]:
    """A dict as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def from_json(content: str | bytes) -> Any:
    """What JSON holds.

    Raises:
        ValueError: it is not UTF-8, no JSON, or nested too deeply to be read.
    """
    try:
        return json.loads(content if isinstance(content, str) else content.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def check_readable(path: Path) -> None:
    """Refuse what may never end, or waits for somebody to write: only files and folders are read.

    Raises:
        ValueError: the path leads to a pipe, a socket or a device.
        OSError: it cannot be looked at.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ValueError(f"{path} is neither a file nor a folder (a pipe, a socket or a device), so it is not read.")
