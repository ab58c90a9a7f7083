"""What a model answered, with what its server said of it; or that there is no answer, as a type of its own.

Both are strings, which is what lm-eval takes, caches (``--use_cache`` pickles them whole) and logs.
"""

from __future__ import annotations

import sys
from typing import Any

from lm_eval.api.instance import Instance

from lm_eval_tasks.judge.question import storable
from lm_eval_tasks.server.keys import without_keys

NO_ANSWER = "no answer"
"""How the reason of a doc begins that the model did not answer."""

EMPTY_ANSWER = "empty answer: failure or silence cannot be told apart with this model"
"""The reason of a doc whose answer is empty, where the model is none that tells why."""


class Answer(str):
    """A model's answer and how it ended.

    Attributes:
        finish: why the model stopped: ``stop`` where it ended by itself, ``length`` where its limit of tokens cut it,
            ``thinking`` where the text is half a thought. ``""`` where nobody said.
        model: the model's name as its server gave it, or "".
        prompt_tokens, completion_tokens: as the server counted them; 0 where it didn't say.
        without: what the server refused, so that it was asked without it: ``seed``, ``stop``, ``temperature``, ...
    """

    __slots__ = ("completion_tokens", "finish", "model", "prompt_tokens", "without")

    def __new__(
        cls,
        text: str,
        finish: str = "",
        model: str = "",
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        without: tuple[str, ...] = (),
    ) -> Answer:
        self = super().__new__(cls, text)
        self.finish, self.model, self.without = sys.intern(finish), sys.intern(model), without  # one text for all
        self.prompt_tokens, self.completion_tokens = prompt_tokens, completion_tokens
        return self

    @property
    def cut(self) -> bool:
        """Whether the answer is not whole."""
        return self.finish in ("length", "thinking")

    def __reduce__(self) -> tuple[Any, ...]:
        return Answer, (str(self), self.finish, self.model, self.prompt_tokens, self.completion_tokens, self.without)


class Unanswered(str):
    """Stands where an answer should; its text is empty, and ``reason`` says in a few words why there is none.

    Attributes:
        reason: one of a few short texts, so that they can be counted.
        detail: the server's own words, or "".
    """

    __slots__ = ("detail", "reason")

    def __new__(cls, reason: str, detail: str = "") -> Unanswered:
        self = super().__new__(cls, "")
        self.reason, self.detail = reason, detail
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Unanswered, (self.reason, self.detail)

    def __repr__(self) -> str:
        return f"Unanswered({self.reason!r})"


def storable_answer(answer: str) -> str:
    """The same answer with text that a file can hold, and without keys; it still says how it ended."""
    text = without_keys(storable(answer), spare_words=True)
    if text is answer or not isinstance(answer, Answer):
        return text
    _, (_, *told) = answer.__reduce__()
    return Answer(text, *told)


def finish_reason(request: Instance, repeat: int = 0) -> str | None:
    """Why the model stopped at one of a request's answers; None where nobody said."""
    answer = request.resps[repeat] if repeat < len(request.resps) else None
    return (answer.finish or None) if isinstance(answer, Answer) else None


def why_missing(request: Instance, repeat: int = 0, take_empty: bool = False) -> str | None:
    """Why one of a request's answers is none, or none that is known to be one; None where it is an answer.

    Only an ``Answer`` tells silence from a failure: elsewhere an empty text may be either, and is none unless
    ``take_empty``.
    """
    answer = request.resps[repeat] if repeat < len(request.resps) else ""
    if isinstance(answer, Unanswered):
        return f"{NO_ANSWER}: {answer.reason}"
    silent = answer is None or (isinstance(answer, str) and not isinstance(answer, Answer) and not answer.strip())
    return EMPTY_ANSWER if silent and not take_empty else None


def mark_unanswered(request: Instance, answer: Unanswered) -> None:
    """Write the reason into a request's generation options, where the logged sample shows it.

    It also makes the request another one for ``--use_cache``, which stores whatever a model returns under the request
    as it is by then: the request itself will be asked again.
    """
    first, options, *rest = request.args
    words = {"unanswered": answer.reason, **({"why": answer.detail} if answer.detail else {})}
    request.arguments = (first, {**options, **words}, *rest)
