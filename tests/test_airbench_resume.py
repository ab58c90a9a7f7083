"""A run killed in the middle and started again; and a run under a locale that is not UTF-8."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import processes
from airbench_runs import ALL, answers, listener, question
from conftest import load_metadata, save_metadata
from servers import said

from lm_eval_tasks import INCLUDE_PATH

DOCS, CONCURRENT = 120, 8


STOCK = ["-m", "lm_eval", "run", "--include_path", str(INCLUDE_PATH)]
OURS = ["-m", "lm_eval_tasks.cli", "run"]
"""The same run without reading lm-eval's own task files, which takes most of a short run's time."""


def arguments(server, root, out, cache):
    """What is given to a run."""
    metadata = {"judge_model": "judge-1", "judge_base_url": server.url(), "judge_concurrency": CONCURRENT}
    address = f"{server.url('model')}/chat/completions"
    metadata["local_path"] = str(root)
    command = ["--model", "local-chat-completions", "--apply_chat_template"]
    command += ["--model_args", f"model=listener,base_url={address},num_concurrent={CONCURRENT},max_retries=2"]
    command += ["--tasks", f"{ALL}_speech_QA", "--output_path", str(out), "--log_samples", "--use_cache", str(cache)]
    return [*command, "--metadata", json.dumps(metadata)]


def run_to_its_end(command, *given, **environment):
    """A run in a process of its own, under a new interpreter."""
    environment = {**os.environ, "OPENAI_API_KEY": "none", "HF_HUB_OFFLINE": "1", **environment}
    started = [sys.executable, *command, *arguments(*given)]
    done = subprocess.run(started, env=environment, capture_output=True, cwd=given[2].parent, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def asked(server):
    """How often each question was put: to the model by record, to the judge by record and order."""
    model = Counter(question(one) for one in server.asked["model"])
    judge = Counter((question(one), answers(one)) for one in server.asked["judge"])
    trials = sum(count for (what, _), count in judge.items() if what[0] == "trial")
    return model, Counter({key: n for key, n in judge.items() if key[0][0] != "trial"}), trials


def results_in(out):
    (file,) = out.rglob("results_*.json")
    return json.loads(file.read_text(encoding="utf-8"))


def test_a_run_killed_twice_repeats_only_the_calls_in_flight(server, make_data, tmp_path):
    """Killed while it generates and while it judges; then run to its end by the stock command."""
    root = make_data(speech_QA=DOCS)
    server.script("model", lambda one: said(listener(one), delay=0.01))
    server.script("judge", lambda one: said("8 6", delay=0.01))
    done = {"model": 0, "judge": 0}
    for point, (role, calls) in enumerate([("model", 60), ("judge", 120)]):
        log = tmp_path / f"{point}.log"
        given = arguments(server, root, tmp_path / f"killed-{point}", tmp_path / "answers")
        process = processes.start(log, processes.command, ["run", *given])
        processes.until(lambda role=role, calls=calls: server.calls(role) >= calls, process)
        process.kill()
        process.join()
        assert server.calls(role) >= calls, log.read_text(encoding="utf-8")[-3000:]
        model, judge, _ = asked(server)
        assert sum(model.values()) - len(model) <= CONCURRENT * (point + 1)
        assert sum(judge.values()) - len(judge) <= CONCURRENT * (point + 1)
        done = {"model": len(model), "judge": len(judge)}
    assert done["model"] == DOCS and done["judge"] < 2 * DOCS
    run_to_its_end(STOCK, server, root, tmp_path / "finished", tmp_path / "answers")
    model, judge, trials = asked(server)
    assert (len(model), len(judge), trials) == (DOCS, 2 * DOCS, 3)
    repeated = sum(model.values()) - DOCS, sum(judge.values()) - 2 * DOCS
    assert repeated[0] <= CONCURRENT and repeated[1] <= 2 * CONCURRENT
    found = results_in(tmp_path / "finished")["results"][f"{ALL}_speech_QA"]
    assert (found["gpt_score,judge"], found["position_gap,judge"]) == (7, 2)


def test_everything_is_written_as_utf8_under_a_c_locale(server, make_data, tmp_path):
    root = make_data(speech_QA=2)
    records = load_metadata(root)
    records[0]["question"] = "speech_QA question 0? Was h\u00f6rt man \u58f0 \U0001f3b5"
    save_metadata(root, records)
    server.script("model", "answer to \u00e4\u58f0\U0001f3b5")
    server.script("judge", "8 6\nAssistant 1 is gr\u00fcndlich.")
    (root / "Chat" / "speech_QA_iemocap" / "clip 1.wav").write_bytes(b"")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    run_to_its_end(OURS, server, root, tmp_path / "out", tmp_path / "answers", **locale)
    (file,) = (tmp_path / "out").rglob("samples_*.jsonl")
    (sample,) = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    assert sample["doc"]["question"] == records[0]["question"] and "\u58f0\U0001f3b5" in sample["resps"][0][0]
    assert "gr\u00fcndlich" in json.loads(sample["filtered_resps"][0])["verdicts"][0]["reply"]
    found = results_in(tmp_path / "out")["configs"][f"{ALL}_speech_QA"]["metadata"]["judging"]
    assert found["left_out"] == {"empty file": ["speech_QA_iemocap/clip 1.wav"]}
    assert any("question 0? Was h\u00f6rt man \u58f0" in text for text in server.texts("model"))
