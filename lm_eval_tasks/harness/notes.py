"""What a judged task tells of itself for its results and for answers that are kept aside."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any

from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.ranks import of_all_ranks
from lm_eval_tasks.judge.noise import noise
from lm_eval_tasks.runs import provenance

log = logging.getLogger(f"lm_eval.{__name__}")


def generation_sent(model: Any, instances: list[Any]) -> dict[str, Any]:
    """The generation settings that a model on a server really sends, and a warning where they are not those asked for.

    lm-eval's ``openai-chat-completions`` turns the temperature to 1 and drops the stop strings where a model's name
    looks like that of a reasoning model.

    Args:
        model: the model under test, or None.
        instances: the requests, of which the first one stands for all.

    Returns:
        The request without its messages; {} for models that are on no server.
    """
    if not instances or not isinstance(model, compat.TemplateAPI) or not isinstance(instances[0].args[1], dict):
        return {}
    asked = instances[0].args[1]
    try:
        chat = [{"role": "user", "content": ""}]
        own = getattr(model, "request_of", None)  # the pack's own, which sends less than lm-eval's class makes
        sent = own(compat.JsonChatStr(json.dumps(chat)), asked)[0] if own else compat.chat_payload(model, chat, asked)
    except Exception as error:  # a model class of somebody else, which may want more of a request than this
        log.debug("what %s sends could not be told: %r", type(model).__name__, error)
        return {}
    sent.pop("messages", None)
    if "temperature" in asked and sent.get("temperature", asked["temperature"]) != asked["temperature"]:
        text = "%s sends temperature %s to %r, not %s: this model class changes it, and the results say so."
        compat.warning_once(
            log, text, type(model).__name__, sent["temperature"], sent.get("model"), asked["temperature"]
        )
    if asked.get("until") and "stop" not in sent and not own:
        compat.warning_once(log, "%s sends no stop strings to %r.", type(model).__name__, sent.get("model"))
    return sent


def of_noise(task: Any, judgements: Iterable[list[dict[str, Any]]]) -> dict[str, Any]:
    """How far the judge disagrees with itself, by the records of each doc of all ranks; {} where it is asked once."""
    if task.settings.judge_repeats == 1:
        return {}
    docs, failed = [], 0
    for records in judgements:
        judged = [record for record in records if record["judged"]]
        failed += sum(bool(verdict["reason"]) for record in judged for verdict in record["verdicts"])
        each = [task.verdict_values(record) for record in judged]
        docs.append({name: [values for one in each for values in one[name]] for name in (each[0] if each else ())})
    every = [doc for rank in of_all_ranks(docs, task.ranks) for doc in rank]
    return noise(every) | {"failed_repeats": sum(of_all_ranks(failed, task.ranks))}


def of_run(task: Any) -> dict[str, Any]:
    """What a results file holds of how a task's answers were made, as far as it knows that (see ``runs.waiting``)."""
    options = task.run_options
    model = compat.model_behind(options)
    name = getattr(model, "model", None)
    made_with = {"answers": provenance.of_answers(task.instances), "process": provenance.of_process()}
    metadata = {**(task.config.metadata or {}), "made_with": made_with}
    return {
        "config": {**task.dump_config(), "metadata": metadata, "settings": task.settings_in_results()},
        "docs": len(task.eval_docs),
        "model": None if model is None else type(model).__name__,
        "model_name": name if isinstance(name, str) else None,
        **{key: options.get(key) for key in ("limit", "system_instruction", "fewshot_as_multiturn")},
        "rank": options.get("rank", 0),
        "ranks": task.ranks,
    }
