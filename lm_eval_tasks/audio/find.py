"""Finding a clip under the name that the metadata gives it."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

from lm_eval_tasks.errors import BadAudio


def find_audio(root: str | Path, folder: str, *names: str) -> str:
    """Where a clip lies: exactly there, or under the same name in another case or Unicode form.

    Args:
        root: the data folder, which no name may leave.
        folder: folder below ``root``.
        names: paths below that folder that the clip may have, the likeliest first.

    Raises:
        ValueError: a path leaves the data folder.
        BadAudio: no such file, or two that differ from the name in nothing but case.
    """
    within, cause = os.path.join(os.path.abspath(root), ""), ""
    for name in names:
        exact = os.path.normpath(os.path.join(within, folder, name))
        if "\0" in name or not exact.startswith(within) or exact == within or os.path.isabs(name):
            raise ValueError(f"path {name!r} in folder {folder!r} leaves the data folder {root}")
        if os.path.lexists(exact):  # unlike exists(), false for a name that no file system takes
            return exact
        there, asked = os.path.split(exact)
        listed = os.listdir(there) if os.path.isdir(there) else []
        alike = [other for other in listed if _folded(other) == _folded(asked)]
        if len(alike) == 1:
            return os.path.join(there, alike[0])
        cause = cause or (f"ambiguous: {', '.join(sorted(alike))}" if alike else "")
    raise BadAudio(cause or "missing")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
