"""What a run of ``hf-audio`` costs beside the model: reading, resampling, features, padding, storing and judging.

    make test-local               sets up .venv-local
    .venv-local/bin/python bench/local.py --records 160 --batch-size 4

``generate`` of a tiny checkpoint is replaced by a wait of one second a batch, as a model on a GPU would take; the judge
is bench/server.py. Prints what the run took beyond that wait.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import data
import torch
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

from lm_eval_tasks import INCLUDE_PATH
from lm_eval_tasks.models.local import HFAudio

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "local"))
import checkpoints  # noqa: E402 - of the tests

GENERATE = 1.0  # seconds a batch
TOKENS = 100


def main() -> None:
    """Measure one run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=160)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--family", choices=checkpoints.FAMILIES, default="qwen2_audio")
    chosen = parser.parse_args()
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lm-eval-tasks-bench-")))
        judge = subprocess.Popen(
            [sys.executable, str(HERE / "server.py"), "--latency-ms", "200"], stdout=subprocess.PIPE, text=True
        )
        stack.callback(judge.terminate)
        url = f"http://127.0.0.1:{judge.stdout.readline().strip()}/v1"
        source = data.make(work / "data", chosen.records)
        path = checkpoints.make(work / "checkpoint", chosen.family)
        model = HFAudio(str(path), device="cpu", dtype="float32", batch_size=chosen.batch_size)
        waits = wait_in_generate(model)
        load = os.getloadavg()[0]
        began, used = time.monotonic(), time.process_time()
        evaluate(model, source, url, work)
        whole, used = time.monotonic() - began, time.process_time() - used
        clips = len(list(source.glob("Chat/*/*.wav")))
    beside = whole - sum(waits)
    print(
        f"\n{chosen.family}, {clips} clips in {len(waits)} batches, load before {load:.1f}\n"
        f"whole run {whole:.1f} s, in generate {sum(waits):.1f} s; beside it {beside:.1f} s: "
        f"{100 * beside / whole:.1f} % of the run, {1000 * beside / clips:.0f} ms a clip "
        f"(CPU {1000 * used / clips:.0f} ms a clip)"
    )


def wait_in_generate(model: HFAudio) -> list[float]:
    """Put a wait in the place of ``generate``; returns where the time of each batch is noted."""
    waits: list[float] = []
    generate = model.model.generate

    def wait(**inputs: Any) -> Any:
        if inputs["max_new_tokens"] == 1:  # the checks before the first answer
            return generate(**inputs)
        began = time.monotonic()
        time.sleep(GENERATE)
        prompt = inputs["input_ids"]
        answer = torch.full((len(prompt), TOKENS), 300)
        waits.append(time.monotonic() - began)
        return torch.cat([prompt, answer], dim=1)

    model.model.generate = wait
    return waits


def evaluate(model: HFAudio, source: Path, url: str, work: Path) -> None:
    """One run of AIR-Bench-Chat with a judge and a cache of answers."""
    metadata = {"local_path": str(source), "judge_model": "bench-judge", "judge_base_url": url, "judge_cache": False}
    simple_evaluate(
        model,
        tasks=["air_bench_chat"],
        task_manager=TaskManager(include_path=[str(INCLUDE_PATH)], include_defaults=False, metadata=metadata),
        apply_chat_template=True,
        use_cache=str(work / "answers"),
        bootstrap_iters=0,
    )


if __name__ == "__main__":
    main()
