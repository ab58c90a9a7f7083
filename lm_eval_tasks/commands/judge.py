"""``lm-eval-tasks judge``: scores for answers that any program made. Neither model nor audio is needed."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from lm_eval_tasks.airbench_chat import answers as airbench_chat
from lm_eval_tasks.commands.rejudge import add_options_of_judging, changes_of, free, judge_stored
from lm_eval_tasks.intima import answers as intima
from lm_eval_tasks.runs import alone, ended
from lm_eval_tasks.runs.files import Answers, Row, as_name, model_of, read_rows, store
from lm_eval_tasks.runs.stored import load_run
from lm_eval_tasks.settings import check_judge, read_settings

_EXAMPLE = """\
FILE holds one JSON object a line, or one JSON list. AIR-Bench-Chat: the fields of Chat_meta.json and "response", or
"task_name", "uniq_id" and "response" alone. INTIMA: "prompt", "code" or both, and "response".

example:
  lm-eval-tasks judge answers.jsonl --model_name my-model \\
      --metadata judge_model=my-judge local_path=/data/AIR-Bench
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLE
    parser.add_argument("file", metavar="FILE", help="the answers of one model")
    parser.add_argument(
        "--model_name", help="the model that answered (default: as the file says, else the file's name)"
    )
    add_options_of_judging(
        parser,
        every="ask for every verdict again, also those in the cache",
        metadata="settings as for a run, as KEY=VALUE or one JSON object; rows are joined with the data in local_path",
        output="where the results go (default: a folder named after model and judge)",
    )
    parser.set_defaults(handler=main)


def main(args: argparse.Namespace) -> int:
    """Judge the answers of a file; returns the exit status.

    Raises:
        ValueError: the file has no usable answer, or a setting is wrong; says which.
    """
    changes = changes_of(args.metadata)
    file = Path(args.file).expanduser().absolute()
    rows = read_rows(file)
    benchmark = _benchmark_of(rows, file)
    settings = read_settings(benchmark, changes)
    check_judge(settings)
    model, rows = _of_one_model(rows, args.model_name, benchmark, file)
    answers, about = (intima if benchmark == "intima" else airbench_chat).match(rows, settings)
    problems = answers.problems()
    for problem in problems:
        print(f"lm-eval-tasks: {file.name}: {problem}", file=sys.stderr)
    if not answers.docs:
        raise ValueError(": ".join([f"{file} has no answer that can be judged", *problems[:1]]))
    if answers.lacking:
        print(f"lm-eval-tasks: {file.name}: no average for what lacks answers", file=sys.stderr)
    print(f"{sum(map(len, answers.docs.values()))} docs of {', '.join(answers.docs)}, answered by {model}")
    start = Path.cwd() / f"{as_name(model)}-judged-{as_name(settings.judge_model)}"
    output = Path(args.output_path).absolute() if args.output_path else free(start)
    same = f"judge {hashlib.sha256(file.read_bytes()).hexdigest()} {json.dumps(changes, sort_keys=True, default=str)}"
    alone.claim(same, f"{file.name} is being judged with these very settings")
    with tempfile.TemporaryDirectory(prefix="lm-eval-tasks-") as folder:
        where = store(answers, Path(folder), model, about)
        stored = load_run(where)
        told = {**_told(answers, rows, file), "all": args.all}
        metadata = {**changes, "replay": str(where), "replay_all": args.all}
        status = judge_stored(stored, stored.top_level(), metadata, output, told)
    alone.release(same)
    return ended.SOME_UNJUDGED if status == ended.ALL_JUDGED and answers.lost else status


def _benchmark_of(rows: list[Row], file: Path) -> str:
    """By the fields that the most rows have."""
    fields = Counter(name for row in rows if isinstance(row.fields, dict) for name in row.fields)
    if fields["task_name"] or fields["uniq_id"]:
        return "air_bench_chat"
    if fields["prompt"] or fields["code"]:
        return "intima"
    named = ", ".join(sorted(fields)[:20]) or "none"
    raise ValueError(
        f"{file} has the fields {named}: AIR-Bench-Chat needs task_name, uniq_id and response; INTIMA prompt or code, "
        "and response"
    )


def _of_one_model(rows: list[Row], given: str | None, benchmark: str, file: Path) -> tuple[str, list[Row]]:
    """The model that answered, and its rows.

    Raises:
        ValueError: the file holds answers of several models, none of which was named.
    """
    fields = ("model_name",) if benchmark == "intima" else ("model_name", "model")  # INTIMA's model wrote the prompt
    said = [model_of(row, fields) for row in rows]
    names = dict.fromkeys(filter(None, said))
    if len(names) < 2:
        return given or next(iter(names), file.stem), rows
    if given not in names:
        raise ValueError(f"{file} holds answers of {', '.join(names)}: name one of them with --model_name")
    return given, [row for row, name in zip(rows, said, strict=True) if name == given]


def _told(answers: Answers, rows: list[Row], file: Path) -> dict[str, Any]:
    """What the results say of where the answers came from."""
    docs = [text for found in answers.docs.values() for _, text in found]
    answered = len(docs) - docs.count(None)
    unusable = {cause: {"rows": len(places), "first": places[:20]} for cause, places in answers.unusable.items()}
    return {
        "source": str(file),
        "answers": f"{answered} answers to {len(docs)} docs, from a file of {len(rows)} rows",
        "file": {"rows": len(rows), "unusable": unusable, "lacking": answers.lacking},
    }
