"""Every name of lm-eval that is not one of its extension points, each with what it is for; none is used elsewhere.

Extension points, which the rest of the package uses as they are, are the classes to derive from (tasks, groups, models,
instances), the registry, ``TaskManager`` and ``simple_evaluate``. All else may change from one release to the next, and
this is the one file to mend then. It imports nothing of this package, so that every layer may use it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import sys
from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import lm_eval

try:
    from lm_eval.api.metrics import mean, pooled_sample_stderr
    from lm_eval.models.api_models import LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER as NONE_ANSWER
    from lm_eval.models.api_models import JsonChatStr, TemplateAPI
    from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs
    from lm_eval.utils import (
        env,
        handle_non_serializable,
        hash_string,
        info_once,
        make_table,
        setup_logging,
        warning_once,
    )
except ImportError as error:
    raise ImportError(
        f"lm-eval-tasks works with lm-eval>=0.4.12,<0.5; lm-eval {lm_eval.__version__} is installed"
    ) from error

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM
    from lm_eval.api.task import Task

__all__ = [
    "NONE_ANSWER",  # what the API models give where a reply has no text
    "JsonChatStr",  # a chat as the API models take it: JSON behind ``prompt``, hashed and logged as the tuple's item
    "TemplateAPI",  # what all API models derive from; tells whether a model takes a chat
    "handle_non_serializable",  # how lm-eval writes what JSON does not know; needed to hash a doc as it does
    "handle_stop_sequences",  # a task's ``until`` as a list of texts
    "hash_string",  # how lm-eval hashes a doc
    "info_once",  # logs a text once a process
    "make_table",  # the tables at the end of a run
    "mean",  # the aggregation that a YAML's ``mean`` stands for; by it lm-eval finds the standard error
    "normalize_gen_kwargs",  # a task's generation options under the names that transformers has for them
    "pooled_sample_stderr",  # the standard error of a mean over the docs of several tasks
    "setup_logging",  # what puts a handler on the logger "lm_eval"
    "warning_once",  # logs a warning once a process
]


# A task


def set_requests(task: Task, requests: list[Instance]) -> None:
    """Put others in the place of ``task.instances``, which ``build_all_requests`` made."""
    task._instances = requests


def filters_of(task: Task) -> Sequence[Any]:
    """The filter ensembles of the YAML; each has ``apply(requests)``."""
    return task._filters


def metrics_of(task: Task) -> list[str]:
    """The names in the YAML's ``metric_list``."""
    return list(task._metric_fn_list)


def predicts_only(task: Task) -> bool:
    """Whether ``--predict_only`` took the place of the task's metrics: nothing may be judged then."""
    return "bypass" in task._metric_fn_list


@functools.lru_cache
def template(text: str) -> Any:
    """A YAML's template, compiled with lm-eval's own filters."""
    return env.from_string(text)


def model_behind(options: dict[str, Any]) -> LM | None:
    """The model that runs, from what ``build_all_requests`` and ``construct_requests`` get; None where they don't tell.

    lm-eval hands them the model's bound method ``apply_chat_template`` as ``chat_template``, also where no template is
    applied.
    """
    return getattr(options.get("chat_template"), "__self__", None)


# A group


def group_arguments(**config: Any) -> dict[str, Any]:
    """What lm-eval's ``Group`` takes, from the keys of a group's YAML."""
    from lm_eval.config.group import GroupConfig

    parsed = GroupConfig(**config)
    return {
        "name": parsed.group,
        "alias": parsed.group_alias,
        "aggregate_metric_list": parsed.aggregate_metric_list,
        "metadata": parsed.metadata,
        "_config": parsed,
    }


# An API model


def concurrency(model: LM | None) -> int:
    """``num_concurrent`` of an API model, at least 1."""
    return max(1, getattr(model, "_concurrent", 1))


