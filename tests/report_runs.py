"""Writes synthetic run folders in the form lm_eval and the pack write them, for the tests of the report."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from report_samples import KEYS, LABELS, OFFICIAL, air_samples, foundation_samples, intima_samples, write_wav

from lm_eval_tasks import report

DATE = "2025-11-30T12-00-00.123456"


def _row(values: dict[str, list[float]]) -> dict:
    """Returns lm_eval's row of a task: mean and standard error of each metric."""
    row: dict = {}
    for name, numbers in values.items():
        if numbers:
            row[f"{name},judge"] = mean(numbers)
            row[f"{name}_stderr,judge"] = stdev(numbers) / len(numbers) ** 0.5 if len(numbers) > 1 else "N/A"
    return row


def _unweighted(rows: list[dict]) -> dict:
    """Returns the unweighted mean of rows, with the error of independent parts."""
    out: dict = {}
    for key in rows[0]:
        if "_stderr" in key or "," not in key or not all(key in row for row in rows):
            continue
        out[key] = mean(row[key] for row in rows)
        name, source = key.split(",")
        errors = [row[f"{name}_stderr,{source}"] for row in rows]
        numbers = [error for error in errors if error != "N/A"]
        whole = len(numbers) == len(errors)
        out[f"{name}_stderr,{source}"] = sum(e * e for e in numbers) ** 0.5 / len(errors) if whole else "N/A"
    return out


def results_rows(tasks: dict[str, list[dict]]) -> dict[str, dict]:
    """Returns lm_eval's rows for tasks and groups."""

    def collect(samples: list[dict], metrics: tuple[str, ...]) -> dict:
        return _row({name: [s[name] for s in samples if name in s] for name in metrics})

    rows: dict[str, dict] = {}
    air = {name: samples for name, samples in tasks.items() if name.startswith("air_bench_chat")}
    metrics = ("gpt_score", "win_rate", "reference_score", "position_gap")
    if air:
        groups: dict[str, list[dict]] = {}
        for name, samples in air.items():
            rows[name] = {"alias": name, **collect(samples, metrics)}
            groups.setdefault(samples[0]["doc"]["category"], []).extend(samples)
        for category, samples in groups.items():
            rows[f"air_bench_chat_{category}"] = collect(samples, metrics[:3])
        if len(groups) == 5:
            mixed = [rows["air_bench_chat_speech_and_sound"], rows["air_bench_chat_speech_and_music"]]
            rows["air_bench_chat_mixed"] = _unweighted(mixed)
            parts = [rows[f"air_bench_chat_{c}"] for c in ("speech", "sound", "music", "mixed")]
            rows["air_bench_chat"] = _unweighted(parts)
    foundation = {name: samples for name, samples in tasks.items() if name.startswith("air_bench_foundation")}
    for name, samples in foundation.items():
        rows[name] = {"alias": name, **collect(samples, ("acc", "official_acc"))}
    if foundation:
        rows["air_bench_foundation"] = _unweighted([rows[name] for name in foundation])
    intima = {name: samples for name, samples in tasks.items() if name.startswith("intima")}
    for name, samples in intima.items():
        rows[name] = {"alias": name, **collect(samples, KEYS + LABELS)}
    if intima:
        rows["intima"] = collect([s for samples in intima.values() for s in samples], KEYS + LABELS)
    return rows


