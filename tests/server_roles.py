"""Asking the model or the judge of a run, for the tests of what servers do to either."""

from __future__ import annotations

import json

import pytest
from conftest import questions
from lm_eval.api.instance import Instance
from lm_eval.models.api_models import JsonChatStr

from lm_eval_tasks.errors import ModelUnavailable
from lm_eval_tasks.judge.question import Verdict
from lm_eval_tasks.models.api import AudioChatCompletions
from lm_eval_tasks.runs.answers import Unanswered


def requests(count):
    chats = [JsonChatStr(json.dumps([{"role": "user", "content": f"question {n}"}])) for n in range(count)]
    made = [Instance("generate_until", {}, (c, {"until": ["END."]}), 0, ("t", n, 1)) for n, c in enumerate(chats)]
    for request in made:
        vars(request)["may_stay_unanswered"] = True
    return made


def asker(server, make_judge):
    """A function that asks the model or the judge about some docs: what each got, as text, or None."""

    def call(role, count=1, **options):
        if role == "judge":
            call.judge = make_judge(**options)
            call.outcomes = call.judge.ask(questions(count), "Judging")
            return [found.reply if isinstance(found, Verdict) else None for found in call.outcomes]
        model = {"patience": 3, "num_concurrent": 4, "max_retries": 2, "timeout": 5, **options}
        address = f"{server.url('model')}/chat/completions"
        try:
            call.outcomes = AudioChatCompletions(base_url=address, model="m", **model).generate_until(requests(count))
        except ModelUnavailable as error:
            call.outcomes = [error]
            return [None] * count
        return [None if isinstance(found, Unanswered) else str(found) for found in call.outcomes]

    return call


both = pytest.mark.parametrize("role", ["judge", "model"])
