"""What the answers of a run were made with: read from its results here, and carried over when they are judged again.

lm-eval writes into a results file what it was run with. When answers are replayed to be judged again, that is the
replaying and not what made them; so all that belongs to the answers is put back from the run that made them.
"""

from __future__ import annotations

from typing import Any

from lm_eval_tasks.runs.plain import mapping, number

_MODEL = ("model_source", "model_name", "model_name_sanitized")
_PROMPT = ("system_instruction", "system_instruction_sha", "chat_template", "chat_template_sha", "fewshot_as_multiturn")
_MACHINE = (
    *("date", "start_time", "end_time", "total_evaluation_time_seconds", "git_hash", "upper_git_hash"),
    *("pretty_env_info", "transformers_version", "lm_eval_version", "task_hashes", "max_length", "eot_token_id"),
    *("tokenizer_pad_token", "tokenizer_eos_token", "tokenizer_bos_token"),
)
_SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
_OF_JUDGING = ("metadata", "metric_list", "process_results", "filter_list")
"""The parts of a task's configuration that say how its answers were judged and not how they were made."""

_SUMMARIES = ("judging", "scoring")
"""What a task notes of its answers: where a judge scored them, and where none is needed."""

_PLACE = ("replay", "replay_all")


def made_with(results: dict[str, Any]) -> dict[str, Any]:
    """What the answers of a run were made with.

    Args:
        results: the content of a results file, of any lm-eval; or what was noted with kept answers.

    Returns:
        ``model`` (lm-eval's type), ``model_name``, ``model_args``, ``system_instruction``, ``chat_template``,
        ``fewshot_as_multiturn``, ``limit`` (as it was given), ``gen_kwargs`` (as they were given), ``generation``
        (task -> generation settings as sent), ``batch_size``, the four seeds, ``ranks``, ``lm_eval_version``,
        ``git_hash``, ``date`` (Unix time), ``answers`` (task -> counts, see ``provenance.of_answers``) and ``process``
        (task -> see ``provenance.of_process``). None or {} where it was not noted.
    """
    config = mapping(results.get("config"))
    configs = {task: mapping(one) for task, one in mapping(results.get("configs")).items()}
    noted = {task: _noted(one) for task, one in configs.items()}
    summaries = [mapping(mapping(one.get("metadata")).get(name)) for one in configs.values() for name in _SUMMARIES]
    ranks = [number(summary.get("ranks")) for summary in summaries]
    found = {key: config.get(key) for key in ("model", "model_args", "limit", "gen_kwargs", "batch_size", *_SEEDS)}
    found |= {key: results.get(key) for key in ("model_name", "lm_eval_version", "git_hash", "date")}
    found |= {key: results.get(key) for key in ("system_instruction", "chat_template", "fewshot_as_multiturn")}
    found["generation"] = {task: mapping(one.get("generation_kwargs")) for task, one in configs.items()}
    found["ranks"] = results.get("ranks") or max((int(n) for n in ranks if n is not None), default=None)
    return found | {key: {task: mapping(one.get(key)) for task, one in noted.items()} for key in ("answers", "process")}


def _noted(config: dict[str, Any]) -> dict[str, Any]:
    """What was noted of a task's answers: in the summary of judging or scoring, or without one beside it."""
    metadata = mapping(config.get("metadata"))
    summary = mapping(metadata.get("judging") or metadata.get("scoring"))
    noted = mapping(metadata.get("made_with"))
    return {key: noted.get(key) or summary.get(key) for key in ("answers", "process")}


def complete(new: dict[str, Any], stored: dict[str, Any], judged_again: dict[str, Any]) -> dict[str, Any]:
    """The results of judging again, with all that belongs to the answers as the run that made them noted it.

    What that run did not note is None, never what lm-eval was run with to judge.

    Args:
        new: as lm-eval wrote them.
        stored: those of the run whose answers were judged.
        judged_again: what is to be said of the judging; its versions and its process are added.
    """
    whole = dict(new)
    for key in (*_MODEL, *_PROMPT, *_MACHINE):
        if key in new or key in stored:
            whole[key] = stored.get(key)
    whole["model_name"] = stored.get("model_name") or new.get("model_name")
    config, before = mapping(new.get("config")), mapping(stored.get("config"))
    whole["config"] = dict.fromkeys(config) | before | {"bootstrap_iters": config.get("bootstrap_iters")}
    configs, old = mapping(new.get("configs")), mapping(stored.get("configs"))
    whole["configs"] = {task: _complete_config(mapping(one), mapping(old.get(task))) for task, one in configs.items()}
    for key in stored.get("not_known") or ():  # judging goes by defaults, which are not said of the answers
        for one in whole["configs"].values():
            settings = mapping(mapping(mapping(one.get("metadata")).get("judging")).get("settings"))
            settings.update({key: None} if key in settings else {})
        whole["not_known"] = stored["not_known"]
    counts = mapping(stored.get("n-samples"))
    whole["n-samples"] = {
        task: {**mapping(one), **{k: v for k, v in mapping(counts.get(task)).items() if k == "original"}}
        for task, one in mapping(new.get("n-samples")).items()
    }
    again = {**judged_again, "seconds": new.get("total_evaluation_time_seconds")}
    again |= {key: new.get(key) for key in ("lm_eval_version", "git_hash")}
    again["process"] = next((found for one in configs.values() if (found := _noted(mapping(one))["process"])), None)
    if stored.get("versions") not in (None, new.get("versions")):
        again["versions_of_the_answers"] = stored.get("versions")
    earlier = stored.get("judged_again")
    whole["judged_again"] = again | ({"earlier": earlier} if earlier else {})
    return whole


def complete_sample(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """A sample of judging again, with the doc's place in its task and the request as the model got it."""
    return new | {key: old[key] for key in ("doc_id", "arguments", "prompt_hash") if key in old}


def _complete_config(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    whole = {**new, **{key: value for key, value in old.items() if key not in (*_OF_JUDGING, "settings")}}
    if "generation_kwargs" not in old:  # an older version kept answers without it
        whole["generation_kwargs"] = None
    fresh = {key: value for key, value in mapping(new.get("metadata")).items() if key not in _PLACE}
    of_run = {key: value for key, value in mapping(old.get("metadata")).items() if key not in (*_PLACE, "judging")}
    metadata = {**of_run, **fresh}
    judging, before = mapping(metadata.get("judging")), mapping(mapping(old.get("metadata")).get("judging"))
    if judging:  # what replaying tells of answers and process is not theirs
        noted = {key: value or {} for key, value in _noted(old).items()}
        metadata["judging"] = judging | noted | {"ranks": before.get("ranks") or judging.get("ranks")}
    return {**whole, "metadata": metadata}
