"""A long run against servers of which 2 % of all answers fail in every way: memory and time per doc must stay flat.

    python bench/soak.py               20,000 docs, and a quarter of them to compare with
    python bench/soak.py --docs 4000

The clips are a few small ones under many names. Prints a table, and ends with status 1 where a rule is broken: every
doc is judged or counted as unjudged, no fault has become a score, and a doc costs the larger run no more than the
smaller one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import data
from run import OURS, Run, command, environment, server

FAULTS = 0.02
HEAD = "| docs | judged | exit status | wall s | ms a doc | peak MB |\n|---|---|---|---|---|---|"
MORE = 1.25
"""A doc of the larger run may cost so many times that of the smaller one; machines are noisy."""
GROWTH_KB = 12
"""Kilobytes that a further doc may take: its record, its answer, its verdicts and its sample."""


def main() -> int:
    """Run twice; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=int, default=20_000)
    docs = parser.parse_args().docs
    with tempfile.TemporaryDirectory(prefix="lm-eval-tasks-soak-") as name:
        work = Path(name)
        data.CLIP_BYTES = (2000, 4000)
        source = data.make(work / "clips", 40)
        print(f"{100 * FAULTS:g} % faults\n\n{HEAD}", flush=True)
        sources = [data.make(work / f"data-{count}", count, source) for count in (docs // 4, docs)]
        small, large = (measure(work, one) for one in sources)
    growth = 1000 * (large["peak"] - small["peak"]) / (large["docs"] - small["docs"])
    slower = large["wall"] / large["docs"] / (small["wall"] / small["docs"])
    print(f"\na further doc takes {growth:.1f} kB and {slower:.2f} times as long")
    broken = [one["broken"] for one in (small, large) if one["broken"]]
    broken += [f"memory grows by {growth:.1f} kB a doc"] * (growth > GROWTH_KB)
    broken += [f"a doc takes {slower:.2f} times as long"] * (slower > MORE)
    print("\n".join(broken), file=sys.stderr)
    return bool(broken)


def measure(work: Path, source: Path) -> dict:
    """One run, as a row of the table."""
    out = work / "out"
    shutil.rmtree(out, ignore_errors=True)
    settings = {"judge_timeout": 2, "judge_patience": 60}
    with server(0, FAULTS) as port, (work / "log.txt").open("wb") as log:
        begun = time.monotonic()
        process = subprocess.Popen(
            command(Run("soak", OURS, 0, settings), port, source, out), env=environment(out), stdout=log, stderr=log
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begun
    status, text = os.waitstatus_to_exitcode(status), (work / "log.txt").read_text(encoding="utf-8", errors="replace")
    if status not in (0, 3) or "Traceback" in text:
        return _row({"docs": 1, "wall": wall, "peak": 0, "status": status, "judged": 0, "broken": text[-2000:]})
    (file,) = (out / "results").rglob("results_*.json")
    results = json.loads(file.read_text(encoding="utf-8"))
    told = [found["metadata"]["judging"] for found in results["configs"].values()]
    docs, judged = sum(one["docs"] for one in told), sum(one["judged"] for one in told)
    unjudged = sum(sum(one["unjudged"].values()) for one in told)
    scores = {row["gpt_score,judge"] for row in results["results"].values() if "gpt_score,judge" in row}
    broken = "" if docs == judged + unjudged and scores == {7.0} else f"{docs} docs, {judged} + {unjudged}, {scores}"
    peak = usage.ru_maxrss / 1024
    return _row({"docs": docs, "wall": wall, "peak": peak, "status": status, "judged": judged, "broken": broken})


def _row(found: dict) -> dict:
    print(
        f"| {found['docs']} | {found['judged']} | {found['status']} | {found['wall']:.0f} | "
        f"{1000 * found['wall'] / found['docs']:.1f} | {found['peak']:.0f} |",
        flush=True,
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
