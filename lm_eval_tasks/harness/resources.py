"""What a run needs of this machine, looked at before anything is paid for."""

from __future__ import annotations

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None

_BESIDES = 128
"""Files that are open besides connections: data, caches, libraries, logs, and clips that are being read."""


def make_room_for(calls: int) -> None:
    """Raise the limit of open files, of which each call in flight takes one.

    Raises:
        ValueError: this user may not open as many; says what to set.
    """
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = calls + _BESIDES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ValueError(
            f"{calls} calls at once need about {needed} open files, and this user may open {hard} (ulimit -n): lower "
            "judge_concurrency and the model's num_concurrent, or have the limit raised."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
