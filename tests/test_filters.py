"""Filters of a user's own task: what they leave of an answer is one text, or nobody judges it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import foundation_runs
import pytest
import servers
from airbench_runs import run
from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_filter
from stored_runs import kept

from lm_eval_tasks import INCLUDE_PATH


class Own(Filter):
    """What a user may write; ``left`` makes something of each answer."""

    def apply(self, resps: Any, docs: Any) -> list[Any]:
        return [self.left(texts) for texts in resps]

    def left(self, texts: Any) -> Any:
        raise NotImplementedError


def own(name: str, left: Any) -> None:
    register_filter(name)(type(name, (Own,), {"left": lambda self, texts: left(texts)}))


own("own_tuple", lambda texts: tuple(texts))
own("own_dict", lambda texts: {"answer": texts[0]})
own("own_number", lambda texts: 5)
own("own_bytes", lambda texts: texts[0].encode())
own("own_list_in_list", lambda texts: [texts])
own("own_words_of_the_second", lambda texts: texts[0].split() if "QA 1" in texts[0] else texts)
own("own_none_of_the_second", lambda texts: [None] if "QA 1" in texts[0] else texts)
own("own_needs_a_number", lambda texts: [str(int(texts[0].split()[-1]))])
own("own_fails_at_the_second", lambda texts: texts if mended or "QA 1" not in texts[0] else 1 // 0)

mended = False

FIRST, LOWER = {"function": "take_first"}, {"function": "lowercase"}
WORDS = {"function": "regex", "regex_pattern": "(answer.*)"}

# Filters -> whether they are refused, else docs of three that are judged
FILTERS = {
    "as ever": ([FIRST], 3),
    "regex first": ([WORDS, FIRST], 3),
    "no take_first": ([LOWER], 3),
    "lists of one": ([WORDS, {"function": "take_first_k", "k": 1}], 3),
    "regex after take_first": ([FIRST, WORDS], None),
    "lowercase after take_first": ([FIRST, LOWER], None),
    "a tuple": ([{"function": "own_tuple"}], 3),
    "a dict": ([{"function": "own_dict"}], None),
    "a number": ([{"function": "own_number"}], None),
    "bytes": ([{"function": "own_bytes"}], None),
    "a list in a list": ([{"function": "own_list_in_list"}], None),
    "words of one answer": ([{"function": "own_words_of_the_second"}], 2),
    "nothing of one answer": ([{"function": "own_none_of_the_second"}], 3),
    "what cannot be tried": ([{"function": "own_needs_a_number"}], 3),
}


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("name", FILTERS)
def test_what_filters_leave_is_one_text_or_nobody_is_asked(airbench_server, make_data, tmp_path, name, early):
    filters, judged = FILTERS[name]
    task = own_task(tmp_path, filters)
    kind = "audio-chat-completions" if early else "local-chat-completions"
    root = make_data(speech_QA=3)
    if judged is None:
        with pytest.raises(ValueError, match=r"own: the filter 'judge' does not leave a text of each answer"):
            run(airbench_server, root, "own", include=[task], kind=kind)
        assert airbench_server.calls("model") == airbench_server.calls("judge") == 0
        return
    found = run(airbench_server, root, "own", include=[task], kind=kind)
    summary = found["configs"]["own"]["metadata"]["judging"]
    assert (summary["docs"], summary["judged"]) == (3, judged)
    assert airbench_server.calls("judge") == 1 + 2 * judged
    assert sum(summary["unjudged"].values()) == 3 - judged


def own_task(
    folder: Path, filters: list[dict[str, Any]], ours: str = "airbench_chat/speech_QA", name: str = "own"
) -> Path:
    (folder / "own").mkdir()
    listed = json.dumps([{"name": "judge", "filter": filters}])
    text = f"include: {INCLUDE_PATH / ours}.yaml\ntask: {name}\nfilter_list: {listed}\n"
    (folder / "own" / "own.yaml").write_text(text)
    return folder / "own"


@pytest.mark.parametrize(
    ("filters", "refused"), [([FIRST, WORDS], True), ([{"function": "own_words_of_the_second"}], 0)]
)
def test_the_letters_of_a_filtered_answer_are_read_from_a_text_or_not_at_all(server, tmp_path, filters, refused):
    name = "air_bench_foundation_own"
    task = own_task(tmp_path, filters, "air_bench_foundation/Sound_AQA", name)
    root = foundation_runs.make(tmp_path, *(foundation_runs.record("Sound_AQA", number) for number in range(2)))
    server.script("model", lambda asked: servers.said("B is a bell, QA 1" if "question 1?" in asked.text else "B"))
    if refused:
        with pytest.raises(ValueError, match="the filter 'judge' does not leave a text of each answer"):
            foundation_runs.run(server, root, "own", include=task)
        assert server.calls("model") == 0
        return
    found = foundation_runs.scoring(foundation_runs.run(server, root, "own", include=task), "own")
    assert (found["docs"], found["scored"]) == (2, 1)


@pytest.mark.parametrize("early", [False, True])
def test_a_filter_that_fails_after_generation_loses_no_answer(runs, monkeypatch, early):
    task = own_task(runs.folder, [{"function": "own_fails_at_the_second"}])
    command = runs.command("out", "--include_path", str(task), tasks="own")
    if early:
        command[command.index("local-chat-completions")] = "audio-chat-completions"
    assert runs._start(command) == 1
    assert runs.server.calls("model") == 3
    (folder,) = kept()
    monkeypatch.setattr("test_filters.mended", True)
    found = runs.rejudge(folder, "--include_path", str(task))
    assert found["configs"]["own"]["metadata"]["judging"]["judged"] == 3
