"""How the judged tasks of a command ended: its exit status."""

from __future__ import annotations

ALL_JUDGED, NOTHING_JUDGED, SOME_UNJUDGED = 0, 1, 3

_counts: dict[str, tuple[int, int]] = {}


def begin() -> None:
    """Forget the tasks of an earlier command in this process."""
    _counts.clear()


def note(task: str, answers: int, judged: int) -> None:
    """Count a task whose judging has ended."""
    _counts[task] = answers, judged


def status() -> int:
    """0 where all answers are judged, or none was to be; 3 where some are not; 1 where none is."""
    answers, judged = (sum(counts) for counts in zip(*_counts.values(), strict=True)) if _counts else (0, 0)
    return ALL_JUDGED if judged == answers else SOME_UNJUDGED if judged else NOTHING_JUDGED
