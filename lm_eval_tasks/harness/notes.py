"""What a judged task tells of itself for its results and for answers that are kept aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lm_eval_tasks.runs import provenance

if TYPE_CHECKING:
    from lm_eval.api.task import ConfigurableTask


def made_with(task: ConfigurableTask) -> dict[str, Any]:
    """How the answers ended, and the process that asked for them."""
    return {"answers": provenance.of_answers(task.instances), "process": provenance.of_process()}


def judge_prompt(prompt: Any, re_ask: str) -> dict[str, str]:
    """The wording as text, and what is added to it when the judge is asked again."""
    return {"system": prompt.system, "template": prompt.template, "re_ask": re_ask}


def of_run(task: ConfigurableTask, options: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """What a results file holds of how the answers were made, as far as a task knows it (``runs.waiting.Keeps``).

    Args:
        task: its answers are there.
        options: of ``build_all_requests``, with ``rank`` and ``ranks``.
        settings: what the task goes by, wherever it was set.
    """
    model = getattr(options.get("chat_template"), "__self__", None)
    name = getattr(model, "model", None)
    metadata = {**(task.config.metadata or {}), "made_with": made_with(task)}
    return {
        "config": {**task.dump_config(), "metadata": metadata, "settings": settings},
        "docs": len(task.eval_docs),
        "model": None if model is None else type(model).__name__,
        "model_name": name if isinstance(name, str) else None,
        **{key: options.get(key) for key in ("limit", "system_instruction", "fewshot_as_multiturn", "rank", "ranks")},
    }
