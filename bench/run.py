"""Measures whole runs of AIR-Bench as processes, against a server that answers after a set time.

    python bench/run.py           160 records, under two minutes
    python bench/run.py --full    2,200 records (2 GB in the work folder), the memory curve, AIR-Bench Foundation in
                                  three sizes (3 GB more) and the judge alone

Prints a table for each part, ready for bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import data

HERE = Path(__file__).parent
IN_FLIGHT = 32
JUDGE = "judge"
OURS, STOCK = "audio-chat-completions", "local-chat-completions"


@dataclass(frozen=True)
class Run:
    """One command to measure.

    Args:
        name: what the table calls it.
        model: lm-eval's name of the model.
        latency_ms: of the server.
        settings: metadata besides the data and the judge.
        times: how often it is run; all but the first find everything in the caches.
        tasks: what is run.
    """

    name: str
    model: str
    latency_ms: int
    settings: dict[str, object] = field(default_factory=dict)
    times: int = 1
    tasks: str = "air_bench_chat"

    def bound(self, records: int) -> float:
        """Seconds that the server's latency alone takes: verdicts after answers, or beside them."""
        rounds = self.latency_ms / 1000 / IN_FLIGHT * records
        if self.model == JUDGE:
            return rounds * 2
        if self.tasks == "air_bench_foundation":  # it has no judge
            return rounds
        overlaps = self.model == OURS and self.settings.get("judge_early", True)
        return rounds * 2 if overlaps else rounds * 3


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the full size, the memory curve and the judge alone")
    parser.add_argument("--work", type=Path, help="folder for data and output (default: a temporary one)")
    chosen = parser.parse_args()
    with contextlib.ExitStack() as stack:
        work = chosen.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lm-eval-tasks-bench-")))
        print(
            f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores ({_processor()}), Python {platform.python_version()}"
        )
        print(f"load before: {os.getloadavg()[0]:.1f}\n", flush=True)
        records = 2200 if chosen.full else 160
        source = data.make(work / f"data-{records}", records)
        compare(work, source, records)
        judge_answers(work, source, records)
        if chosen.full:
            memory_curve(work, source)
            without_judge(work)
            judge_alone()


def compare(work: Path, source: Path, records: int) -> None:
    """The pack's model and the stock one, at once and at 200 ms."""
    print(f"\n{records} records, {IN_FLIGHT} requests in flight\n\n{HEAD}", flush=True)
    measure(work, source, records, Run("pack's model, run and run again", OURS, 200, times=2))
    measure(work, source, records, Run("same, judge_early=false", OURS, 200, {"judge_early": False}))
    measure(work, source, records, Run("same, audio_part=file_url", OURS, 200, {"audio_part": "file_url"}))
    measure(work, source, records, Run("stock model", STOCK, 200))
    measure(work, source, records, Run("pack's model", OURS, 0))
    measure(work, source, records, Run("stock model", STOCK, 0))


def memory_curve(work: Path, source: Path) -> None:
    """The pack's model on sets of four sizes."""
    print(f"\nMemory over the size of the set\n\n{HEAD}", flush=True)
    for records in (550, 1100, 2200, 4400):
        made = data.make(work / f"data-{records}", records, source)
        measure(work, made, records, Run(f"pack's model, {records} records", OURS, 0))


def judge_answers(work: Path, source: Path, records: int) -> None:
    """``lm-eval-tasks judge`` on a file of answers: two verdicts on each, no model."""
    file = work / "answers.jsonl"
    rows = json.loads((source / "Chat" / "Chat_meta.json").read_text(encoding="utf-8"))
    file.write_text("".join(json.dumps(row | {"response": "Some noise."}) + "\n" for row in rows), encoding="utf-8")
    print(f"\n{records} answers of a file, {IN_FLIGHT} requests in flight\n\n{HEAD}", flush=True)
    measure(work, source, records, Run("judge FILE, and again", JUDGE, 200, times=2))


def without_judge(work: Path) -> None:
    """AIR-Bench Foundation in three sizes, the last one nearly its own."""
    print(f"\nAIR-Bench Foundation\n\n{HEAD}", flush=True)
    for records in (5000, 10_000, 20_000):
        source = data.make_foundation(work / f"foundation-{records}", records)
        run = Run(f"pack's model, Foundation, {records} records", OURS, 0, tasks="air_bench_foundation")
        measure(work, source, records, run)


