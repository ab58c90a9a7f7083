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


def folder_listing(repo: str, revision: str | None, folder: str) -> list[Any]:
    """The files and folders that a data set has in one folder now, as the client tells them (files have a ``size``).

    Raises:
        Exception: the hub does not answer; one of the client's dozen kinds.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return [*HfApi().list_repo_tree(repo, folder, repo_type="dataset", revision=revision)]
    except LocalEntryNotFoundError:
        raise
    except EntryNotFoundError:
        return []


def commit_of(root: Path) -> str | None:
    """The commit that a downloaded copy is of, which its folder tells; None for any other folder."""
    known = root.parent.name == "snapshots" and re.fullmatch("[0-9a-f]{40}", root.name)
    return root.name if known else None
