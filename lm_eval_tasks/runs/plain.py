"""Values of a file that anybody may have written, taken as what they should be or as nothing."""

from __future__ import annotations

import json
import math
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