def write_run(
    folder: Path,
    model: str = "listener-a",
    *,
    air: int = 0,
    intima: int = 0,
    foundation: int = 0,
    seed: int = 1,
    skill: float = 6.0,
    warmth: float = 0.6,
    judge: str = OFFICIAL,
    limit: int | None = None,
    audio: Path | None = None,
    clips: int = 10,
    hostile: bool = False,
    log_samples: bool = True,
    date: str = DATE,
    settings: dict | None = None,
    without: dict[str, str] | None = None,
    predict_only: bool = False,
) -> Path:
    """Writes one run below `folder` and returns `folder`, which is what --output_path would have been."""
    rng = random.Random(seed)
    if audio:
        for index in range(clips):
            write_wav(audio / f"{index}.wav")
    tasks = air_samples(air, rng, skill, audio, hostile, clips) if air else {}
    tasks |= intima_samples(intima, rng, warmth, hostile) if intima else {}
    tasks |= foundation_samples(foundation, rng, skill, audio) if foundation else {}
    tasks = {name: samples for name, samples in tasks.items() if name not in (without or {})}
    home = folder / "".join(c if c.isalnum() or c in "-_." else "_" for c in model)[:60]
    home.mkdir(parents=True, exist_ok=True)
    configs = {}
    for name, samples in tasks.items():
        records = [json.loads(sample["filtered_resps"][0]) for sample in samples]
        reasons = [record["reason"] for record in records if not record["judged"]]
        flags = [flag for record in records for flag in record.get("flags", [])]
        if records[0]["benchmark"] == "air_bench_foundation":
            letters = [record["letter"] for record in records if record["judged"]]
            scoring = {"docs": len(records), "scored": len(letters), "no_letter": letters.count(None)}
            scoring |= {"settings": {"prompt_form": "official"}, "unanswered": {"empty answer": len(reasons)}}
            configs[name] = {"metadata": {"benchmark": records[0]["benchmark"], "scoring": scoring}}
            continue
        configs[name] = {
            "task": name,
            "metadata": {
                "version": 1.0,
                "benchmark": records[0]["benchmark"],
                "judging": {
                    "benchmark": records[0]["benchmark"],
                    "settings": {
                        "judge_model": judge,
                        "judge_base_url": "https://api.openai.com/v1",
                        "judge_temperature": 0.0,
                        "judge_max_tokens": 1024,
                        "prompt_version": "1",
                        "do_swap": True,
                        **(settings or {}),
                    },
                    "docs": len(records),
                    "judged": len(records) - len(reasons),
                    "unjudged": {reason: reasons.count(reason) for reason in set(reasons)},
                    "judge_answered": {judge: len(records)},
                    "prompt_tokens": 300 * len(records),
                    "completion_tokens": 8 * len(records),
                    "calls": 2 * len(records),
                    "from_cache": 0,
                    "flags": {flag: flags.count(flag) for flag in set(flags)},
                    "left_out": {"missing": ["speech_QA_iemocap/Ses01.wav"]} if name.endswith("_speech_QA") else {},
                    "absent": without or {},
                },
            },
        }
    rows = results_rows(tasks)
    if predict_only:  # lm_eval's "bypass" stands for every metric, and nobody sums up how judging went
        rows = {name: {"alias": name, **({"bypass,judge": 999} if name in tasks else {})} for name in rows}
        for name, samples in tasks.items():
            configs[name]["metadata"].pop("judging", None)
            configs[name]["metadata"].pop("scoring", None)
            for sample in samples:
                sample["filtered_resps"] = sample["resps"][0]
    results = {
        "results": rows,
        "configs": configs,
        "n-samples": {name: {"original": len(s), "effective": len(s)} for name, s in tasks.items()},
        "config": {"model": "local-chat-completions", "model_args": {"model": model}, "limit": limit},
        "model_name": model,
        "date": 1764504000.0,
    }
    (home / f"results_{date}.json").write_text(json.dumps(results, ensure_ascii=False), encoding="utf-8")
    if log_samples:
        for name, samples in tasks.items():
            lines = "".join(json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples)
            (home / f"samples_{name}_{date}.jsonl").write_text(lines, encoding="utf-8")
    return folder


def change(folder: Path, edit: Callable[[dict], Any]) -> Path:
    """Edits the results file of a run; returns its folder."""
    [file] = folder.rglob("results_*.json")
    results = json.loads(file.read_text(encoding="utf-8"))
    edit(results)
    file.write_text(json.dumps(results), encoding="utf-8")
    return folder


def change_samples(folder: Path, edit: Callable[[int, dict, dict], Any], files: str = "samples_*.jsonl") -> Path:
    """Edits each logged sample of a run, by its place in its file, with its record, which `edit` puts back."""
    for file in folder.rglob(files):
        samples = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for place, sample in enumerate(samples):
            record = json.loads(sample["filtered_resps"][0]) if sample["filtered_resps"][0][:1] == "{" else {}
            edit(place, sample, record)
        file.write_text("".join(json.dumps(sample) + "\n" for sample in samples), encoding="utf-8")
    return folder


def make(*arguments: object) -> int:
    """Runs `report` as the command line would."""
    parser = argparse.ArgumentParser()
    report.add_arguments(parser)
    return report.run(parser.parse_args([str(argument) for argument in arguments]))
