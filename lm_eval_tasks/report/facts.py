"""Names, orders and published figures that the report prints, so that a correction is one line here."""

from __future__ import annotations

import re

from lm_eval_tasks.air_bench_foundation import scoring as foundation
from lm_eval_tasks.airbench_chat import scoring
from lm_eval_tasks.intima.scoring import CLASSES, PROMPTS
from lm_eval_tasks.settings import OFFICIAL_AIR_BENCH_JUDGE

OFFICIAL_JUDGE = OFFICIAL_AIR_BENCH_JUDGE
JUDGE_SHUT_DOWN = "2026-03-26"  # by OpenAI: no published row can be repeated with its judge
PAPER_JUDGES = re.compile(r"qwen[-_ ]?3(?!\.?[0-9])", re.IGNORECASE)  # INTIMA's judge was an open model of this family
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

AIR_METRICS = {
    "gpt_score": "Score",
    "reference_score": "Reference score",
    "win_rate": "Win rate",
    "position_gap": "Position gap",
}

LEADERBOARD = {title: AIR_GROUPS[title] for title in ("Speech", "Sound", "Music", "Mixed", "Average")}

# The leaderboard of the official repository (speech, sound, music, mixed, average); None where it prints none.
PUBLISHED = (
    ("Qwen2-Audio", (7.18, 6.99, 6.79, 6.77, 6.93)),
    ("Qwen-Audio-Turbo", (7.04, 6.59, 5.98, 5.77, 6.34)),
    ("SALMONN", (6.16, 6.28, 5.95, 6.08, 6.11)),
    ("Qwen-Audio", (6.47, 6.95, 5.52, 5.38, 6.08)),
    ("Gemini-1.5-pro", (6.97, 5.49, 5.06, 5.27, 5.70)),
    ("BLSP", (6.17, 5.55, 5.08, 4.52, 5.33)),
    ("PandaGPT", (3.58, 5.46, 5.06, 2.93, 4.25)),
    ("NExT-GPT", (3.86, 4.76, 4.18, 2.92, 4.13)),
    ("SpeechGPT", (1.57, 0.95, 0.95, 1.14, 1.15)),
    ("Macaw-LLM", (0.97, 1.01, 0.91, 1.00, 1.01)),
    ("Whisper+GPT-4", (7.54, None, None, None, None)),
)

_TITLES = {
    "companionship_reinforcing": "Companionship-reinforcing",
    "boundary_maintaining": "Boundary-maintaining",
    "companionship_neutral": "Companionship-neutral",
    "sycophancy_agreement": "Sycophancy / agreement",
    "anthropomorphism": "Anthropomorphism",
    "isolation": "Isolation",
    "retention_engagement": "Retention / engagement",
    "redirect_to_human": "Redirect to human",
    "professional_limitations": "Professional limitations",
    "programmatic_limitations": "Programmatic limitations",
    "personification_resistance": "Personification resistance",
    "adequate_information": "Adequate information",
    "off_topic": "Off-topic",
}

INTIMA_CLASSES = {name: _TITLES[name] for name in CLASSES}
INTIMA_TRAITS = {trait: _TITLES[trait] for traits in CLASSES.values() for trait in traits}
INTIMA_METRICS = (*INTIMA_CLASSES, *INTIMA_TRAITS)

# Places in INTIMA_METRICS: each class followed by its traits.
INTIMA_PLACES = [[INTIMA_METRICS.index(name) for name in (group, *traits)] for group, traits in CLASSES.items()]

INTIMA_LABELS = {
    "label_reinforcing": "Reinforcing",
    "label_mixed": "Mixed",
    "label_boundary": "Boundary",
    "label_neutral": "Neutral",
}

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
SETTINGS = {
    "judge_model": "Judge",
    "answered": "Judge as its server named it",
    "judge_base_url": "Judge's address",
    "judge_temperature": "Judge's temperature",
    "judge_max_tokens": "Judge's reply limit, tokens",
    "judge_repeats": "Times that each question was put to the judge",
    "prompt_form": "Form of the prompt",
    "prompt_version": "Version of the prompt",
    "judge_prompt": "Judge's prompt",
    "judge_prompt.system": "Judge's prompt, instructions",
    "judge_prompt.template": "Judge's prompt, template",
    "judge_prompt.re_ask": "Added when the judge is asked again",
    "do_swap": "Judged in both orders",
    "level_threshold": "Level that counts",
    "dialect": "What the judge's server did not take",
    "source": "Data hub",
    "revision": "Revision asked for",
    "data_revision": "Data commit",
    "data.sha256": "SHA-256 of the data list",
    "data.records": "Records in the data",
    "data.official": "Records in the benchmark",
    "local_path": "Data folder",
    "audio_part": "Form in which clips are sent",
    "audio_sample_rate": "Sample rate of the clips, Hz",
    "max_audio_seconds": "Longest clip, seconds",
    "model": "Type of model in lm-eval",
    "model_args": "Arguments of the model",
    "model_args.model": "Model",
    "model_args.base_url": "Address of the model",
    "answers.models": "Model as its server named it",
    "system_instruction": "System instruction",
    "chat_template_sha": "Chat template, SHA",
    "gen_kwargs": "Generation settings of the command (--gen_kwargs)",
    "generation.max_gen_toks": "Answer limit, tokens",
    "generation.temperature": "Temperature",
    "generation.do_sample": "Sampling",
    "generation.until": "Stops at",
    "limit": "Docs per task (--limit)",
    "repeats": "Answers per doc",
    "num_fewshot": "Examples in the prompt",
    "answers.finish": "How answers ended",
    "answers.cut": "Answers cut by their limit of tokens",
    "answers.prompt_tokens": "Tokens read by the model",
    "answers.completion_tokens": "Tokens written by the model",
    "process.version": "Version of this pack",
    "process.commit": "Commit of this pack",
    "lm_eval_version": "Version of lm-eval",
    "written": "Results written",
}

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
    "length": "cut by its limit of tokens",
    "thinking": "stopped while still thinking",
}


_GROUP_TITLES = {
    group: title for groups in (AIR_GROUPS, INTIMA_GROUPS, FOUNDATION_GROUPS) for title, group in groups.items()
}
_GROUP_TITLES |= {AIR: "Average", INTIMA: "All prompts", "intima_other": "Other codes"}


def metric_title(metric: str) -> str:
    """Returns the printed name of a metric of either benchmark."""
    return AIR_METRICS.get(metric) or _TITLES.get(metric) or INTIMA_LABELS.get(metric) or metric


def group_title(name: str) -> str:
    """Returns the printed name of a group or task of either benchmark."""
    return _GROUP_TITLES.get(name) or name.removeprefix(f"{AIR}_").removeprefix(f"{FOUNDATION}_")
