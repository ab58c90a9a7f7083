"""Fetches a track of AIR-Bench from a hub through the hub's own client: its records and the folders asked for, no more.

Both clients keep what has arrived, go on from there the next time, and keep revisions apart. What a client returns
where its hub is out of reach may hold any part of the data: it is used only if every clip is there that the hub has.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from lm_eval_tasks.data.clips import clip_folder, find_clip
from lm_eval_tasks.data.huggingface import folder_listing, snapshot
from lm_eval_tasks.data.records import Track, read_records, some
from lm_eval_tasks.errors import BadAudio, DataError
from lm_eval_tasks.settings import TrackSettings

log = logging.getLogger(f"lm_eval.{__name__}")

REPOSITORY = {"modelscope": "evalscope/AIR-Bench-Dataset", "huggingface": "qyang1021/AIR-Bench-Dataset"}
"""Each source's id of the data set."""

_out_of_reach: set[str] = set()
"""Sources that did not answer in this process: eight tasks need not wait for the same time-outs."""


class NotFetched(DataError):
    """A copy lacks clips, and the hub does not say that it has none of them."""


def fetch(track: Track, settings: TrackSettings, task_names: Iterable[str]) -> Path:
    """The folder that holds the track's: the local one, or the hub's copy with only the folders of these tasks.

    What a hub has is brought up to date first; without a network it is the copy of an earlier download, if that is
    whole.

    Raises:
        DataError: there is no such folder, or the hub cannot deliver; says what to do.
    """
    if settings.local_path is None:
        return _download(track, _hub(settings.source), settings.revision, list(task_names))
    given = track.sample if settings.local_path == "sample" else settings.local_path
    root = Path(given).expanduser().absolute()
    if root.name == track.folder and (root / track.metadata).exists():
        root = root.parent
    if not (root / track.file).exists():
        raise DataError(
            f"local_path={given}: no {track.file} in {root}. Pass the folder that contains "
            f"{track.folder}/, or leave local_path out to download the data."
        )
    return root


def size(track: Track, source: str, revision: str | None, task_names: Iterable[str]) -> int | None:
    """Bytes of the clips that a hub has of some tasks; None where it does not tell, as ModelScope's client doesn't."""
    if _hub(source) != "huggingface":
        return None
    with suppress(Exception):  # whatever the client raises: a size that is not known stops nobody
        repo, starts = REPOSITORY["huggingface"], tuple(f"{track.folder}/{name}_" for name in task_names)
        folders = [one.path for one in folder_listing(repo, revision, track.folder) if one.path.startswith(starts)]
        entries = [entry for folder in folders for entry in folder_listing(repo, revision, folder)]
        return sum(getattr(entry, "size", 0) for entry in entries) or None  # a folder has none
    return None


def _hub(source: str) -> str:
    """The hub itself; ``auto`` is ModelScope where its package is installed."""
    if source != "auto":
        return source
    return "modelscope" if find_spec("modelscope") else "huggingface"


def _download(track: Track, source: str, revision: str | None, names: list[str]) -> Path:
    fetch = _from_modelscope if source == "modelscope" else _from_huggingface
    asked = f"{REPOSITORY[source]} on {source}"
    if revision:
        undo = f'{{"{track.name}": {{"revision": null}}}} in --metadata undoes it'
        asked += f", revision {revision!r} (--model_args revision=... counts too; {undo})"
    other = next(name for name in REPOSITORY if name != source)
    command = f"lm-eval-tasks fetch {track.name} --source {source} --tasks {','.join(names)}"
    command += f" --revision {revision}" if revision else ""
    remedy = f"Try again with `{command}`, which keeps what has arrived, or set source={other} or local_path."
    patterns = [track.file, *(f"{track.folder}/{name}_*/*" for name in names)]
    try:
        return fetch(track, REPOSITORY[source], revision, names, patterns)
    except ModuleNotFoundError as error:
        if error.name != "modelscope":
            raise DataError(f"{asked}: its client lacks a package ({error}). {remedy}") from error
        raise DataError(
            "source=modelscope needs the package modelscope: pip install 'lm-eval-tasks[modelscope]'"
        ) from None
    except NotFetched as error:
        raise DataError(f"{asked}: not fetched yet: {error}. {remedy}") from None
    except DataError:
        raise
    except Exception as error:  # the two clients raise a dozen kinds, all of which mean the same here
        cause = " ".join(str(error).split())[:300]
        raise DataError(f"{asked} could not be fetched: {type(error).__name__}: {cause}. {remedy}") from error


