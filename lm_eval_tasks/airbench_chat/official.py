"""A run in the form of AIR-Bench's own scripts, so that anyone can check its numbers with them.

``Chat_result_modelx.jsonl`` is what their inference writes and their judge reads; ``chat_score.json`` (reference first)
and ``chat_score_cir.json`` (prediction first) are what ``cal_score.py`` reads, each verdict as ``"<first> <second>"``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lm_eval_tasks.airbench_chat.data import CHAT
from lm_eval_tasks.airbench_chat.scoring import PREDICTION_FIRST, REFERENCE_FIRST, sides

ANSWERS = "Chat_result_modelx.jsonl"
SCORES = {REFERENCE_FIRST: "chat_score.json", PREDICTION_FIRST: "chat_score_cir.json"}
_WHOLE = 1e-9


def write(samples: Iterable[tuple[dict[str, Any], str | None, dict[str, Any]]], folder: Path) -> Counter[str]:
    """Write the three files; without swap two.

    Args:
        samples: doc, answer (None where there is none) and judgement record of each.
        folder: made where it is not there.

    Returns:
        Counts: ``answers``, ``verdicts``, ``unanswered`` (docs, which are in no file), ``unjudged`` (answers,
        which are in no file of scores), ``broken`` (verdicts with a fraction, which that script leaves out) and
        ``failed`` (repeats without a verdict, which that script's mean over verdicts can't allow for).
    """
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    scores: dict[str, list[dict[str, Any]]] = {}
    with (folder / ANSWERS).open("w", encoding="utf-8") as file:
        for doc, answer, record in samples:
            if answer is None:
                counts["unanswered"] += 1
                continue
            fields = {name: _as_it_was(name, doc.get(name)) for name in CHAT.fields}
            file.write(json.dumps(fields | {"response": answer}, ensure_ascii=False) + "\n")
            counts["answers"] += 1
            counts["unjudged"] += not record.get("judged")
            for verdict in record["verdicts"] if record.get("judged") else ():
                if verdict["reason"]:  # one of several times that the same was asked
                    counts["failed"] += 1
                    continue
                pair = [verdict[side] for side in sides(verdict["order"])]
                counts["verdicts"] += 1
                counts["broken"] += any(abs(score - round(score)) > _WHOLE for score in pair)
                shown = " ".join(f"{score:g}" for score in pair)
                entry = fields | {"Audio-LLM-response": answer, "gpt-score": shown}
                scores.setdefault(verdict["order"], []).append(entry)
    for order, entries in scores.items():
        text = json.dumps(entries, ensure_ascii=False, indent=1)
        (folder / SCORES[order]).write_text(text, encoding="utf-8")
    return counts


def _as_it_was(name: str, value: Any) -> Any:
    """The id as the number that it is in the official metadata."""
    number = name == "uniq_id" and isinstance(value, str) and value.isascii() and value.isdecimal()
    return int(value) if number else value
