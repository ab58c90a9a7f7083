"""A group whose score is a mean that lm-eval's own groups don't know: over docs, or over the scores of its members."""

from __future__ import annotations

import logging
import math
from typing import Any

from lm_eval.api.group import Group
from lm_eval.api.task import Task
from lm_eval.tasks import TaskManager

from lm_eval_tasks import INCLUDE_PATH
from lm_eval_tasks.data.records import Track
from lm_eval_tasks.errors import NoDocs
from lm_eval_tasks.harness import compat
from lm_eval_tasks.settings import read_settings

log = logging.getLogger(f"lm_eval.{__name__}")

_OWN = ("task", "class", "members", "apart", "mean_over", "group_alias", "aggregate_metric_list", "metadata")
_OWN += ("tag", "group")  # keys of the YAML that its tasks do not get


class NotAskedFor(NoDocs):
    """The settings leave all tasks of a group out; ``reason`` says by what."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} has no task to run: all of them are {reason}. Ask for another group.")
        self.reason = reason


class ScoreGroup(Group):
    """A group of one benchmark, built by lm-eval from a YAML with ``class:``. A subclass sets ``BENCHMARK``.

    Of the YAML, ``members`` names tasks or groups of this pack and ``mean_over`` says what is averaged: ``docs`` (every
    judged doc of the members' tasks counts the same) or ``members`` (every member counts the same, and all of them must
    have a score). ``apart`` names tasks that run with the group and count in none of its numbers. Keys that are not the
    group's own are handed to the tasks, as lm-eval does.

    Attributes:
        settings: the benchmark's settings.
        absent: member -> why it does not run.
    """

    BENCHMARK: str
    TRACK: Track | None = None
    """Of AIR-Bench, whose option ``tasks`` leaves tasks out."""
    FILTER = "judge"
    """The filter of the tasks, which stands behind each metric's name in their rows."""

    def __init__(self, config: dict[str, Any]) -> None:
        keys = ("group_alias", "aggregate_metric_list", "metadata")
        parsed = {key: config.get(key) for key in keys}
        super().__init__(**compat.group_arguments(group=config["task"], task=list(config["members"]), **parsed))
        self.mean_over = config["mean_over"]
        self.members = tuple(config["members"])
        self.absent: dict[str, str] = {}
        self.apart = frozenset(config.get("apart", ()))
        self.settings = read_settings(self.BENCHMARK, config.get("metadata"))
        self._build(config)

    def not_wanted(self, dataset_name: str) -> str | None:
        """Why the settings leave the task of this ``dataset_name`` out of the run; None where they don't."""
        wanted = self.settings.tasks if self.TRACK else None
        return "not in tasks" if wanted and dataset_name not in wanted else None

    def _build(self, config: dict[str, Any]) -> None:
        if self.TRACK:
            self.TRACK.check_tasks(self.settings.tasks or ())
        manager = TaskManager(include_path=INCLUDE_PATH, include_defaults=False, metadata=config.get("metadata"))
        overrides = {key: value for key, value in config.items() if key not in _OWN}
        lost: dict[str, str] = {}
        for name in [*config["members"], *config.get("apart", ())]:
            dataset_name = manager.task_index[name].cfg.get("dataset_name")
            reason = dataset_name and self.not_wanted(dataset_name)
            if reason:
                self.absent[name] = reason
                continue
            member = {"group": self.name, "task": [{"task": name, **overrides}]}
            try:
                self.add(manager.load([member])["groups"][self.name].get(name))
            except NotAskedFor as error:
                self.absent[name] = error.reason
            except NoDocs as error:
                self.absent[name] = lost[name] = str(error).rstrip(".")
        if not len(self) and not lost:
            raise NotAskedFor(self.name, " or ".join(sorted(set(self.absent.values()))))
        if not len(self):
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.absent.items())
            raise NoDocs(f"{self.name} has no task to run ({reasons}).")
        for name, reason in lost.items():
            log.error("%s RUNS WITHOUT %s: %s", self.name, name, reason)
        for task in self.get_all_tasks():
            task.absent |= lost  # for the results file, to which a group adds nothing of its own

    def counted(self) -> list[Task | Group]:
        """The members whose docs count in the group's numbers."""
        return [member for member in self if _name(member) not in self.apart]

    def counted_tasks(self) -> list[str]:
        """The names of all tasks in or below ``counted``."""
        found = [m.get_all_tasks() if isinstance(m, Group) else [m] for m in self.counted()]
        return [task.task_name for tasks in found for task in tasks]

    def aggregate(self, task_metrics: dict[str, Any]) -> dict[str, Any]:
        """This group's row from the rows of its tasks: each metric with its standard error."""
        rows = [task_metrics.get(name, {}) for name in self.counted_tasks()]
        row: dict[str, Any] = {"alias": self.alias or self.name, "name": self.name}
        row["sample_len"] = sum(one.get("sample_len", 0) for one in rows)
        names = [metric.metric for metric in self.aggregate_metric_list or ()]
        for name in names:
            value, error = self.score(name, task_metrics)
            if value is not None:
                row[f"{name},{self.FILTER}"] = value
                row[f"{name}_stderr,{self.FILTER}"] = "N/A" if error is None else error
        lacks = self.mean_over == "members" and names and f"{names[0]},{self.FILTER}" not in row
        if lacks and row["sample_len"] and not any(f"bypass,{self.FILTER}" in one for one in rows):
            reasons = [f"{name} is left out ({reason})" for name, reason in self.absent.items()]
            for name, (value, _) in self._by_member(names[0], task_metrics).items():
                reasons += [f"{name} has no scored doc or not all of its parts"] if value is None else []
            needed = ", ".join(self.members)
            log.warning("%s has no score: it needs all of %s, and %s.", self.name, needed, "; ".join(reasons))
        return row

    def score(self, metric: str, task_metrics: dict[str, Any]) -> tuple[float | None, float | None]:
        """One metric of this group and its standard error, each None where it does not exist.

        Over docs: the mean weighted by judged docs, with the pooled standard error. Over members: the plain mean, with
        the root of the summed squared errors over the number of members.
        """
        if self.mean_over == "docs":
            return self._over_docs(self.counted_tasks(), metric, task_metrics)
        members = self._by_member(metric, task_metrics).values()
        if len(members) < len(self.members) or any(value is None for value, _ in members):
            return None, None
        errors = [error for _, error in members if error is not None]
        value = sum(value for value, _ in members) / len(members)
        return value, math.hypot(*errors) / len(members) if len(errors) == len(members) else None

    def _by_member(self, metric: str, task_metrics: dict[str, Any]) -> dict[str, tuple[float | None, float | None]]:
        """``score`` of each member that counts."""
        return {
            _name(member): member.score(metric, task_metrics)
            if isinstance(member, ScoreGroup)
            else self._over_docs([member.task_name], metric, task_metrics)
            for member in self.counted()
        }

    def _over_docs(
        self, tasks: list[str], metric: str, task_metrics: dict[str, Any]
    ) -> tuple[float | None, float | None]:
        """Mean and pooled standard error over the docs of some tasks."""
        key, error_key = f"{metric},{self.FILTER}", f"{metric}_stderr,{self.FILTER}"
        rows = [task_metrics.get(name, {}) for name in tasks]
        rows = [row for row in rows if row.get("sample_len") and not math.isnan(row.get(key, math.nan))]
        if not rows:
            return None, None
        sizes = [row["sample_len"] for row in rows]
        value = sum(row[key] * size for row, size in zip(rows, sizes, strict=True)) / sum(sizes)
        # a task of one doc has no error of its own, and adds nothing to the pooled one: its weight there is size - 1
        errors = [0.0 if row["sample_len"] == 1 else row[error_key] for row in rows]
        if "N/A" in errors or sum(sizes) == len(sizes):
            return value, None
        return value, float(compat.pooled_sample_stderr(errors, sizes))


def _name(member: Task | Group) -> str:
    return member.name if isinstance(member, Group) else member.task_name