def judge_alone() -> None:
    """The judge with 256 calls in flight at 50 ms."""
    with server(50) as port:
        command = [sys.executable, HERE / "judge.py", f"http://127.0.0.1:{port}/v1", "256", "8000"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(
        f"\nJudge alone, 256 in flight at 50 ms: {found['calls'] / found['wall']:.0f} calls a second of 5120 that the "
        f"latency allows; {1000 * found['cpu'] / found['calls']:.2f} ms CPU a call, "
        f"{100 * found['cpu'] / found['wall']:.0f} % of one core"
    )


HEAD = (
    "| run | latency | wall s | bound s | wall / bound | CPU s | peak MB | answers + verdicts | in flight | sent MB | "
    "written MB |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def measure(work: Path, source: Path, records: int, run: Run) -> None:
    """Run a command and print a row for each time."""
    out = work / "out"
    shutil.rmtree(out, ignore_errors=True)
    with server(run.latency_ms) as port:
        for number in range(run.times):
            _get(port, "/stats")
            begun = time.monotonic()
            with (work / "log.txt").open("ab") as log:
                process = subprocess.Popen(
                    command(run, port, source, out), env=environment(out), stdout=log, stderr=log
                )
                _, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - begun
            if status:
                raise SystemExit(f"{run.name} failed; see {work / 'log.txt'} (keep it with --work)")
            stats = _get(port, "/stats")
            bound = run.bound(records) if stats["calls"] else 0.0
            cells = [
                run.name if number == 0 else "... again, everything cached",
                f"{run.latency_ms} ms",
                f"{wall:.1f}",
                f"{bound:.1f}" if bound else "-",
                f"{wall / bound:.2f}" if bound else "-",
                f"{usage.ru_utime + usage.ru_stime:.1f}",
                f"{usage.ru_maxrss / 1024:.0f}",
                f"{stats['calls'].get('model', 0)} + {stats['calls'].get('judge', 0)}",
                f"{stats['peak']}",
                f"{stats['received'] / 1e6:.0f}",
                f"{sum(path.stat().st_size for path in out.rglob('*') if path.is_file()) / 1e6:.1f}",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


def command(run: Run, port: int, source: Path, out: Path) -> list[str]:
    """The command of a run: ``lm-eval-tasks run`` for the pack's model, ``lm_eval run`` for the stock one."""
    url = f"http://127.0.0.1:{port}/v1"
    metadata = {
        "local_path": str(source),
        "judge_model": "bench-judge",
        "judge_base_url": url,
        "judge_concurrency": IN_FLIGHT,
        **run.settings,
    }
    if run.model == JUDGE:
        words = ["judge", str(out.parent / "answers.jsonl"), "--metadata", json.dumps(metadata)]
        return [sys.executable, "-m", "lm_eval_tasks.cli", *words, "--output_path", str(out / "results")]
    stock = ["lm_eval", "run", "--include_path", str(HERE.parent / "lm_eval_tasks")]
    program = ["lm_eval_tasks.cli", "run"] if run.model == OURS else stock
    return [
        *(sys.executable, "-m", *program),
        *("--model", run.model),
        *("--model_args", f"model=bench-model,base_url={url}/chat/completions,num_concurrent={IN_FLIGHT}"),
        "--apply_chat_template",
        *("--tasks", run.tasks),
        *("--metadata", json.dumps(metadata)),
        *("--output_path", str(out / "results")),
        "--log_samples",
        *("--use_cache", str(out / "answers")),
    ]


def environment(out: Path) -> dict[str, str]:
    """Offline, without a key of one's own, and with a cache that begins empty."""
    around = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return {**os.environ, **around, **offline, "OPENAI_API_KEY": "none", "XDG_CACHE_HOME": str(out / "cache")}


@contextlib.contextmanager
def server(latency_ms: int, faults: float = 0.0) -> Iterator[int]:
    """A server in a process of its own for the length of the block; gives its port."""
    arguments = [sys.executable, str(HERE / "server.py"), "--latency-ms", str(latency_ms), "--faults", str(faults)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _get(port: int, path: str) -> dict:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
        return json.load(response)


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
