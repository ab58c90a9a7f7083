"""``transformers serve``: an OpenAI-compatible server that nobody here wrote, on a tiny checkpoint."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from lm_eval_tasks import cli

pytest.importorskip("fastapi")


def test_a_run_with_transformers_serve(checkpoint, server, tmp_path):
    server.script("judge", "8 6")
    program = Path(sys.executable).with_name("transformers")
    command = f"{shlex.quote(str(program))} serve {checkpoint()} --port {{port}} --device cpu --dtype float32"
    metadata = {"local_path": "sample", "judge_model": "judge-1", "judge_base_url": server.url()}
    status = cli.main(
        [
            *("run", "--serve", command, "--serve_timeout", "300", "--tasks", "air_bench_chat"),
            *("--model_args", "num_concurrent=2", "--gen_kwargs", "max_gen_toks=4"),
            *("--metadata", json.dumps(metadata), "--output_path", str(tmp_path), "--log_samples"),
        ]
    )
    assert status == 0
    samples = [json.loads(line) for path in tmp_path.rglob("samples_*.jsonl") for line in path.open(encoding="utf-8")]
    answers = [sample["resps"][0][0] for sample in samples]
    assert len(answers) == 20 and all(map(str.strip, answers)) and len(set(answers)) > 10
