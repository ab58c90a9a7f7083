"""``lm-eval-tasks rejudge``: the answers of a run judged again, or for the first time.

lm-eval runs with a model that replays the stored answers, so that tables and files are lm-eval's own. It writes into a
folder beside the output; there its files are completed with what the answers were made with, and moved into place as
the last step, so that no results are left that tell something else.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lm_eval.tasks import TaskManager

from lm_eval_tasks import INCLUDE_PATH
from lm_eval_tasks.airbench_chat.scoring import CATEGORY
from lm_eval_tasks.commands.run import besides_the_pack
from lm_eval_tasks.commands.run import main as run_lm_eval
from lm_eval_tasks.harness.compat import key_values
from lm_eval_tasks.runs.files import as_name
from lm_eval_tasks.runs.made import complete, complete_sample
from lm_eval_tasks.runs.plain import from_json
from lm_eval_tasks.runs.reader import read
from lm_eval_tasks.runs.stored import DATA_SETTINGS, StoredRun, load_run
from lm_eval_tasks.runs.trust import check_settings
from lm_eval_tasks.runs.waiting import folder_of_answers
from lm_eval_tasks.settings import ENV_PREFIX, check_names, read_settings, with_changes

_EXAMPLE = """\
examples:
  lm-eval-tasks rejudge out                              what is unjudged
  lm-eval-tasks rejudge out --metadata judge_batch=true  the same, at half the price
  lm-eval-tasks rejudge out --metadata judge_model=my-judge judge_repeats=3 judge_temperature=1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLE
    parser.add_argument("run_dir", metavar="RUN_DIR", help="the run's --output_path, its results file, or kept answers")
    add_options_of_judging(
        parser,
        every="ask for every verdict again (default: keep those of the run)",
        metadata="settings that differ from the run's, as KEY=VALUE or one JSON object",
        output="where the new results go (default: beside RUN_DIR, with -rejudged and the judge's name added; for "
        "kept answers: in the current folder)",
    )
    parser.add_argument(
        "--include_path", action="append", default=[], help="folder of your own task files, if the run used one"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="use the judge's address, key variable, cache, prompt file and extra body that RUN_DIR names",
    )
    parser.set_defaults(handler=main)


def add_options_of_judging(parser: argparse.ArgumentParser, every: str, metadata: str, output: str) -> None:
    """Add ``--all``, ``--metadata`` and ``--output_path`` with these helps."""
    parser.add_argument("--all", action="store_true", help=every)
    settings = {"type": _setting, "nargs": "+", "default": [], "metavar": "KEY=VALUE"}
    parser.add_argument("--metadata", action="extend", help=metadata, **settings)
    parser.add_argument("--output_path", help=output)


def _setting(word: str) -> str:
    if "=" not in word and word.lstrip()[:1] != "{":
        raise argparse.ArgumentTypeError(f"{word!r}: must be KEY=VALUE; what is to be judged goes before --metadata")
    return word


def main(args: argparse.Namespace) -> int:
    """Judge the answers of a run; returns the exit status.

    Raises:
        ValueError: the run cannot be judged again, or asks for what only the user may decide.
    """
    changes = changes_of(args.metadata)
    check_names(changes)
    _refuse_data_settings(changes)
    where = Path(args.run_dir).absolute()
    stored = load_run(where)
    benchmarks = {stored.files.benchmarks[task] for task in stored.samples}
    if not (args.trust or stored.folder.resolve().is_relative_to(folder_of_answers().resolve())):
        check_settings(stored.settings(), benchmarks, changes, where)
    settings = with_changes(stored.settings(), changes)
    metadata = {**settings, "replay": str(where), "replay_all": args.all}
    names = _names(stored, metadata)
    _check_known(names, args.include_path)
    output = Path(args.output_path).absolute() if args.output_path else _new_output(stored, where, settings)
    told = {"source": str(where), "all": args.all, "answers": _which(stored)}
    with _without_data_variables(stored):
        return judge_stored(stored, names, metadata, output, told, args.include_path)


