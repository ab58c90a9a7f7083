"""Models on this machine, where the extra that they need is missing: these tests need no torch."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import processes
import pytest
from lm_eval.api.registry import model_registry

import lm_eval_tasks.models  # noqa: F401 - registers the models


def without(module):
    """A run in which a module cannot be imported."""
    sys.modules[module] = None
    return processes.command(["run", "--model", "hf-audio", "--model_args", "pretrained=x", "--tasks", "intima"])


@pytest.mark.parametrize("missing", ["torch", "transformers", "accelerate"])
def test_without_the_extra_one_line_names_it(missing, tmp_path):
    run = processes.start(tmp_path / "log", without, missing)
    run.join(60)
    wrote = (tmp_path / "log").read_text(encoding="utf-8")
    assert run.exitcode == 1, wrote
    last = wrote.splitlines()[-1]
    assert last.startswith("lm-eval-tasks: ") and "pip install 'lm-eval-tasks[local]'" in last
    assert "Traceback" not in wrote


def test_the_models_take_no_torch_to_register_and_are_entry_points_for_lm_evals_next_release(tmp_path):
    code = "import sys, lm_eval_tasks.models; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=tmp_path).returncode == 0
    assert "hf-audio" in model_registry
    declared = {point.name: point.value for point in entry_points(group="lm_eval.models")}
    assert declared["hf-audio"] == "lm_eval_tasks.models.local:HFAudio"
    assert declared["audio-chat-completions"] == "lm_eval_tasks.models.api:AudioChatCompletions"