def chat_payload(model: TemplateAPI, messages: list[dict[str, Any]], gen_kwargs: dict[str, Any]) -> dict[str, Any]:
    """The request that the model's class makes of a chat, as a dict; ``gen_kwargs`` is left as it is."""
    options = {key: list(value) if isinstance(value, list) else value for key, value in gen_kwargs.items()}
    return model._create_payload(
        messages, generate=True, gen_kwargs=options, seed=model._seed, eos=model._eos_string
    )  # which empties the options


_SEED = 1234
"""The seed of a model on a server to whom none is given."""


def shapes_answers(model: LM) -> dict[str, str]:
    """What a model was given beside its name that makes other answers of it, where that is not lm-eval's default."""
    lora, seed = getattr(model, "lora_request", None), getattr(model, "_seed", None)
    found = {
        "seed": None if seed == _SEED else seed,
        "think_end_token": getattr(model, "think_end_token", None),
        "adapter": getattr(lora, "lora_path", None) or getattr(lora, "lora_local_path", None),
    }
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def keep_answer(model: LM, request: Instance, answer: str) -> None:
    """Store an answer for ``--use_cache`` now, not at the end of the run."""
    model.cache_hook.add_partial("generate_until", request.args, answer)


def keep_without_waiting(model: LM) -> None:
    """Let nobody wait while ``--use_cache`` stores an answer; its own thread still commits each one."""
    answers = answers_kept(model)
    if hasattr(answers, "autocommit"):  # of the calls: that of the thread is another one and stays
        answers.autocommit = False


def resumes(model: LM) -> bool:
    """Whether ``--use_cache`` holds answers, of this run or of others."""
    return bool(model.cache_hook.dbdict)


def predictions_only() -> bool:
    """Whether the command line asks for answers alone; a task is told so only after it has read its data."""
    return any(word in ("--predict_only", "--predict-only", "-x") for word in sys.argv)


def answers_file(use_cache: str, rank: str) -> str:
    """The database that ``--use_cache`` makes for the process of this rank."""
    return f"{use_cache}_rank{rank}.db"


def answers_kept(model: LM | None) -> MutableMapping[str, Any] | None:
    """What ``--use_cache`` holds, by lm-eval's hash of a request; None where it is not used."""
    return getattr(getattr(model, "cache_hook", None), "dbdict", None)


# The command


class WrongUse(ValueError):
    """The command line cannot be parsed; the text is argparse's."""


def parse_run(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse what follows ``lm-eval run`` as lm-eval does.

    Raises:
        WrongUse: it cannot be parsed.
    """
    from lm_eval._cli import HarnessCLI

    before, sys.argv = sys.argv, ["lm-eval", "run", *arguments]  # the stock parser reads them from there
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):  # argparse writes its usage there, many lines of it
            return HarnessCLI().parse_args()
    except SystemExit as end:
        if not end.code:
            raise
        reason = told.getvalue().strip().rpartition("error: ")[2]
        raise WrongUse(f"{reason} (see lm-eval-tasks run --help)") from None
    finally:
        sys.argv = before


def execute(parsed: argparse.Namespace) -> None:
    """Do what the stock command does."""
    from lm_eval._cli import HarnessCLI

    HarnessCLI().execute(parsed)


def read_config(parsed: argparse.Namespace) -> Any:
    """The run's options, checked and completed as the stock command does it."""
    from lm_eval.config.evaluate_config import EvaluatorConfig

    return EvaluatorConfig.from_cli(parsed)


def evaluation_tracker(config: Any) -> Any:
    """What writes the results and samples of a run to its ``--output_path``."""
    from lm_eval.loggers import EvaluationTracker

    return EvaluationTracker(**config.hf_hub_log_args)


def key_values(word: str) -> dict[str, Any]:
    """``a=1,b=x`` as a dict, in the way of ``--model_args``; a ValueError where it has another form."""
    from lm_eval._cli.utils import key_val_to_dict

    return key_val_to_dict(word)
