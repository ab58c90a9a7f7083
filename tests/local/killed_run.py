"""A run that counts its prompts and dies, as by a power cut, when it has answered so many batches.

killed_run.py CHECKPOINT DATA CACHE JUDGE_URL DIE_AFTER
"""

from __future__ import annotations

import os
import signal
import sys

import torch
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

import lm_eval_tasks.models  # noqa: F401 - registers the model
from lm_eval_tasks import INCLUDE_PATH
from lm_eval_tasks.models.local_generate import Generator

checkpoint, data, cache, judge, die_after = sys.argv[1:]
torch.set_num_threads(1)
answer, batches = Generator.__call__, []


def counted(self, inputs, options):
    if len(batches) == int(die_after):
        os.kill(os.getpid(), signal.SIGKILL)
    batches.append(len(inputs["input_ids"]))
    return answer(self, inputs, options)


Generator.__call__ = counted
metadata = {"local_path": data, "judge_model": "judge-1", "judge_base_url": judge}
results = simple_evaluate(
    "hf-audio",
    {"pretrained": checkpoint, "device": "cpu", "dtype": "float32"},
    tasks=["air_bench_chat_sound_QA"],
    task_manager=TaskManager(include_path=[str(INCLUDE_PATH)], include_defaults=False, metadata=metadata),
    apply_chat_template=True,
    batch_size=2,
    gen_kwargs="max_gen_toks=4",
    use_cache=cache,
    bootstrap_iters=0,
)
print("answered now:", sum(batches), results["results"]["air_bench_chat_sound_QA"]["gpt_score,judge"])
