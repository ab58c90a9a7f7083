"""Fetches AIR-Bench-Chat from a hub through the hub's own client: the metadata and the folders asked for, no more.

Both clients keep what has arrived, go on from there the next time, and keep revisions apart.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from lm_eval_tasks.audio.clips import BadAudio, find_audio
from lm_eval_tasks.data.huggingface import snapshot
from lm_eval_tasks.errors import DataError

log = logging.getLogger(f"lm_eval.{__name__}")

METADATA = "Chat/Chat_meta.json"
REPOSITORY = {"modelscope": "evalscope/AIR-Bench-Dataset", "huggingface": "qyang1021/AIR-Bench-Dataset"}
"""Each source's id of the data set."""

_out_of_reach: set[str] = set()
"""Sources that did not answer in this process: eight tasks need not wait for the same time-outs."""


def download(source: str, revision: str | None, task_names: Iterable[str]) -> Path:
    """The local copy of a hub's data set, brought up to date with what these tasks need.

    Args:
        source: ``modelscope``, ``huggingface``, or ``auto`` for ModelScope where its package is installed.
        revision: branch, tag or commit; None for the hub's newest state.
        task_names: whose folders are needed.

    Returns:
        The folder that holds ``Chat/``. Without a network it is the copy of an earlier download.

    Raises:
        DataError: the hub cannot deliver and there is no such copy; says what to do.
    """
    if source == "auto":
        source = "modelscope" if find_spec("modelscope") else "huggingface"
    names = list(task_names)
    fetch = _from_modelscope if source == "modelscope" else _from_huggingface
    asked = f"{REPOSITORY[source]} on {source}"
    if revision:
        undo = '{"air_bench_chat": {"revision": null}} in --metadata undoes it'
        asked += f", revision {revision!r} (--model_args revision=... counts too; {undo})"
    other = next(name for name in REPOSITORY if name != source)
    remedy = f"Try again, which goes on with what has arrived; or try source={other}; or pass local_path."
    try:
        root = fetch(REPOSITORY[source], revision, names, [METADATA, *(f"Chat/{name}_*/*" for name in names)])
    except ModuleNotFoundError as error:
        if error.name != "modelscope":
            raise DataError(f"{asked}: its client lacks a package ({error}). {remedy}") from error
        raise DataError(
            "source=modelscope needs the package modelscope: pip install 'lm-eval-tasks[modelscope]'"
        ) from None
    except Exception as error:  # the two clients raise a dozen kinds, all of which mean the same here
        cause = " ".join(str(error).split())[:300]
        raise DataError(f"{asked} could not be fetched: {type(error).__name__}: {cause}. {remedy}") from error
    if root is None or not (root / METADATA).is_file():
        raise DataError(
            f"{asked} holds no {METADATA}: the revision may not exist, or its list of files failed. {remedy}"
        )
    return root


def _from_huggingface(repo: str, revision: str | None, _: Sequence[str], patterns: list[str]) -> Path:
    return snapshot(repo, revision, patterns)


def _from_modelscope(repo: str, revision: str | None, names: Sequence[str], patterns: list[str]) -> Path | None:
    """As ``_from_huggingface``; the client itself does not fall back on its cache, so that is done here."""
    from modelscope import dataset_snapshot_download

    earlier = _earlier_copy(repo, revision, names) if repo in _out_of_reach else None
    if earlier:
        return earlier
    chosen = {"revision": revision} if revision else {}  # some clients take None for the name of a revision
    try:
        found = dataset_snapshot_download(repo, allow_file_pattern=patterns, **chosen)
    except Exception as error:
        earlier = _earlier_copy(repo, revision, names) if _is_unreachable(error) else None
        if earlier is None:
            raise
        _out_of_reach.add(repo)
        log.warning("modelscope cannot be reached (%s); using the earlier download %s", type(error).__name__, earlier)
        return earlier
    root = Path(found) if found else None  # clients before 1.38 may return None where they could not list the files
    if root and revision and root.name != revision:  # their folder is the same for all revisions, whatever it holds
        raise ValueError(f"{root} may hold another revision: get modelscope>=1.38 and move that folder away")
    return root


def _is_unreachable(error: BaseException | None) -> bool:
    from requests.exceptions import ConnectionError, Timeout

    while error is not None and not isinstance(error, (ConnectionError, Timeout)):
        error = error.__cause__
    return error is not None


def _earlier_copy(repo: str, revision: str | None, names: Sequence[str]) -> Path | None:
    """What was fetched before, if it has every clip of these tasks."""
    from modelscope import snapshot_download

    try:
        found = snapshot_download(repo_id=repo, repo_type="dataset", revision=revision, local_files_only=True)
        root = Path(found)
        records = json.loads((root / METADATA).read_text(encoding="utf-8-sig"))
        for record in records:
            if record["task_name"] in names:
                find_audio(root / "Chat", f"{record['task_name']}_{record['dataset_name']}", record["path"])
    except (OSError, ValueError, KeyError, TypeError, BadAudio):
        return None
    except Exception as error:  # the client's own kinds: there is no copy
        log.debug("no earlier copy: %s", error)
        return None
    return root if revision is None or root.name == revision else None  # older clients keep one revision only
