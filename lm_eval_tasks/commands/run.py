"""``lm-eval-tasks run``: the stock ``lm-eval run`` with the pack's model and include path at hand.

Reading lm-eval's own task files takes most of the time until the first request. Where only tasks of the include path
are asked for, they are left out: then the harness runs through its Python interface, with the same arguments and the
same output.
"""

from __future__ import annotations

import argparse
import inspect
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lm_eval
from lm_eval.api.registry import get_model
from lm_eval.tasks import TaskManager

import lm_eval_tasks.models  # noqa: F401 - registers them
from lm_eval_tasks import INCLUDE_PATH
from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.chat import NEEDS_AUDIO, takes_audio
from lm_eval_tasks.runs import alone, ended, waiting
from lm_eval_tasks.runs.written import check_answers, check_output, what_lacks
from lm_eval_tasks.server import keys

if TYPE_CHECKING:
    from lm_eval_tasks.harness.compat import EvaluatorConfig

log = logging.getLogger(f"lm_eval.{__name__}")

_TAKE_AN_ADDRESS = ("audio-chat-completions", "local-chat-completions")


def main(arguments: list[str]) -> int:
    """Run the harness.

    Args:
        arguments: what follows ``lm-eval run``; ``--include_path`` may be given several times, for folders besides
            the pack's own.

    Returns:
        Exit status: 0 where all answers are judged (or none was to be), 3 where some are not, 1 where none is or where
        the results could not be written.

    Raises:
        ValueError: wrong use, in one line.
    """
    compat.setup_logging()
    keys.know_words(arguments)
    keys.know_variables()
    keys.guard_logs()
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)  # the harness keeps the last folder only
    own.add_argument("--include_path", action="append", default=[])
    given, arguments = own.parse_known_args(arguments)
    parsed = compat.parse_run(arguments)
    missing = [folder for folder in given.include_path if not Path(folder).expanduser().is_dir()]
    if missing:
        raise ValueError(f"--include_path {missing[0]}: there is no such folder")
    parsed.include_path = [str(INCLUDE_PATH), *besides_the_pack(given.include_path)]  # a later one wins
    config = compat.read_config(parsed)
    keys.know_options(config.model_args)
    keys.know_options(config.metadata)
    keys.know_options(config.gen_kwargs)
    _check_model(config)
    _note(config)
    if config.output_path:
        check_output(config.output_path)
    answers = check_answers(config.use_cache) if config.use_cache else ""
    ended.begin()
    begun = time.time()
    try:
        if answers:
            alone.claim(answers, f"--use_cache {config.use_cache} is in use")
        if not _run_without_index(config):
            compat.execute(parsed)
        lacking = what_lacks(config.output_path, begun, bool(config.log_samples)) if config.output_path else None
    except BaseException:
        waiting.keep_judged()
        raise
    finally:
        alone.release(answers)
        waiting.note_command({})  # what runs in this process later was not called like this
    if lacking and os.environ.get("RANK", "0") == "0":
        kept = ", ".join(map(str, waiting.keep_judged()))
        where = f" The answers are in {kept}: lm-eval-tasks rejudge {kept} writes the results anew." if kept else ""
        print(f"lm-eval-tasks: the results are not written: {lacking}. Is the disk full?{where}", file=sys.stderr)
        return 1
    waiting.remove_judged()
    return ended.status()


def _check_model(config: EvaluatorConfig) -> None:
    """Refuse a model that cannot run, before any data is fetched."""
    if config.model in _TAKE_AN_ADDRESS and not config.model_args.get("base_url"):
        raise ValueError(
            f"--model {config.model} needs its server's address: --model_args "
            "model=NAME,base_url=http://HOST:PORT/v1/chat/completions"
        )
    names = ",".join([config.tasks] if isinstance(config.tasks, str) else config.tasks).split(",")
    audio = [name for name in names if name.startswith("air_bench_")]
    try:
        model = get_model(config.model)
    except ImportError as error:
        needs = f" Besides, {audio[0]} {NEEDS_AUDIO}" if audio else ""
        raise ValueError(f"--model {config.model} cannot be loaded: {error}.{needs}") from None
    if audio and not takes_audio(model):
        raise ValueError(f"--model {config.model} takes text only. {audio[0]} {NEEDS_AUDIO}")


def besides_the_pack(folders: list[str]) -> list[str]:
    """The folders without the pack's own and what is in it: its tasks would be reported as overridden by themselves."""
    pack = INCLUDE_PATH.resolve()
    return [folder for folder in folders if not Path(folder).expanduser().resolve().is_relative_to(pack)]


def _run_without_index(config: EvaluatorConfig) -> bool:
    """Run if only tasks of the include path are asked for, by name, and nothing that needs the stock command."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # as the stock command does
    if config.wandb_args or config.trackio_args or config.show_config:
        return False
    manager = TaskManager(include_path=config.include_path, include_defaults=False, metadata=config.metadata)
    names = config.tasks.split(",") if isinstance(config.tasks, str) else config.tasks
    names = list(dict.fromkeys(name for task in names for name in task.split(",")))
    if not all(name in manager.task_index for name in names):
        return False
    config.tasks = names
    _evaluate(config, manager)
    return True


def _note(config: EvaluatorConfig) -> None:
    """Tell those who keep answers aside how lm-eval was called, under the names that its results have for it."""
    names = ("model", "model_args", "batch_size", "device", "use_cache", "limit", "gen_kwargs")
    seeds = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
    waiting.note_command(
        {name: getattr(config, name, None) for name in names}
        | dict(zip(seeds, config.seed or [None] * len(seeds), strict=True))
    )


def _evaluate(config: EvaluatorConfig, manager: TaskManager) -> None:
    if config.output_path:
        config.hf_hub_log_args["output_path"] = config.output_path
    if os.environ.get("HF_TOKEN"):
        config.hf_hub_log_args["token"] = os.environ["HF_TOKEN"]
    tracker = compat.evaluation_tracker(config)
    log.info("Selected Tasks: %s", config.tasks)
    seeds = ("random_seed", "numpy_random_seed", "torch_random_seed", "fewshot_random_seed")
    options: dict[str, Any] = {
        name: getattr(config, name)
        for name in inspect.signature(lm_eval.simple_evaluate).parameters
        if hasattr(config, name) and name != "cache_requests"
    }
    options |= config.cache_requests
    options |= dict(zip(seeds, config.seed or [None] * len(seeds), strict=True))
    results = lm_eval.simple_evaluate(**options, task_manager=manager, evaluation_tracker=tracker)
    if results is None:  # not the first of several ranks
        return
    for part in ("config", "configs"):  # --model_args and --metadata
        results[part] = keys.masked(results[part])
    samples = results.pop("samples", None)
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"] if samples else ():
        tracker.save_results_samples(task_name=task, samples=samples[task])
    if tracker.push_results_to_hub or tracker.push_samples_to_hub:
        tracker.recreate_metadata_card()
    print(
        f"{config.model} ({keys.masked(config.model_args)}), gen_kwargs: ({keys.masked(config.gen_kwargs)}), "
        f"limit: {config.limit}, num_fewshot: {config.num_fewshot}, batch_size: {config.batch_size}"
    )
    print(compat.make_table(results))
    if "groups" in results:
        print(compat.make_table(results, "groups"))
