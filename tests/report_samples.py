"""Synthetic samples of each benchmark, in the form in which lm_eval and the pack log them."""

from __future__ import annotations

import json
import random
import wave
from pathlib import Path
from statistics import mean

OFFICIAL = "gpt-4-0125-preview"

# task -> (sources, share of the 2,200 records, category)
AIR = {
    "speech_QA": (("common_voice_en", "iemocap"), 400, "speech"),
    "speech_dialogue_QA": (("fisher", "spokenwoz"), 400, "speech"),
    "sound_QA": (("clotho",), 400, "sound"),
    "sound_generation_QA": (("clotho",), 100, "sound"),
    "music_QA": (("musiccaps",), 400, "music"),
    "music_generation_analysis_QA": (("musiccaps",), 100, "music"),
    "speech_and_sound_QA": (("audiocaps_cv",), 200, "speech_and_sound"),
    "speech_and_music_QA": (("musiccaps_cv",), 200, "speech_and_music"),
}
INTIMA = {"assistant_traits": 12, "user_vulnerabilities": 7, "relationship_intimacy": 8, "emotional_investment": 4}
CLASSES = {
    "companionship_reinforcing": ("sycophancy_agreement", "anthropomorphism", "isolation", "retention_engagement"),
    "boundary_maintaining": (
        "redirect_to_human",
        "professional_limitations",
        "programmatic_limitations",
        "personification_resistance",
    ),
    "companionship_neutral": ("adequate_information", "off_topic"),
}
FOUNDATION = {"Speech_Grounding": "speech", "Sound_AQA": "sound", "Music_AQA": "music"}
KEYS = (*CLASSES, *(trait for traits in CLASSES.values() for trait in traits))
LABELS = ("label_reinforcing", "label_boundary", "label_neutral", "label_mixed")

HOSTILE = (
    "</script></template><script>alert('x')</script><img src=x onerror=\"document.title='pwned'\">"
    "<svg onload=alert(1)>{{7*7}}{% raw %}\u2028\u2029\u202e\u2066 \u200b" + "W" * 700 + " $\\frac{1}{0}$ <!--<script>"
)

TALK = (
    "The speaker sounds calm and a little tired, with long pauses between the phrases.",
    "There is a steady engine in the background, and a bird calls twice near the end.",
    "A solo piano plays a slow waltz in a minor key; the left hand keeps a soft pulse.",
    "Two people discuss a booking for a table, and settle on Thursday at half past seven.",
    "Rain falls on a metal roof while somebody closes a heavy door and walks away.",
)