def judge_stored(
    stored: StoredRun,
    names: list[str],
    metadata: dict[str, Any],
    output: Path,
    told: dict[str, Any],
    include_path: Sequence[str] = (),
) -> int:
    """Judge stored answers by a run of lm-eval, and put its results in place.

    Args:
        stored: the answers; ``metadata["replay"]`` names them for the tasks.
        names: tasks and groups to ask lm-eval for.
        metadata: settings.
        output: where the results go.
        told: what the results say of this judging, besides who judged.
        include_path: folders of the user's own tasks.

    Returns:
        Exit status.
    """
    model = {"model": stored.model.lstrip(".") or "model", "run_dir": metadata["replay"]}
    command = ["--model", "replay-answers", "--model_args", json.dumps(model)]
    command += ["--tasks", ",".join(names), "--metadata", json.dumps(metadata)]
    command += [part for path in include_path for part in ("--include_path", path)]
    output.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.parent))
    try:
        status = run_lm_eval([*command, "--output_path", str(aside / output.name), "--log_samples"])
        results_file = _complete(aside, stored, {"judges": _judges(metadata, stored), **told})
        for file in sorted(filter(Path.is_file, aside.rglob("*")), key=lambda file: file == results_file):
            place = output.parent / file.relative_to(aside)  # results last, when their samples are there
            place.parent.mkdir(parents=True, exist_ok=True)
            file.replace(place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    print(f"The results are in {output}")
    return status


def _complete(aside: Path, stored: StoredRun, judged_again: dict[str, Any]) -> Path:
    """Put what belongs to the answers into the new files; returns the results file.

    Raises:
        OSError: lm-eval could not write its results (it says so in its log and goes on).
    """
    try:
        inside = next(aside.iterdir(), aside)
        files = read(inside if inside.is_dir() else aside)
    except ValueError:
        raise OSError("lm_eval wrote no results; its log says why. The verdicts are in the cache.") from None
    date = datetime.fromtimestamp(files.results["date"], timezone.utc).isoformat(timespec="seconds")
    results = complete(files.results, stored.results, {"date": date, **judged_again})
    for task, file in files.samples_files.items():
        # in the order of the replayed docs, which is that of the stored samples; doc_id is their place there
        with file.open(encoding="utf-8") as lines:
            samples = [
                complete_sample(one, stored.samples[task][one["doc_id"]].logged) for one in map(from_json, lines)
            ]
        with file.open("w", encoding="utf-8") as whole:
            whole.writelines(json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples)
    files.results_file.write_text(json.dumps(results, indent=2, ensure_ascii=False), encoding="utf-8")
    return files.results_file


def _which(stored: StoredRun) -> str:
    """Which answers were judged, in words."""
    docs = f"{sum(map(len, stored.samples.values()))} docs"
    if stored.part:
        rank, ranks = stored.part
        return f"{docs} of rank {rank} of {ranks}; those of the other ranks are not here"
    if stored.missing:
        return f"{docs}; without {', '.join(stored.missing)}"
    return docs if stored.finished else f"{docs}, kept aside by a run that did not end"


def _judges(settings: dict[str, Any], stored: StoredRun) -> dict[str, str]:
    """Benchmark -> the judge that is asked."""
    benchmarks = {stored.files.benchmarks[task] for task in stored.samples}
    return {benchmark: read_settings(benchmark, settings).judge_model for benchmark in sorted(benchmarks)}


def _new_output(stored: StoredRun, where: Path, settings: dict[str, Any]) -> Path:
    """Beside the run, or for kept answers, which lie in a cache, in the user's folder."""
    folder = where.parent if where.is_file() else where
    start = folder if stored.finished else Path.cwd() / as_name(stored.model)
    base = re.sub("-rejudged-.+", "", start.name) if "judged_again" in stored.results else start.name
    judges = "+".join(dict.fromkeys(_judges(settings, stored).values()))
    return free(start.with_name(f"{base}-rejudged-{as_name(judges)}"))


def free(path: Path) -> Path:
    """The path, or the first one with a number behind it that is not there yet."""
    others = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(found for found in itertools.chain([path], others) if not found.exists())


def _names(stored: StoredRun, metadata: dict[str, Any]) -> list[str]:
    """What to ask lm_eval for. Kept answers know no groups: the pack's tasks are put into theirs."""
    names = stored.top_level()
    if stored.finished:
        return names
    lack = f"the answers of {', '.join(stored.missing)}" if stored.missing else None
    if stored.part:
        rank, ranks = stored.part
        lack = f"the answers of the other ranks (it is of rank {rank} of {ranks}, each with docs of its own)"
    if lack:
        print(
            f"lm-eval-tasks: {stored.folder} lacks {lack}. The other tasks are judged one by one: an average without "
            "these would not be the run's.",
            file=sys.stderr,
        )
        return names
    air_bench = [task for task in CATEGORY if f"air_bench_chat_{task}" in names]
    if air_bench:
        metadata["tasks"] = air_bench
    groups = {f"air_bench_chat_{task}": "air_bench_chat" for task in air_bench}
    groups |= {name: "intima" for name in names if name.startswith("intima_")}
    return list(dict.fromkeys(groups.get(name, name) for name in names))


def _check_known(names: list[str], folders: list[str]) -> None:
    """Refuse a run of tasks that no folder defines."""
    known = TaskManager(include_path=[*besides_the_pack(folders), str(INCLUDE_PATH)], include_defaults=False).task_index
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"{', '.join(unknown)}: no such task in this pack. Name the folder of its YAML with --include_path."
        )


def changes_of(words: list[str]) -> dict[str, Any]:
    """Settings from words in the forms that lm_eval's own --metadata has."""
    changes: dict[str, Any] = {}
    for word in words:
        try:
            found = json.loads(word) if word.lstrip().startswith("{") else key_values(word)
        except ValueError:
            raise ValueError(
                f'--metadata {word!r}: must be key=value, or a JSON object such as \'{{"judge_model": "my-judge"}}\''
            ) from None
        changes |= found
    return changes


def _refuse_data_settings(changes: dict[str, Any]) -> None:
    """Refuse what would be written down as true of answers that were made otherwise."""
    named = [own for own in changes.values() if isinstance(own, dict)]
    for key in DATA_SETTINGS:
        if any(key in found for found in (changes, *named)):
            raise ValueError(f"{key} belongs to the answers or to the data of the run; rejudge cannot change it")


@contextmanager
def _without_data_variables(stored: StoredRun) -> Iterator[None]:
    """Hide variables of this shell that would say something else of the data than the run noted."""
    names = [ENV_PREFIX + key.upper() for key in DATA_SETTINGS if stored.has_noted(key)]
    hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