def _from_huggingface(track: Track, repo: str, revision: str | None, names: Sequence[str], patterns: list[str]) -> Path:
    root = _holding(track, snapshot(repo, revision, patterns))
    lacking = _lacking(track, root, names)
    if not lacking.keys() <= _noted(track, root):
        # the client returns what it has where the hub is out of reach or busy: ask the hub for what it has itself
        for folder in dict.fromkeys(clip.rpartition("/")[0] for clip in lacking):
            try:
                listed = folder_listing(repo, root.name, f"{track.folder}/{folder}")
            except Exception as error:
                raise NotFetched(f"{_told(lacking)}, and {repo} does not answer ({type(error).__name__})") from None
            if any(hasattr(entry, "size") and not (root / entry.path).exists() for entry in listed):
                raise NotFetched(_told(lacking))
        _note(track, root, lacking)
    return root


def _from_modelscope(track: Track, repo: str, revision: str | None, names: Sequence[str], patterns: list[str]) -> Path:
    """As ``_from_huggingface``; this client fails where the hub is out of reach, so its copy is asked for here."""
    from modelscope import dataset_snapshot_download

    earlier = _earlier_copy(track, repo, revision, names) if repo in _out_of_reach else None
    if earlier:
        return earlier
    chosen = {"revision": revision} if revision else {}  # some clients take None for the name of a revision
    try:
        found = dataset_snapshot_download(repo, allow_file_pattern=patterns, **chosen)
    except Exception as error:
        earlier = _earlier_copy(track, repo, revision, names) if _is_unreachable(error) else None
        if earlier is None:
            raise
        _out_of_reach.add(repo)
        log.warning("modelscope cannot be reached (%s); using the earlier download %s", type(error).__name__, earlier)
        return earlier
    root = _holding(track, Path(found) if found else None)  # old clients return None where they could not list files
    if revision and root.name != revision:  # their folder is the same for all revisions, whatever it holds
        raise ValueError(f"{root} may hold another revision: get modelscope>=1.38 and move that folder away")
    lacking = _lacking(track, root, names)
    if lacking:
        _note(track, root, lacking)
    return root


def _holding(track: Track, root: Path | None) -> Path:
    if root is None or not (root / track.file).is_file():
        raise ValueError(f"it holds no {track.file}: the revision may not exist, or its list of files failed")
    return root


def _is_unreachable(error: BaseException | None) -> bool:
    from requests.exceptions import ConnectionError, Timeout

    while error is not None and not isinstance(error, (ConnectionError, Timeout)):
        error = error.__cause__
    return error is not None


def _earlier_copy(track: Track, repo: str, revision: str | None, names: Sequence[str]) -> Path | None:
    """What was fetched before, if it has every clip of these tasks that the hub has.

    Raises:
        NotFetched: it lacks some.
    """
    from modelscope import snapshot_download

    try:
        found = snapshot_download(repo_id=repo, repo_type="dataset", revision=revision, local_files_only=True)
        root = _holding(track, Path(found))
    except Exception as error:  # the client's own kinds: there is no copy
        log.debug("no earlier copy: %s", error)
        return None
    if revision is not None and root.name != revision:  # older clients keep one revision only
        return None
    lacking = _lacking(track, root, names)
    if not lacking.keys() <= _noted(track, root):
        raise NotFetched(_told(lacking))
    return root


def _lacking(track: Track, root: Path, names: Sequence[str]) -> dict[str, str]:
    """Clips of these tasks that the metadata names and that are not there: ``folder/file`` -> task."""
    records, lacking = read_records(root / track.file, track), {}
    for task in names:
        for record in records.by_task.get(task, ()):
            try:
                find_clip(root, track, record)
            except BadAudio:
                lacking[f"{clip_folder(record)}/{record['path']}"] = task
            except ValueError:  # its path leaves the folder: no hub can have it
                continue
    return lacking


def _told(lacking: dict[str, str]) -> str:
    return f"{len(lacking)} clips are not here ({some(lacking)})"


def _notes(track: Track, root: Path) -> Path:
    return root / f".{track.folder}-not-on-the-hub.json"


def _noted(track: Track, root: Path) -> set[str]:
    """Clips that the hub was found not to have when it could be asked last."""
    with suppress(OSError, ValueError):
        return set(json.loads(_notes(track, root).read_text(encoding="utf-8")))
    return set()


def _note(track: Track, root: Path, lacking: Iterable[str]) -> None:
    """Remember beside the copy what the hub lacks: without a network the copy then still counts as whole."""
    with suppress(OSError):  # it may be another user's
        _notes(track, root).write_text(json.dumps(sorted({*_noted(track, root), *lacking})), encoding="utf-8")
