"""AIR-Bench-Chat's metadata and folders: what is read, left out or refused, and what is said about it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from airbench_runs import load_docs
from conftest import FOLDERS, load_metadata, save_metadata, write_tone
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_tasks.airbench_chat.data import CHAT
from lm_eval_tasks.data import hub
from lm_eval_tasks.data.records import read_records
from lm_eval_tasks.errors import DataError, NoDocs
from lm_eval_tasks.settings import AirBenchSettings


def load(root, task="speech_QA", **options):
    return load_docs(AirBenchSettings(local_path=str(root), **options), task)[:2]


def facts(root, task="speech_QA", **options):
    return load_docs(AirBenchSettings(local_path=str(root), **options), task).facts


def clip(root, number, task="speech_QA"):
    return root / "Chat" / f"{task}_{FOLDERS[task]}" / f"clip {number}.wav"


def name(root, number, task="speech_QA"):
    return clip(root, number, task).relative_to(root / "Chat")


def change(root, number, **fields):
    """Change one record of the metadata; a field set to ``...`` is removed."""
    records = load_metadata(root)
    records[number] |= fields
    for name in [name for name, value in fields.items() if value is ...]:
        del records[number][name]
    save_metadata(root, records)


def test_docs_come_in_the_order_of_the_metadata_with_their_audio(make_data):
    root = make_data()
    docs, left_out = load(root)
    assert [doc["question"] for doc in docs] == ["speech_QA question 0?", "speech_QA question 1?"] and not left_out
    assert docs[0] == {
        "path": "clip 0.wav",
        "question": "speech_QA question 0?",
        "answer_gt": "speech_QA reference 0",
        "task_name": "speech_QA",
        "dataset_name": "iemocap",
        "meta_info": "{'caption': 'speech_QA description 0'}",
        "uniq_id": "0",
        "category": "speech",
        "audio": docs[0]["audio"],
    }
    assert docs[0]["audio"]["path"] == str(clip(root, 0)) and docs[0]["audio"]["format"] == "wav"


def test_the_folder_may_be_given_in_several_ways(make_data, monkeypatch, tmp_path):
    root = make_data()
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    monkeypatch.setenv("HOME", str(tmp_path))
    for given_as in (root, root / "Chat", root / "../data", root / "Chat/..", "../data", "~/data"):
        assert len(load(given_as)[0]) == 2
    assert len(load("sample")[0]) == 4
    with pytest.raises(DataError, match=r"no Chat/Chat_meta\.json.*folder that contains"):
        hub.fetch(CHAT, AirBenchSettings(local_path=str(tmp_path)), ["speech_QA"])


# Bad audio


def test_bad_clips_are_left_out_with_their_causes_and_names(make_data, caplog):
    root = make_data(speech_QA=30)
    for number in range(25):
        clip(root, number).unlink()
    clip(root, 25).write_bytes(b"")
    clip(root, 26).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    docs, left_out = load(root)
    assert [doc["uniq_id"] for doc in docs] == ["27", "28", "29"]
    assert left_out["missing"] == [f"speech_QA_iemocap/clip {number}.wav" for number in range(25)]
    assert {cause.split(" (")[0]: len(names) for cause, names in left_out.items()} == {
        "missing": 25,
        "empty file": 1,
        "Git LFS pointer instead of the audio": 1,
    }
    (warning,) = [record.getMessage() for record in caplog.records if "LEFT OUT" in record.getMessage()]
    assert "missing: 25 (speech_QA_iemocap/clip 0.wav" in warning and "and 20 more" in warning
    assert "git lfs pull" in warning
    with pytest.raises(DataError, match=r"on_bad_audio=error: .*empty file: 1 \(speech_QA_iemocap/clip 25\.wav\)"):
        load(root, on_bad_audio="error")


def test_a_task_without_a_usable_clip_says_why_and_how_to_go_on(make_data):
    root = make_data(speech_QA=2, music_QA=1)
    for number in range(2):
        clip(root, number).unlink()
    with pytest.raises(NoDocs, match=r"speech_QA: no doc with usable audio \(missing: 2.*tasks="):
        load(root)
    with pytest.raises(NoDocs, match="no record in the metadata"):
        load(root, "sound_QA")


@pytest.mark.parametrize("path", ["../../../etc/passwd", "/etc/passwd", "a\0b.wav"])
def test_a_record_whose_path_leaves_the_folder_is_left_out_alone(make_data, path):
    root = make_data()
    change(root, 1, path=path)
    docs, left_out = load(root)
    assert [doc["uniq_id"] for doc in docs] == ["0"]
    assert left_out == {"bad record: path leaves the data folder": ["uniq_id 1"]}
    with pytest.raises(DataError, match=r"on_bad_record=error.*uniq_id 1.*leaves the data folder"):
        load(root, on_bad_record="error")


def test_long_clips_and_a_number_of_records_that_is_not_the_releases_are_warned_of(make_data, caplog):
    root = make_data()
    write_tone(clip(root, 1), seconds=31, rate=1000)
    load(root)
    assert "1 of 2 clips are longer than 30 s" in caplog.text
    assert "the metadata has 2 records where the official release has 400" in caplog.text
    cause = "longer than 2.5 s (max_audio_seconds)"
    assert load(root, max_audio_seconds=2.5)[1] == {cause: [str(name(root, 1))]}


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_file_is_refused_and_never_waited_for(make_data, kind):
    root = make_data()
    for path in (clip(root, 0), root / "Chat" / "Chat_meta.json"):
        path.rename(path.with_name("aside"))
        {"pipe": os.mkfifo, "folder": Path.mkdir, "device": lambda it: it.symlink_to("/dev/zero")}[kind](path)
        if path.suffix == ".wav":
            assert list(load(root)[1]) == [f"unreadable (a {kind}, not a file)"]
        else:
            with pytest.raises(DataError, match=rf"Chat_meta\.json cannot be read: a {kind}, not a file"):
                load(root)


# Bad metadata


AGAIN = r"Chat_meta\.json is damaged or not complete.*Download it again"
UNREADABLE = {
    "nothing": (b"", AGAIN),
    "cut short": (b'[{"path": "a.wav", "ques', AGAIN),
    "a web page": (b"<html>404</html>", AGAIN),
    "no text": (b"\xff\xfe[\x00]\x00", AGAIN),
    "zeros": (b"\x00" * 100, AGAIN),
    "nested too deep": (b"[" * 100_000, AGAIN),
    "a Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "git lfs pull"),
    "an object": (b'{"records": []}', "one JSON list"),
    "a text": (b'"text"', "one JSON list"),
    "null": (b"null", "one JSON list"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_metadata_that_cannot_be_read_is_an_error_with_the_remedy(make_data, kind):
    root = make_data()
    content, told = UNREADABLE[kind]
    (root / "Chat" / "Chat_meta.json").write_bytes(content)
    with pytest.raises(DataError, match=told):
        load(root)


ODD = {
    "no field": ({"question": ...}, "no field 'question'"),
    "null": ({"answer_gt": None}, "no field 'answer_gt'"),
    "a number": ({"path": 1.5}, "path is float, not a string"),
    "true": ({"uniq_id": True}, "uniq_id is bool, not a string"),
    "a list": ({"question": ["a"]}, "question is list, not a string"),
    "an empty question": ({"question": " \n"}, "question is empty"),
    "an empty answer": ({"answer_gt": ""}, "answer_gt is empty"),
    "an empty path": ({"path": " "}, "path is empty"),
    "no source": ({"dataset_name": ""}, "dataset_name is empty"),
    "half a character": ({"question": "HALF"}, "question holds what is no character"),
    "a byte that is no UTF-8": ({"question": "BYTE"}, "question holds what is no character"),
    "an endless number": ({"uniq_id": "LONG"}, "uniq_id is float, not a string"),
    "no description": ({"meta_info": ...}, "no field 'meta_info'"),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_record_costs_itself_and_is_named_with_its_cause(make_data, caplog, kind):
    root = make_data(speech_QA=4)
    fields, cause = ODD[kind]
    change(root, 3, **fields)
    path = root / "Chat" / "Chat_meta.json"
    content = path.read_bytes().replace(b'"LONG"', b"9" * 5000)
    path.write_bytes(content.replace(b"HALF", rb"half \ud83d").replace(b"BYTE", b"caf\xe9"))
    docs, left_out = load(root)
    assert [doc["uniq_id"] for doc in docs] == ["0", "1", "2"]
    ((found, [record]),) = left_out.items()
    assert found.startswith(f"bad record: {cause}") and record.startswith("record 3")
    assert f"LEFT OUT OF EVERY SCORE: bad record: {cause}" in caplog.text
    assert facts(root)["records"] == 4
    with pytest.raises(DataError, match=r"on_bad_record=error: bad record: .*: 1 \(record 3"):
        load(root, on_bad_record="error")


@pytest.mark.parametrize(
    ("odd", "cause"),
    [
        ("text", "str, not an object"),
        (None, "NoneType, not an object"),
        ({"task_name": 5}, "no field 'path'"),
        ({"task_name": "speech_qa"}, "unknown task_name 'speech_qa'"),
    ],
)
def test_a_record_of_no_task_is_in_the_log_once_and_in_the_facts_of_every_task(make_data, caplog, odd, cause):
    root = make_data()
    records = load_metadata(root)
    save_metadata(root, [*records, records[0] | odd if cause.startswith("unknown") else odd])
    for task in ("speech_QA", "music_QA"):
        docs, left_out = load(root, task)
        assert len(docs) == 2 and not left_out
        ((found, [record]),) = facts(root, task)["left_out_of_all_tasks"].items()
        assert found == f"bad record: {cause}" and record.startswith("record 16")
    assert caplog.text.count("LEFT OUT OF ALL TASKS") == 1
    with pytest.raises(DataError, match="on_bad_record=error"):
        load(root, on_bad_record="error")


def test_a_repeated_id_is_kept_under_an_id_of_its_own(make_data, caplog):
    root = make_data(speech_QA=5)
    for number, uniq_id in enumerate([7, "7", "7#2", 7, 8]):
        change(root, number, uniq_id=uniq_id)
    docs, left_out = load(root)
    assert [doc["uniq_id"] for doc in docs] == ["7", "7#2", "7#2#2", "7#3", "8"] and not left_out
    assert facts(root)["repeated_ids"] == ["7#2", "7#2#2", "7#3"]
    assert "3 records repeat an id" in caplog.text
    with pytest.raises(DataError, match="on_bad_record=error: uniq_id occurs more than once"):
        load(root, on_bad_record="error")


def test_the_facts_name_the_file_and_the_official_number(make_data):
    root = make_data()
    content = (root / "Chat" / "Chat_meta.json").read_bytes()
    assert facts(root) == {
        "metadata_sha256": hashlib.sha256(content).hexdigest(),
        "records": 2,
        "official_records": 400,
        "repeated_ids": [],
    }


@pytest.mark.parametrize("meta", [{"caption": "a dog"}, ["a dog"], "{'caption': \"it's\"}", ""])
def test_a_structured_description_other_fields_a_byte_order_mark_and_ids_of_another_task_are_no_fault(make_data, meta):
    root = make_data()
    change(root, 0, meta_info=meta, extra={"a": 1})
    change(root, 2, uniq_id=0)  # of another task
    path = root / "Chat" / "Chat_meta.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [doc["meta_info"] for doc in load(root)[0]] == [str(meta), "{'caption': 'speech_QA description 1'}"]


def test_metadata_replaced_in_place_is_read_again(make_data):
    root = make_data()
    assert len(load(root)[0]) == 2
    save_metadata(root, load_metadata(root)[1:])
    assert len(load(root)[0]) == 1


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))
NAMES = st.sampled_from(["path", "question", "answer_gt", "task_name", "dataset_name", "meta_info", "uniq_id"])
VALUES = st.sampled_from(["speech_QA", "../..", "a\0", "x" * 5000, "/", "."]) | JSON


@given(st.text(max_size=40) | JSON.map(json.dumps) | st.lists(st.dictionaries(NAMES, VALUES)).map(json.dumps))
@settings(max_examples=100)
def test_any_metadata_is_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "Chat_meta.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        records = read_records(path, CHAT)
    except DataError:
        return
    good = [record for found in records.by_task.values() for record in found]
    assert all(isinstance(value, str) for record in good for value in record.values())
    bad = sum(len(names) for causes in records.left_out.values() for names in causes.values())
    assert len(good) + bad == records.count


@given(st.text(min_size=1, max_size=30) | VALUES.filter(lambda v: isinstance(v, str) and v))
@settings(max_examples=30)
def test_any_path_is_a_doc_or_left_out(tmp_path_factory, text):
    root = tmp_path_factory.getbasetemp() / "any-path"
    good = {"task_name": "speech_QA", "dataset_name": "iemocap", "question": "q", "answer_gt": "a", "meta_info": "m"}
    write_tone(root / "Chat" / "speech_QA_iemocap" / "a.wav")
    save_metadata(root, [good | {"path": "a.wav", "uniq_id": 1}, good | {"path": text, "uniq_id": 2}])
    docs, left_out = load(root)
    assert len(docs) + sum(map(len, left_out.values())) == 2


# Locales

READ = """
import sys
from lm_eval_tasks.airbench_chat.data import CHAT
from lm_eval_tasks.airbench_chat.prompt import JudgePrompt
from lm_eval_tasks.data import hub
from lm_eval_tasks.data.clips import load_track
from lm_eval_tasks.settings import AirBenchSettings
settings = AirBenchSettings(local_path=sys.argv[1])
docs, left_out, *_ = load_track(hub.fetch(CHAT, settings, ["speech_QA"]), CHAT, settings, "speech_QA")
assert docs[0]["question"] == "Was h\\u00f6rt man? \\u58f0\\u97f3 \\U0001f3b5", ascii(docs)
assert JudgePrompt.load(sys.argv[2]).template.startswith("\\u8bf7"), "prompt"
print(len(docs), ascii(left_out))
"""


@pytest.mark.parametrize("locale", ["C", "zh_CN.GBK"])
def test_utf8_is_read_in_every_locale(make_data, tmp_path, locale):
    root = make_data(speech_QA=2)
    change(root, 0, question="Was h\u00f6rt man? \u58f0\u97f3 \U0001f3b5")
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("\u8bf7 {meta_info} {question} {answer_1} {answer_2}", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    if locale == "zh_CN.GBK":
        environment["LOCPATH"] = str(tmp_path / "locales")
        (tmp_path / "locales").mkdir()
        compiled = tmp_path / "locales" / "zh_CN.GBK"
        made = subprocess.run(["sh", "-c", f"localedef -i zh_CN -f GBK '{compiled}'"], capture_output=True)
        if made.returncode > 1 or not compiled.is_dir():
            pytest.skip("localedef cannot make zh_CN.GBK here")
    done = subprocess.run(
        [sys.executable, "-c", READ, str(root), str(prompt)],
        env=environment,
        capture_output=True,
        cwd=Path(__file__).parent,
    )
    assert done.returncode == 0 and done.stdout == b"2 {}\n", done.stderr
