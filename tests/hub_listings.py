"""How the hubs list the files of a data set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

LARGE = (".wav", ".mp3")
"""Files that are kept apart, in a store of large files."""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_sha(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def hf_entry(path: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": git_sha(content)}
    if path.lower().endswith(LARGE):
        entry["lfs"] = {"oid": sha256(content), "size": len(content), "pointerSize": 130}
    return entry


def _folders(files: dict[str, bytes]) -> list[str]:
    return sorted({str(parent) for path in files for parent in PurePosixPath(path).parents if str(parent) != "."})


def hf_folders(files: dict[str, bytes], wanted: Callable[[str], bool]) -> list[dict[str, Any]]:
    oid = "0" * 40
    return [{"type": "directory", "path": path, "size": 0, "oid": oid} for path in _folders(files) if wanted(path)]


def modelscope_entries(files: dict[str, bytes], root: str) -> list[dict[str, Any]]:
    entries = [{"Path": path, "Name": PurePosixPath(path).name, "Type": "tree", "Size": 0} for path in _folders(files)]
    for path, content in files.items():
        about = {"Path": path, "Name": PurePosixPath(path).name, "Type": "blob", "Size": len(content)}
        entries.append(about | {"Sha256": sha256(content), "Revision": git_sha(content)})
    return [entry for entry in entries if not root or entry["Path"].startswith(f"{root}/")]