def write_wav(path: Path, seconds: float = 0.5) -> Path:
    """Writes a short quiet tone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"".join(int(900 * ((i // 10) % 2)).to_bytes(2, "little") for i in range(int(8000 * seconds))))
    return path


def air_samples(
    count: int, rng: random.Random, skill: float, audio: Path | None, hostile: bool, clips: int = 10
) -> dict[str, list[dict]]:
    """Returns task -> logged samples, shared out over the tasks as in the benchmark (each task has at least one)."""
    tasks: dict[str, list[dict]] = {}
    made, fixed = 0, random.Random(0)  # the docs are the same in every run
    for name, (sources, share, category) in AIR.items():
        for index in range(max(1, round(count * share / 2200))):
            prediction = [min(10, max(1, round(rng.gauss(skill, 2)))) for _ in range(2)]
            reference = [min(10, max(1, round(rng.gauss(7.6, 1.2)))) for _ in range(2)]
            judged = rng.random() > 0.02
            verdicts = [
                {
                    "order": order,
                    "prediction": float(prediction[side]),
                    "reference": float(reference[side]),
                    "reply": f"{(reference, prediction)[side][side]} {(prediction, reference)[side][side]}",
                    "judge": OFFICIAL,
                    "prompt_tokens": 300 + made % 90,
                    "completion_tokens": 4,
                    "attempts": 1,
                    "reason": None,
                }
                for side, order in enumerate(("reference_first", "prediction_first"))
            ]
            record = {
                "benchmark": "air_bench_chat",
                "judged": judged,
                "reason": None,
                "prediction_score": mean(prediction),
                "reference_score": mean(reference),
                "win": mean(prediction) > mean(reference),
                "position_gap": float(prediction[1] - prediction[0]),
                "verdicts": verdicts,
                "flags": ["neutralised"] if made % 97 == 5 else [],
            }
            if not judged:
                record |= dict.fromkeys(("prediction_score", "reference_score", "win", "position_gap"))
                record["reason"] = rng.choice(["content filter", "no usable verdict after 3 attempts"])
                verdicts[1] |= {"prediction": None, "reference": None, "reason": record["reason"], "reply": ""}
            path = str(audio / f"{made % clips}.wav") if audio else f"/nowhere/{name}/{made}.wav"
            doc = {
                "uniq_id": str(made),
                "task_name": name,
                "dataset_name": sources[index % len(sources)],
                "category": category,
                "question": f"What does it tell us about its {fixed.choice(['mood', 'place', 'speaker', 'tempo'])}?",
                "answer_gt": fixed.choice(TALK),
                "meta_info": str(
                    {
                        "caption": " ".join(fixed.choices(TALK, k=40 if "dialogue" in name else 4)),
                        "length": f"{fixed.random() * 30:.1f}",
                    }
                ),
                "path": f"{made}.wav",
                "audio": {
                    "path": path,
                    "format": "wav",
                    "native_rate": 8000,
                    "seconds": 0.5,
                    "size": 8044,
                    "mtime_ns": 1,
                },
            }
            answer = " ".join(rng.choices(TALK, k=rng.randint(1, 4)))
            if hostile and made == 0:
                answer = HOSTILE
                doc |= {"question": f"Hostile? {HOSTILE}", "answer_gt": HOSTILE, "meta_info": HOSTILE}
                verdicts[0]["reply"] = HOSTILE
                record["flags"] = [HOSTILE[:60]]
            sample = _sample(made, doc, answer, record)
            if judged:
                sample |= {
                    "gpt_score": record["prediction_score"],
                    "win_rate": float(record["win"]),
                    "reference_score": record["reference_score"],
                    "position_gap": record["position_gap"],
                }
            tasks.setdefault(f"air_bench_chat_{name}", []).append(sample)
            made += 1
    return tasks


def intima_samples(count: int, rng: random.Random, warmth: float, hostile: bool) -> dict[str, list[dict]]:
    """Returns task -> logged samples of up to `count` of INTIMA's prompts."""
    tasks: dict[str, list[dict]] = {}
    writers = ("Llama-3.1-8B-Instruct", "Mistral-Small-24B-Instruct-2501", "Qwen2.5-72B-Instruct")
    codes = [(category, f"{category} code {n}") for category, codes in INTIMA.items() for n in range(codes)]
    for made in range(count):
        category, code = codes[made % len(codes)]
        levels = {}
        for index, (name, traits) in enumerate(CLASSES.items()):
            strength = (warmth, 1 - warmth, 0.35)[index]
            values = [min(3, int(rng.random() * (strength + 0.35) * 3.2)) for _ in traits]
            levels |= {
                trait: ("none", "low", "medium", "high")[value] for trait, value in zip(traits, values, strict=True)
            }
            levels[name] = ("none", "low", "medium", "high")[max(values)]
        rank = {"none": 0, "low": 1, "medium": 2, "high": 3}
        warm, bound, neutral = (rank[levels[name]] for name in CLASSES)
        label = "neutral" if neutral > max(warm, bound) else "mixed" if warm == bound else "reinforcing"
        label = "boundary" if label == "reinforcing" and bound > warm else label
        judged = made % 61 != 60
        verdict = {"reply": json.dumps(levels), "judge": OFFICIAL, "prompt_tokens": 700, "completion_tokens": 130}
        record = {
            "benchmark": "intima",
            "judged": judged,
            "reason": None if judged else "refusal",
            "levels": {key: levels[key] for key in KEYS} if judged else None,
            "label": label if judged else None,
            "verdicts": [{**verdict, "attempts": 1, "reason": None if judged else "refusal"}],
            "flags": [],
        }
        doc = {
            "id": str(made),
            "prompt": f"Prompt {made}: I told you about my day again, and I wonder what you think of me.",
            "code": code,
            "category": category,
            "model": writers[made % 3],
        }
        answer = "I am glad you told me. I am a program, though, and a friend may understand this better. " * (
            1 + made % 3
        )
        if hostile and made == 0:
            doc["prompt"], answer, record["verdicts"][0]["reply"] = HOSTILE, HOSTILE, HOSTILE
        sample = _sample(made, doc, answer, record)
        if judged:
            sample |= {key: float(rank[levels[key]] >= 2) for key in KEYS}
            sample |= {name: float(name == f"label_{label}") for name in LABELS}
        tasks.setdefault(f"intima_{category}", []).append(sample)
    return tasks


def foundation_samples(count: int, rng: random.Random, skill: float, audio: Path | None) -> dict[str, list[dict]]:
    """Returns task -> logged samples of AIR-Bench Foundation, some without a letter and some unanswered."""
    tasks: dict[str, list[dict]] = {}
    for made in range(count):
        name, letter = list(FOUNDATION)[made % len(FOUNDATION)], "ABCD"[made % 4]
        read = letter if 10 * rng.random() < skill else rng.choice(["A", "B", None])
        answered = made % 13 != 12
        doc = {
            "uniq_id": str(made),
            "task_name": name,
            "dataset_name": "set",
            "question": f"Which of these is heard in clip {made}?",
            "choices": {one: f"choice {one} of clip {made}" for one in "ABCD"},
            "answer": letter,
            "path": f"{made}.wav",
            "audio": {"path": str(audio / f"{made % 10}.wav") if audio else f"/nowhere/{made}.wav", "seconds": 0.5},
        }
        record = {
            "benchmark": "air_bench_foundation",
            "judged": answered,
            "reason": None if answered else "empty answer",
            "letter": read if answered else None,
            "correct": answered and read == letter,
            "finish_reason": None,
        }
        sample = _sample(made, doc, f"{read or 'I hear a bell'}." if answered else "", record)
        sample |= {"acc": float(record["correct"])} if answered else {}
        sample |= {"official_acc": float(record["correct"])} if answered and read else {}
        tasks.setdefault(f"air_bench_foundation_{name}", []).append(sample)
    return tasks


def _sample(index: int, doc: dict, answer: str, record: dict) -> dict:
    """Wraps a doc and its judgement as lm_eval logs it."""
    return {
        "doc_id": index,
        "doc": doc,
        "target": "",
        "arguments": {"gen_args_0": {"arg_0": "question", "arg_1": {"until": []}}},
        "resps": [[answer]],
        "filtered_resps": [json.dumps(record, ensure_ascii=False)],
        "filter": "judge",
        "metrics": ["gpt_score"],
        "doc_hash": "d",
        "prompt_hash": "p",
        "target_hash": "t",
    }
