"""Models on this machine, where the extra that they need is missing: these tests need no torch."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from lm_eval.api.registry import model_registry

import lm_eval_tasks.models  # noqa: F401 - registers the models

WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from lm_eval_tasks.cli import main
sys.exit(main(["run", "--model", "hf-audio", "--model_args", "pretrained=x", "--tasks", "intima"]))
"""


@pytest.mark.parametrize("missing", ["torch", "transformers", "accelerate"])
def test_without_the_extra_one_line_names_it(missing, tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT, missing], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert last.startswith("lm-eval-tasks: ") and "pip install 'lm-eval-tasks[local]'" in last
    assert "Traceback" not in run.stderr


def test_the_models_take_no_torch_to_register_and_are_entry_points_for_lm_evals_next_release(tmp_path):
    code = "import sys, lm_eval_tasks.models; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=tmp_path).returncode == 0
    assert "hf-audio" in model_registry
    declared = {point.name: point.value for point in entry_points(group="lm_eval.models")}
    assert declared["hf-audio"] == "lm_eval_tasks.models.local:HFAudio"
    assert declared["audio-chat-completions"] == "lm_eval_tasks.models.api:AudioChatCompletions"
