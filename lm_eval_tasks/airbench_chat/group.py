"""AIR-Bench-Chat's groups."""

from __future__ import annotations

from lm_eval_tasks.airbench_chat.data import CHAT
from lm_eval_tasks.harness.groups import ScoreGroup


class AirBenchGroup(ScoreGroup):
    """A category, two of them, or the whole benchmark."""

    BENCHMARK, TRACK = "air_bench_chat", CHAT
