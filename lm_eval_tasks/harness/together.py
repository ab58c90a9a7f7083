"""What the judged tasks of a run do together: lm-eval generates for all of them before it judges the first.

Once for all tasks the cost is told, a batch is filled, and at the end what is unjudged is told in one table.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator
from typing import Any

from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Question

log = logging.getLogger(f"lm_eval.{__name__}")

_loaded: weakref.WeakSet[Any] = weakref.WeakSet()
"""Tasks without requests yet."""

_begun: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Tasks whose answers are not judged yet, by their ``id``, in the order in which lm-eval will judge them."""

_SHOWN = 120


def loaded(task: Any) -> None:
    """Count on a task whose data is there. All of a run are loaded before the first one begins."""
    _begun.clear()  # of a run that was broken off, whose tasks would be asked about in this one
    Judge.new_run()
    _loaded.add(task)


def begin(task: Any) -> None:
    """Note that a task has its requests; with the last one of a run, say what judging may cost."""
    if any(other.task_name == task.task_name for other in _to_prepare()):  # of a run that was broken off
        _begun.clear()
    for other in [other for other in _loaded if other.task_name == task.task_name]:  # it, or one that never ran
        _loaded.discard(other)
    _begun[id(task)], task.runs_end = task, None
    if not _loaded:
        _tell_cost_ahead()


def passed(task: Any) -> None:
    """Note that a task will not be judged in this run."""
    _loaded.discard(task)


def answered() -> list[Any]:
    """The tasks whose answers are there and not judged yet, without those of stored runs."""
    return [task for task in _begun.values() if task.is_answered() and not task.replayed]


def questions_after(task: Any) -> Iterator[Question]:
    """What the judge of a task will be asked next: the questions of all tasks after it."""
    judge = Judge.of(task.settings)
    for other in list(_begun.values()):
        if other is not task and other.is_answered() and Judge.of(other.settings) is judge:
            yield from (question for _, question in other.questions_ahead())


def forget() -> None:
    """Forget all tasks, as a new process has."""
    _loaded.clear()
    _begun.clear()


def _to_prepare() -> list[Any]:
    """The tasks of whose answers no question was made yet."""
    return [task for task in _begun.values() if task.runs_end is None]


def _tell_cost_ahead() -> None:
    """Before any answer is paid for, say what judging will cost if the answers are as long as can be expected."""
    tasks = [task for task in _to_prepare() if not task.replayed and not task.is_finished()]
    judges = {id(judge): judge for judge in (Judge.of(task.settings) for task in tasks)}
    for judge in judges.values():
        own = [task for task in tasks if Judge.of(task.settings) is judge]
        line = judge.expected(question for task in own for question in task.questions_expected())
        if line:
            assumed = " and ".join(sorted({f"{task.BENCHMARK}: {task.EXPECTED_ANSWERS}" for task in own}))
            log.info("Expected before there are answers (%s; cached verdicts cost nothing): %s", assumed, line)


def prepare(judge: Judge) -> None:
    """Before the first task of a run is judged, for all of them: say what it will cost, and let a batch do it."""
    tasks = [task for task in _to_prepare() if task.is_answered() and Judge.of(task.settings) is judge]
    if not tasks:
        return
    costs = judge.settings.judge_batch or not judge.settings.judge_early or any(task.replayed for task in tasks)
    end = RunsEnd(tasks)
    for task in tasks:
        task.runs_end = end
        task.keep_verdicts(judge)
        known = not costs or all(judge.knows(question) for _, question in task.questions_ahead())
        if not known:
            judge.check(task.trial_question())  # which finds out how this server has to be asked

    def every() -> Iterator[Question]:
        return (question for task in tasks for _, question in task.questions_ahead())

    line = judge.expected(every()) if costs else None
    if line:
        log.info("Expected: %s", line)
    if judge.settings.judge_batch:
        judge.fill(every)


class RunsEnd:
    """What is told when the last of some tasks is judged."""

    def __init__(self, tasks: list[Any]) -> None:
        self._left = {task.task_name for task in tasks}
        self._rows: list[tuple[str, int, str, str]] = []
        self._kept: set[str] = set()
        self._answered = False

    def note(self, task: Any, rows: list[tuple[int, str, str]], answered: bool, kept: str, stopped: str | None) -> None:
        """Take a task that is judged.

        Args:
            task: it.
            rows: for each reason, how many are unjudged, the reason, and the server's first words.
            answered: whether any of them has an answer, so that it may be judged later.
            kept: the folder of its answers, or "".
            stopped: why the judge was asked no more.
        """
        _begun.pop(id(task), None)
        self._left.discard(task.task_name)
        self._rows += [(task.task_name, *row) for row in rows]
        self._kept |= {kept} - {""} if rows else set()
        self._answered |= answered
        if not self._left and self._rows:
            self._tell(stopped)

    def _tell(self, stopped: str | None) -> None:
        from pytablewriter import MarkdownTableWriter

        rejudge = " (with --log_samples)" + "".join(f" or on {folder}" for folder in sorted(self._kept))
        rows = [(*row[:3], " ".join(row[3].split())[:_SHOWN]) for row in self._rows]
        head = ["Task", "Unjudged", "Reason", "The server's first words"]
        table = MarkdownTableWriter(headers=head, value_matrix=rows, margin=1).dumps().strip()
        log.warning(
            "%d UNJUDGED answers are excluded from every score.%s To finish: run the same command again (it asks for "
            "no verdict that is cached, and with --use_cache for no answer)%s.\n%s",
            sum(row[1] for row in rows),
            f" {stopped.rstrip('.')}." if stopped else "",
            f", or `lm-eval-tasks rejudge` on the run's folder{rejudge}" if self._answered else "",
            table,
        )
