"""Whole runs over generated input: each ends with status 0, 1, 2 or 3, never with a traceback, and no failure scores.

Each kind of input is 200 examples, one a doc of a single run.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
import soundfile
from airbench_runs import ALL, listener, question
from conftest import FOLDERS, load_metadata, save_metadata
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from servers import Answer, Asked
from stored_runs import Runs, judging, results, samples_file

from lm_eval_tasks.server import client
from lm_eval_tasks.server.outcome import Kind
from lm_eval_tasks.server.replies import read

COUNT = 200
SPEECH_QA = f"{ALL}_speech_QA"
VERDICT = "7 3"


def examples(strategy: st.SearchStrategy) -> list[Any]:
    """So many of a strategy; the same ones each time, unless the profile says otherwise."""
    found: list[Any] = []

    @settings(max_examples=COUNT, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(one: Any) -> None:
        found.append(one)

    collect()
    return found[:COUNT]


@pytest.fixture
def fuzzed(runs: Runs, make_data, monkeypatch, capsys) -> Callable[..., tuple[int, dict[int, dict[str, Any]]]]:
    """A function that runs one task; gives the exit status and the judgement of each record by its number."""
    monkeypatch.setattr(client, "ALIKE", 10**9)  # a fault in every other doc is what is wanted here
    monkeypatch.setattr(client, "BROKEN_TRIES", 1)

    def run(**options: Any) -> tuple[int, dict[int, dict[str, Any]]]:
        command = runs.command("out", tasks=SPEECH_QA, do_swap=False, judge_max_retries=0, **options)
        command[command.index("local-chat-completions")] = "audio-chat-completions"
        status = runs._start(command)
        said = capsys.readouterr()
        assert status in (0, 1, 2, 3) and "Traceback" not in said.err + said.out, said.err[-2000:]
        if status == 2:
            return status, {}
        samples = map(json.loads, samples_file(runs.folder / "out", "speech_QA").read_text("utf-8").splitlines())
        numbered = {int(one["doc"]["path"].split()[1].split(".")[0]): one for one in samples}
        return status, {number: json.loads(one["filtered_resps"][0]) for number, one in numbered.items()}

    runs.root = make_data("fuzz", speech_QA=COUNT)
    return run


# Replies of a server

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def completion(text: Any, finish: Any = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"id": "x", "model": "m", "choices": [{"index": 0, "finish_reason": finish, "message": message}]}


def replies(text: str) -> list[tuple[bool, Answer]]:
    """Many faults, and in the place of each fourth a whole reply with the text: whether it is whole, and the reply."""
    whole = json.dumps(completion(text)).encode()
    no_texts = st.booleans() | st.integers() | st.dictionaries(st.text(max_size=5), st.integers(), max_size=2)
    faults = st.one_of(
        st.integers(0, len(whole) - 1).map(lambda end: Answer(body=whole[:end])),
        st.binary(max_size=60).map(lambda body: Answer(body=body)),
        json_values.map(lambda value: Answer(body=json.dumps(value))),
        no_texts.map(lambda value: Answer(body=completion(value))),
        st.sampled_from(["content_filter", "error", "abort"]).map(lambda end: Answer(body=completion(text, end))),
        json_values.filter(lambda error: error not in (None, False, 0, "", [], {})).map(
            lambda error: Answer(body=completion(text) | {"error": error})
        ),
        st.tuples(st.sampled_from([400, 404, 413, 418, 422]), st.just(whole) | st.binary(max_size=60)).map(
            lambda pair: Answer(pair[0], pair[1])
        ),
        st.sampled_from(["choices", "message", "content"]).flatmap(
            lambda name: json_values.filter(lambda value: value not in (None, [], {}, "")).map(
                lambda value: Answer(body=_with(completion(text), name, value))
            )
        ),
    )
    good = (True, Answer(body=whole))
    return [good if number % 4 == 3 else (False, fault) for number, fault in enumerate(examples(faults))]


def _with(body: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """A completion in which one of its parts is something else, but no text that could be meant."""
    value = [0, value] if isinstance(value, (str, list)) else value
    at = {"choices": body, "message": body["choices"][0], "content": body["choices"][0]["message"]}[name]
    at[name] = value
    return body


def by_number(found: list[tuple[bool, Answer]], trial: str) -> Callable[[Asked], Any]:
    """A script that answers each doc with its own example."""
    return lambda asked: trial if question(asked)[0] == "trial" else found[question(asked)[1]][1]


@pytest.mark.parametrize(("role", "text", "trial"), [("judge", VERDICT, VERDICT), ("model", "It rains.", "")])
def test_no_fault_of_a_server_becomes_a_score_or_an_answer(runs, fuzzed, role, text, trial):
    found = replies(text)
    runs.server.script("judge", VERDICT)
    runs.server.script(role, by_number(found, trial))
    _, records = fuzzed()
    assert len(records) == len(found) == COUNT
    for number, (whole, answer) in enumerate(found):
        assert records[number]["judged"] == whole, answer


@settings(max_examples=COUNT)
@given(st.integers(200, 599), st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_every_response_has_one_meaning_and_only_a_completion_is_a_reply(status, body):
    found = read(status, {}, body)
    assert found.kind in Kind
    assert found.kind not in (Kind.REPLY, Kind.CUT) or (200 <= status < 300 and b"choices" in body)


# Answers of a model

FORMS = ["7 3", "\n", "10 1", "[The End of Assistant 2's Answer]", "[System]", "</think>", "<|im_end|>", "Assistant 1"]
texts = st.text(max_size=200) | st.lists(st.sampled_from(FORMS), max_size=6).map(" ".join)


def test_any_answer_is_judged_and_none_judges(runs, fuzzed):
    """The judge's scores come out as it gave them, whatever stands in an answer."""
    found = examples(texts)
    runs.server.script(
        "model", lambda asked: Answer(body=completion(found[question(asked)[1]])) if asked.text else "never"
    )
    runs.server.script("judge", VERDICT)
    status, records = fuzzed(empty_answers="judge")
    judged = [record for record in records.values() if record["judged"]]
    assert status in (0, 3) and len(records) == COUNT
    assert {record["reason"] for record in records.values()} <= {None, "repeats the answer"}
    assert {(record["reference_score"], record["prediction_score"]) for record in judged} == {(7, 3)}


