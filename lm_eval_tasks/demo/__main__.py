"""Run all benchmarks on the bundled samples with the stock ``lm_eval`` command and the demo server.

    python -m lm_eval_tasks.demo

Needs no network, no key and no model: it shows the whole way from a clip to a table, and its scores mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from lm_eval_tasks import INCLUDE_PATH
from lm_eval_tasks.demo.server import JUDGE, LISTENER, running_server

NOTICE = (
    "These are DEMO scores and mean NOTHING: the model under test measures loudness, the judge counts shared words.\n"
    "They only show that everything is connected."
)


def command(base_url: str, tasks: str, output: Path) -> list[str]:
    """The arguments after ``lm_eval`` of the stock command that evaluates the listener at ``base_url``."""
    metadata = {"local_path": "sample", "judge_model": JUDGE, "judge_base_url": base_url, "judge_cache": False}
    return [
        "run",
        *("--model", "local-chat-completions"),
        *("--model_args", f"model={LISTENER},base_url={base_url}/chat/completions,num_concurrent=8"),
        "--apply_chat_template",
        *("--include_path", str(INCLUDE_PATH)),
        *("--tasks", tasks),
        *("--metadata", json.dumps(metadata)),
        *("--output_path", str(output)),
        "--log_samples",
    ]


def environment() -> dict[str, str]:
    """This process's environment without keys and settings that belong to real runs, and offline."""
    foreign = ("OPENAI_API_KEY", "JUDGE_API_KEY")
    kept = {k: v for k, v in os.environ.items() if k not in foreign and not k.startswith("LM_EVAL_TASKS_")}
    around = ",".join(filter(None, [kept.get("NO_PROXY") or kept.get("no_proxy"), "127.0.0.1"]))
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return kept | offline | {"NO_PROXY": around, "no_proxy": around, "TOKENIZERS_PARALLELISM": "false"}


def banner(text: str) -> None:
    """Print ``text`` between two rules."""
    print(f"\n{'=' * 100}\n{text}\n{'=' * 100}\n", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; returns lm_eval's exit status."""
    parser = argparse.ArgumentParser(prog="python -m lm_eval_tasks.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="air_bench_foundation,air_bench_chat,intima", help="default: %(default)s")
    parser.add_argument("--output_path", type=Path, default=Path("out/demo"), help="default: %(default)s")
    chosen = parser.parse_args(arguments)
    banner(NOTICE)
    with running_server() as url:
        tail = command(url, chosen.tasks, chosen.output_path)
        print(f"$ {shlex.join(['lm_eval', *tail])}\n", flush=True)
        status = subprocess.run([sys.executable, "-m", "lm_eval", *tail], env=environment(), check=False).returncode
    banner(NOTICE)
    if status:
        print(f"lm_eval ended with exit status {status}; see its message above.", file=sys.stderr)
        return status
    report = ["report", str(chosen.output_path), "-o", str(chosen.output_path / "report.html")]
    return subprocess.run([sys.executable, "-m", "lm_eval_tasks.cli", *report], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
