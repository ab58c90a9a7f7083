"""Whole runs with lm-eval: the bundled sample, the cache, and a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import forget_judges
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

import lm_eval_tasks.models  # noqa: F401 - registers the model
from lm_eval_tasks import INCLUDE_PATH, cli
from lm_eval_tasks.demo.server import JUDGE, running_server


def run(url, checkpoint, *tasks, data="sample", **options):
    forget_judges()
    metadata = {"local_path": str(data), "judge_model": JUDGE, "judge_base_url": url, "judge_cache": False}
    return simple_evaluate(
        "hf-audio",
        {"pretrained": str(checkpoint), "device": "cpu", "dtype": "float32"},
        tasks=list(tasks),
        task_manager=TaskManager(include_path=[str(INCLUDE_PATH)], include_defaults=False, metadata=metadata),
        apply_chat_template=True,
        gen_kwargs="max_gen_toks=4",
        bootstrap_iters=0,
        **options,
    )


@pytest.fixture(scope="module")
def demo():
    with running_server() as url:
        yield url


def test_both_benchmarks_on_the_bundled_samples_with_the_demos_judge(demo, checkpoint):
    results = run(demo, checkpoint(), "air_bench_chat", "intima", batch_size=4)
    assert 1 <= results["results"]["air_bench_chat"]["gpt_score,judge"] <= 10
    samples = [sample for task in results["samples"].values() for sample in task]
    answers = [sample["resps"][0][0] for sample in samples]
    assert len(answers) > 20 and all(answer.finish for answer in answers) and len(set(answers)) > 10
    assert results["config"]["hf_audio"]["batch_size"] == 4
    names = {json.loads(sample["arguments"][0][0][0])[0]["model"] for sample in samples}
    assert names == {results["config"]["hf_audio"]["checkpoint"]}
    assert all(len(str(sample["arguments"])) < 5000 for sample in samples)  # clips are in them by reference


def test_one_checkpoints_answers_are_never_taken_for_anothers(demo, checkpoint, make_data, tmp_path):
    data, cache = make_data(sound_QA=2), str(tmp_path / "answers")
    found = [
        run(demo, one, "air_bench_chat_sound_QA", data=data, use_cache=cache)["samples"]["air_bench_chat_sound_QA"]
        for one in (checkpoint(), checkpoint("audioflamingo3"), checkpoint())
    ]
    first, other, again = ([sample["resps"][0][0] for sample in samples] for samples in found)
    assert first == again != other
    assert [answer.finish for answer in first] == [answer.finish for answer in again]


def test_after_a_kill_only_the_unfinished_batches_are_made_again(checkpoint, make_data, server, tmp_path):
    server.script("judge", "8 6")
    script, data = Path(__file__).with_name("killed_run.py"), make_data(sound_QA=6)
    command = [sys.executable, str(script), str(checkpoint()), str(data), str(tmp_path / "answers"), server.url()]
    killed = subprocess.run([*command, "2"], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    for left in (2, 0):
        done = subprocess.run([*command, "9"], capture_output=True, text=True, check=True)
        assert f"answered now: {left} 7.0" in done.stdout


def test_the_command(demo, checkpoint, tmp_path):
    metadata = {"local_path": "sample", "judge_model": JUDGE, "judge_base_url": demo}
    status = cli.main(
        [
            *("run", "--model", "hf-audio", "--model_args", f"pretrained={checkpoint()},dtype=float32"),
            *("--device", "cpu", "--batch_size", "auto", "--max_batch_size", "2", "--apply_chat_template"),
            *(
                "--tasks",
                "air_bench_chat_sound_QA",
                "--metadata",
                json.dumps(metadata),
                "--gen_kwargs",
                "max_gen_toks=4",
            ),
            *("--output_path", str(tmp_path)),
        ]
    )
    [results] = tmp_path.rglob("results_*.json")
    assert status == 0 and json.loads(results.read_text())["config"]["hf_audio"]["batch_size"] == 2
