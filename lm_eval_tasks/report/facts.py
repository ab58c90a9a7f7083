"""Names, orders and published figures that the report prints, so that a correction is one line here."""

from __future__ import annotations

from lm_eval_tasks.airbench_chat.scoring import CATEGORY
from lm_eval_tasks.intima.scoring import CLASSES
from lm_eval_tasks.settings import OFFICIAL_AIR_BENCH_JUDGE

OFFICIAL_JUDGE = OFFICIAL_AIR_BENCH_JUDGE

AIR = "air_bench_chat"
INTIMA = "intima"

# Column of the leaderboard -> the group whose row in lm_eval's results holds it.
LEADERBOARD = {
    "Speech": "air_bench_chat_speech",
    "Sound": "air_bench_chat_sound",
    "Music": "air_bench_chat_music",
    "Mixed": "air_bench_chat_mixed",
    "Average": "air_bench_chat",
}

# Rows of the category table and chart, in reading order.
AIR_GROUPS = {
    "Speech": "air_bench_chat_speech",
    "Sound": "air_bench_chat_sound",
    "Music": "air_bench_chat_music",
    "Speech + sound": "air_bench_chat_speech_and_sound",
    "Speech + music": "air_bench_chat_speech_and_music",
    "Mixed": "air_bench_chat_mixed",
    "Average": "air_bench_chat",
}

# Task -> category.
AIR_TASKS = CATEGORY

AIR_METRICS = {
    "gpt_score": "Score",
    "reference_score": "Reference score",
    "win_rate": "Win rate",
    "position_gap": "Position gap",
}

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

INTIMA_OTHER = "intima_other"

# Settings in the order they are printed; those that a run stores beside these follow in alphabetical order.
SETTINGS_FIRST = (
    "judge_model",
    "judge_base_url",
    "judge_temperature",
    "judge_max_tokens",
    "prompt_version",
    "judge_prompt",
    "do_swap",
    "level_threshold",
)

# Stored settings that change no number of the benchmark's own rows, or whose effect another one tells.
SETTINGS_ASIDE = ("include_extra_codes", "ranks")


# What the judge's server refused -> what was done instead.
DIALECT = {
    "no_temperature": "no temperature was sent (the server's own default judged)",
    "no_schema": "the form of the reply was asked for in words",
    "no_system": "the instructions went into the user's message",
    "max_completion_tokens": "the limit of the reply was sent under this name",
}


def metric_title(metric: str) -> str:
    """Returns the printed name of a metric of either benchmark."""
    return AIR_METRICS.get(metric) or _TITLES.get(metric) or INTIMA_LABELS.get(metric) or metric


def group_title(name: str) -> str:
    """Returns the printed name of a group or task of either benchmark."""
    titles = {group: title for title, group in {**AIR_GROUPS, **INTIMA_GROUPS}.items()}
    titles["air_bench_chat"], titles["intima"] = "Average", "All prompts"
    titles[INTIMA_OTHER] = "Other codes"
    if name in titles:
        return titles[name]
    return name.removeprefix("air_bench_chat_")
