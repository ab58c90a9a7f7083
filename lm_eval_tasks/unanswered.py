"""An answer that could not be had, as a type of its own: it is never taken for what a model said."""

from __future__ import annotations

from lm_eval.api.instance import Instance


class Unanswered(str):
    """Stands where an answer should; its text is empty, and ``reason`` says in a few words why there is none."""

    reason: str

    def __new__(cls, reason: str) -> Unanswered:
        """Make one.

        Args:
            reason: one of a few short texts, so that they can be counted.
        """
        self = super().__new__(cls, "")
        self.reason = reason
        return self

    def __reduce__(self) -> tuple[type[Unanswered], tuple[str]]:
        return Unanswered, (self.reason,)

    def __repr__(self) -> str:
        return f"Unanswered({self.reason!r})"


def mark_unanswered(request: Instance, answer: Unanswered) -> None:
    """Write the reason into a request's generation options, where the logged sample shows it.

    It also makes the request another one for ``--use_cache``, which stores whatever a model returns under the request
    as it is by then: the request itself will be asked again.
    """
    first, options, *rest = request.args
    request.arguments = (first, {**options, "unanswered": answer.reason}, *rest)
