"""How many calls a second the judge makes, and its CPU time: ``python bench/judge.py URL IN_FLIGHT CALLS``."""

from __future__ import annotations

import json
import sys
import time

from lm_eval_tasks.airbench_chat.prompt import JudgePrompt
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Verdict
from lm_eval_tasks.settings import JudgeSettings


def main(url: str, in_flight: int, calls: int) -> None:
    """Ask ``calls`` different questions of about 3,500 characters, without a cache."""
    judge = Judge(
        JudgeSettings(judge_model="bench-judge", judge_base_url=url, judge_concurrency=in_flight, judge_cache=False)
    )
    prompt = JudgePrompt.load(None)
    questions = [prompt.ask("Rain falls. " * 150, f"What is clip {n}?", "Rain.", "Wind.") for n in range(calls)]
    judge.ask(questions[:in_flight], "connecting")
    begun, cpu = time.monotonic(), time.process_time()
    outcomes = judge.ask(questions[in_flight:], "judging")
    wall, cpu = time.monotonic() - begun, time.process_time() - cpu
    assert all(isinstance(outcome, Verdict) for outcome in outcomes)
    print(json.dumps({"calls": len(outcomes), "wall": wall, "cpu": cpu}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
