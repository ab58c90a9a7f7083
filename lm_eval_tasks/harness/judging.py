"""What follows generation in a judged task: verdicts on all answers, and what the log and the results say of them."""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from typing import Any

from lm_eval_tasks.harness import notes, together
from lm_eval_tasks.harness.ranks import over_ranks
from lm_eval_tasks.harness.requests import Asked, Questionnaire, what_is_asked
from lm_eval_tasks.judge.judge import Judge
from lm_eval_tasks.judge.question import Unjudged, Verdict
from lm_eval_tasks.judge.records import describe, summarise
from lm_eval_tasks.runs import waiting as waiting_room
from lm_eval_tasks.runs.answers import EMPTY_ANSWER, NO_ANSWER, finish_reason

log = logging.getLogger(f"lm_eval.{__name__}")


def judge_answers(task: Any) -> None:
    """Judge the filtered answers of a ``JudgedTask``; the judgements take their place, as JSON."""
    asked = what_is_asked(task, task.instances)
    judge = Judge.of(task.settings)
    every = Questionnaire(asked, judge.key)
    together.prepare(judge)
    outcomes = iter(judge.ask(every, f"Judging {task.task_name}", together.questions_after(task)))
    keys = iter(every.keys)
    judgements: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for one in asked:
        said: dict[str, list[Verdict | Unjudged]] = defaultdict(list)
        for name, _ in every.names:
            said[name].append(Unjudged(one.missing, why=one.why) if one.missing else next(outcomes))
        record = {"benchmark": task.BENCHMARK} | task.judgement(said)
        for verdict in record["verdicts"]:
            verdict["question"] = None if one.missing else next(keys)  # by which a later rejudge knows it again
        record["flags"] = [] if one.missing not in (None, EMPTY_ANSWER) else task.flags(one.answer)
        whys = (verdict["why"] for verdict in record["verdicts"] if verdict["why"] and not record["judged"])
        record["why"] = next(whys, "")
        record["finish_reason"] = finish_reason(one.instance, one.repeat)
        judgements[id(one.instance), one.filter].append(record)
    for instance in task.instances:
        for name in instance.filtered_resps:
            records = judgements[id(instance), name]
            whole = records[0] if len(records) == 1 else records
            instance.filtered_resps[name] = json.dumps(whole, ensure_ascii=False)
    _conclude(task, judge, asked, judgements)


def _conclude(task: Any, judge: Judge, asked: list[Asked], judgements: dict[Any, list[dict[str, Any]]]) -> None:
    """Say how judging went, and put it where lm-eval writes it into the results file."""
    records = [record for several in judgements.values() for record in several]
    lacking = (one for one, record in zip(asked, records, strict=True) if not record["judged"])
    by_category = dict(Counter(str(one.instance.doc.get("category")) for one in lacking))
    dialect = {lesson for record in records for verdict in record["verdicts"] for lesson in verdict["dialect"]}
    prompt, summary = task.prompt_to_judge, task.summary()
    summary |= {
        "settings": summary["settings"] | {"dialect": sorted(dialect | judge.client.given_up)},
        "judge_prompt": {"system": prompt.system, "template": prompt.template, "re_ask": task.trial_question().form},
        **over_ranks(summarise(records) | {"unjudged_by_category": by_category}, task.ranks),
        **task.summary_extra([one.instance.doc for one in asked], records),
        **notes.of_noise(task, judgements.values()),
        **({"generation_sent": task.generation_sent} if task.generation_sent else {}),
    }
    task.note(judging=summary)
    log.info("%s: %s", task.task_name, describe(summary))
    answers = [one.answer for one in asked if not one.missing]
    if len(answers) > 2 and len(set(answers)) == 1:
        log.warning("%s: all %d answers are identical; does the prompt reach the model?", task.task_name, len(answers))
    if summary["flags"].get("empty_answer"):
        told = "left out" if summary["unjudged"].get(EMPTY_ANSWER) else "judged as such"
        log.warning("%s: %d empty answers, %s", task.task_name, summary["flags"]["empty_answer"], told)
    task.end(summary["docs"], summary["judged"])
    if not summary["unjudged"]:
        judge.cache.set_finished(task.run_key)
        waiting_room.forget(task)
    first = {record["reason"]: record["why"] for record in records[::-1] if not record["judged"]}
    rows = [(count, reason, first.get(reason, "")) for reason, count in summary["unjudged"].items()]
    answered = any(not reason.startswith((NO_ANSWER, EMPTY_ANSWER)) for reason in summary["unjudged"])
    end = task.runs_end or together.RunsEnd([task])  # a rank without a doc of this task
    kept = str(task.answers_folder) if getattr(task, "answers_file", None) else ""
    end.note(task, rows, answered, kept, judge.stopped)
