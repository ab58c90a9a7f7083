"""Names, orders and published figures that the report prints, so that a correction is one line here."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

from lm_eval_tasks.air_bench_foundation import scoring as foundation
from lm_eval_tasks.airbench_chat import scoring
from lm_eval_tasks.intima.scoring import CLASSES, PROMPTS
from lm_eval_tasks.intima.scoring import KEYS as INTIMA_METRICS
from lm_eval_tasks.settings import OFFICIAL_AIR_BENCH_JUDGE

_HERE = Path(__file__).parent
OFFICIAL_JUDGE = OFFICIAL_AIR_BENCH_JUDGE
DEMO_JUDGE = "demo-judge"

AIR = "air_bench_chat"
INTIMA = "intima"
FOUNDATION = "air_bench_foundation"
TITLES = {AIR: "AIR-Bench-Chat", INTIMA: "INTIMA", FOUNDATION: "AIR-Bench Foundation"}
JUDGED = (AIR, INTIMA)
SHORT = {AIR: "air", INTIMA: "intima", FOUNDATION: "foundation"}
"""Names in the addresses of samples."""
MAIN_METRIC = {AIR: "gpt_score", INTIMA: "companionship_reinforcing", FOUNDATION: "acc"}

# Rows of the category table and chart, in reading order -> the group whose row in lm_eval's results holds it.
AIR_GROUPS = {
    "Speech": "air_bench_chat_speech",
    "Sound": "air_bench_chat_sound",
    "Music": "air_bench_chat_music",
    "Speech + sound": "air_bench_chat_speech_and_sound",
    "Speech + music": "air_bench_chat_speech_and_music",
    "Mixed": "air_bench_chat_mixed",
    "Average": "air_bench_chat",
}

AIR_METRICS = ("gpt_score", "reference_score", "win_rate", "position_gap")


def _published(benchmark: str) -> tuple[list[str], dict[str, tuple[float | None, ...]]]:
    """The head and the rows that a benchmark's official repository prints; None where it prints no number."""
    with (_HERE / "published" / f"{benchmark}.csv").open(encoding="utf-8", newline="") as file:
        (_, *head), *rows = csv.reader(file)
    return head, {name: tuple(float(value) if value else None for value in values) for name, *values in rows}


PUBLISHED = {benchmark: _published(benchmark) for benchmark in (AIR, FOUNDATION)}
LEADERBOARD = {title: AIR_GROUPS[title] for title in PUBLISHED[AIR][0]}

INTIMA_LABELS = {f"label_{name.lower()}": name for name in ("Reinforcing", "Mixed", "Boundary", "Neutral")}
METRIC_TITLES = {name: name.replace("_", " ").capitalize() for name in INTIMA_METRICS} | INTIMA_LABELS
METRIC_TITLES |= {
    "gpt_score": "Score",
    "companionship_reinforcing": "Companionship-reinforcing",
    "boundary_maintaining": "Boundary-maintaining",
    "companionship_neutral": "Companionship-neutral",
    "sycophancy_agreement": "Sycophancy / agreement",
    "retention_engagement": "Retention / engagement",
    "off_topic": "Off-topic",
}
INTIMA_CLASSES = {name: METRIC_TITLES[name] for name in CLASSES}
# Places in INTIMA_METRICS: each class followed by its traits.
INTIMA_PLACES = [[INTIMA_METRICS.index(name) for name in (group, *traits)] for group, traits in CLASSES.items()]
INTIMA_GROUPS = {
    "All": "intima",
    "Assistant traits": "intima_assistant_traits",
    "User vulnerabilities": "intima_user_vulnerabilities",
    "Relationship & intimacy": "intima_relationship_intimacy",
    "Emotional investment": "intima_emotional_investment",
}

# lm-eval's name of a task -> its records in the benchmark's data. A variant of a task is none of these.
RECORDS = {
    AIR: {f"{AIR}_{task}": count for task, count in scoring.RECORDS.items()},
    INTIMA: {f"{INTIMA}_{category}": count for category, count in PROMPTS.items()},
    FOUNDATION: {f"{FOUNDATION}_{task}": count for task, count in foundation.RECORDS.items()},
}

# Task -> the groups in whose rows it counts, the smallest first.
GROUPS = {task: [INTIMA] for task in RECORDS[INTIMA]} | {
    f"{AIR}_{task}": [f"{AIR}_{category}", *([AIR_GROUPS["Mixed"]] if "_and_" in category else []), AIR]
    for task, category in scoring.CATEGORY.items()
}
GROUPS |= {f"{FOUNDATION}_{task}": [f"{FOUNDATION}_{kind}", FOUNDATION] for task, kind in foundation.CATEGORY.items()}

FOUNDATION_GROUPS = {"Average": FOUNDATION} | {
    name: f"{FOUNDATION}_{name.lower()}" for name in ("Speech", "Sound", "Music")
}
ROWS = [*AIR_GROUPS.values(), *FOUNDATION_GROUPS.values()]

# Settings in the order they are printed -> their names; those that a run stores beside these follow under their own.
SETTINGS = json.loads((_HERE / "settings.json").read_text(encoding="utf-8"))

# Settings that are the model's own or its way to us, or tell of the machine: a difference in them shapes no number
# that another setting would not tell. A setting that is not named here may shape the numbers.
ASIDE = re.compile(
    r"""model_args(?:\.(?:model|pretrained|base_url|tokenizer\w*|num_concurrent|max_retries|timeout|trust_remote_code
            |device\w*|verify_certificate|header|auth_token|eos_string|revision|peft|tensor_parallel_size
            |gpu_memory_utilization|batch_size|max_batch_size|parallelize))?
    | model | model_name | model_source | chat_template\w* | batch_size | batch_sizes | device | use_cache | written
    | bootstrap_iters | answers\..* | answered | process\..* | lm_eval_version | git_hash | \w*date\w* | \w*sha
    | include_extra_codes | ranks | model_num_parameters | model_dtype | model_revision | model_sha | judged_again.*
    | made_with.* | data\.official | judge_api_key_env | judge_cache\w* | judge_concurrency | judge_timeout
    | judge_early | cache\w* | num_concurrent | generation\.do_sample""",
    re.VERBOSE,
)

# What the judge's server refused -> what was done instead.
DIALECT = {
    "no_temperature": "it took no temperature: its own default judged",
    "no_schema": "it took no schema: the form of the reply was asked for in words",
    "no_system": "it took no system message: the instructions went into the user's message",
    "max_completion_tokens": "it took the limit of the reply under the name max_completion_tokens",
}

FLAGS = {
    "empty_answer": "empty answer",
    "neutralised": "looked like part of the prompt, so it was rewritten for the judge",
    "length": "cut off at the token limit",
    "thinking": "stopped while still thinking",
}

_GROUPS = (AIR_GROUPS, INTIMA_GROUPS, FOUNDATION_GROUPS)
_GROUP_TITLES = {group: title for titles in _GROUPS for title, group in titles.items()}
_GROUP_TITLES |= {INTIMA: "All prompts", "intima_other": "Other codes"}


def place(benchmark: str, task: str) -> int:
    """Where a task stands among those of its benchmark; a variant stands behind them."""
    return list(RECORDS[benchmark]).index(task) if task in RECORDS[benchmark] else len(RECORDS[benchmark])


def group_title(name: str) -> str:
    """The printed name of a group or task."""
    return _GROUP_TITLES.get(name) or name.removeprefix(f"{AIR}_").removeprefix(f"{FOUNDATION}_")
