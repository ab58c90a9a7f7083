"""Data sets from the Hugging Face hub, through its own client and cache."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def snapshot(repo: str, revision: str | None, patterns: list[str]) -> Path:
    """The local copy of a data set's files that match the patterns, brought up to date.

    What has arrived is kept, and each revision has a folder of its own. Where the hub can't be reached it is the copy
    that an earlier download of the same revision left.

    Args:
        repo: the data set's id.
        revision: branch, tag or commit; None for the newest state.
        patterns: as ``fnmatch`` has them, for paths inside the data set.

    Raises:
        Exception: one of the client's dozen kinds.
    """
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(repo, repo_type="dataset", revision=revision, allow_patterns=patterns))


def folder_listing(repo: str, revision: str, folder: str) -> list[str]:
    """The paths of the files that a data set has in one folder now; none where it has no such folder.

    Raises:
        Exception: the hub does not answer; one of the client's dozen kinds.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
    from huggingface_hub.hf_api import RepoFile

    try:
        found = [*HfApi().list_repo_tree(repo, folder, repo_type="dataset", revision=revision)]
    except LocalEntryNotFoundError:
        raise
    except EntryNotFoundError:
        return []
    return [entry.path for entry in found if isinstance(entry, RepoFile)]


def folder_size(repo: str, revision: str | None, parent: str, prefixes: tuple[str, ...]) -> int:
    """Bytes of all files in the folders of ``parent`` whose names begin with one of the prefixes.

    Raises:
        Exception: the hub does not answer; one of the client's dozen kinds.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    def listed(path: str) -> list[Any]:
        return [*HfApi().list_repo_tree(repo, path, repo_type="dataset", revision=revision)]

    chosen = [entry.path for entry in listed(parent) if entry.path.rpartition("/")[2].startswith(prefixes)]
    return sum(entry.size for path in chosen for entry in listed(path) if isinstance(entry, RepoFile))


def commit_of(root: Path) -> str | None:
    """The commit that a downloaded copy is of, which its folder tells; None for any other folder."""
    known = root.parent.name == "snapshots" and re.fullmatch("[0-9a-f]{40}", root.name)
    return root.name if known else None
