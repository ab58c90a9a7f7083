"""``replay-answers``: a model that gives the answers of a stored run, so that they can be judged again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import lm_eval.models  # noqa: F401 - lm-eval looks for its own models only as long as none is registered
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from lm_eval_tasks.runs.answers import Answer, Unanswered, mark_unanswered
from lm_eval_tasks.runs.stored import finish_of, load_run, why_unanswered


@register_model("replay-answers")
class ReplayAnswers(LM):
    """A model that gives the answers of a stored run.

    Args:
        run_dir: the run.
        model: name of the model that answered, by which lm-eval names the folder of the results.
    """

    MULTIMODAL = True  # it needs no audio, but lm-eval asks before it runs a task with audio

    def __init__(self, run_dir: str, model: str = "", **_: Any) -> None:
        super().__init__()
        self.run = load_run(run_dir)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The stored answer of each request; a request that occurs again gets the doc's next answer."""
        given: Counter[tuple[str, int]] = Counter()
        answers: list[str] = []
        for request in requests:
            sample = self.run.samples[request.task_name][request.doc_id]
            repeat = min(given[request.task_name, request.doc_id], len(sample.answers) - 1)
            given[request.task_name, request.doc_id] += 1
            missing = why_unanswered(sample)
            if missing and not sample.answers[repeat]:
                answers.append(Unanswered(missing))
                mark_unanswered(request, answers[-1])  # so that judging once more finds it too
            else:
                text, finish = sample.answers[repeat], finish_of(sample, repeat)
                answers.append(Answer(text, finish) if finish else text)  # only the pack's own models say how it ended
        return answers

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Not stored by generative tasks."""
        raise NotImplementedError("a stored run holds answers only")

    loglikelihood_rolling = loglikelihood