# Data

fields = ["path", "question", "answer_gt", "task_name", "dataset_name", "meta_info", "uniq_id"]
changes = st.one_of(
    st.dictionaries(st.sampled_from(fields), json_values, max_size=3).map(lambda new: lambda record: {**record, **new}),
    st.sampled_from(fields).map(lambda name: lambda record: {k: v for k, v in record.items() if k != name}),
    json_values.map(lambda value: lambda record: value),
)


def test_an_odd_record_costs_itself_at_the_most(runs, fuzzed, make_data):
    found = examples(changes)
    root = make_data("records", speech_QA=COUNT)
    records = load_metadata(root)
    save_metadata(root, [*(change(record) for change, record in zip(found, records[:-1], strict=False)), records[-1]])
    runs.root = root
    runs.server.script("judge", VERDICT)
    status, judged = fuzzed()
    assert status == 0 and judged[COUNT - 1]["judged"]
    assert judging(results(runs.folder / "out"), "speech_QA")["docs"] == len(judged)


wav_numbers = st.sampled_from([0, 1, 2, 3, 7, 8, 16, 24, 32, 255, 8000, 44100, 65534, 65535]) | st.integers(0, 65535)
sizes = st.sampled_from([0, 1, 1600, 1636, 0x7FFFFFFF, 0xFFFFFFFF]) | st.integers(0, 0xFFFFFFFF)


@st.composite
def wavs(draw) -> bytes:
    """A WAV with one or two faults: numbers changed, cut, other samples, or bytes between its chunks."""
    form, sizes_told = [1, 1, 8000, 16000, 2, 16], [1636, 16, 1600]
    samples, between, kept = b"\x10\x00" * 800, b"", None
    for fault in draw(st.lists(st.sampled_from(["form", "size", "samples", "between", "cut"]), max_size=2)):
        if fault == "form":
            form[draw(st.integers(0, 5))] = draw(wav_numbers)
        elif fault == "size":
            sizes_told[draw(st.integers(0, 2))] = draw(sizes)
        elif fault == "samples":
            samples = draw(st.sampled_from([b"", b"\xff\x7f" * 400, b"\0"]))
        elif fault == "between":
            between = draw(st.binary(max_size=12))
        else:
            kept = draw(st.integers(0, 1644))
    riff, fmt, data = sizes_told
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", riff, b"WAVE", b"fmt ", fmt, *form)
    return (head + between + struct.pack("<4sI", b"data", data) + samples)[:kept]


def test_whatever_header_a_clip_has_what_is_sent_can_be_heard(runs, fuzzed):
    for number, content in enumerate(examples(wavs())):
        (runs.root / "Chat" / f"speech_QA_{FOLDERS['speech_QA']}" / f"clip {number}.wav").write_bytes(content)
    runs.server.script("model", listener)
    runs.server.script("judge", VERDICT)
    status, records = fuzzed()
    assert status == 0 and 10 < len(records) < COUNT
    for asked in runs.server.asked["model"]:
        part = next(part for part in asked.body["messages"][-1]["content"] if part["type"] == "input_audio")
        sent = io.BytesIO(base64.b64decode(part["input_audio"]["data"]))
        samples, rate = soundfile.read(sent)
        assert len(samples) and rate
