"""AIR-Bench Foundation's records, its bundled sample, its several ranks and what is fetched of it."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import hub_server
import pytest
from foundation_runs import ALL, make, record, row
from lm_eval.tasks import TaskManager
from ranks import merged, on_rank
from test_airbench_fetch import huggingface, modelscope, server, source  # noqa: F401 - fixtures: hubs and clients

from lm_eval_tasks import INCLUDE_PATH, cli
from lm_eval_tasks.air_bench_foundation.data import FOUNDATION
from lm_eval_tasks.air_bench_foundation.scoring import CATEGORY, LETTERS, RECORDS, TASKS, right_letter
from lm_eval_tasks.data import hub
from lm_eval_tasks.data.clips import load_track
from lm_eval_tasks.data.hub import REPOSITORY
from lm_eval_tasks.errors import DataError, NoDocs
from lm_eval_tasks.settings import AirBenchFoundationSettings

TASK = "Sound_AQA"

SAMPLE = FOUNDATION.sample


def load(root: Path, task: str = TASK, **settings):
    return load_track(root, FOUNDATION, AirBenchFoundationSettings(local_path=str(root), **settings), task)


@pytest.mark.parametrize(
    ("changes", "letter"),
    [
        ({}, "B"),
        ({"choice_b": 60, "answer_gt": 60}, "B"),
        ({"choice_b": 60, "answer_gt": "60"}, "B"),
        ({"choice_d": "['flute']", "answer_gt": ["flute"]}, "D"),
        ({"choice_d": [1.5, 2], "answer_gt": [1.5, 2]}, "D"),
        ({"choice_a": True, "answer_gt": True}, "A"),
        ({"choice_c": None, "choice_d": None, "answer_gt": "rain"}, "A"),
        ({"choice_c": "a bell"}, "B"),
        ({"choice_a": "A bell", "choice_c": "a bell."}, "B"),
        ({"choice_e": "a bell", "note": {"any": 1}}, "B"),
    ],
)
def test_the_answer_is_the_text_of_a_choice_whatever_its_type(tmp_path, changes, letter):
    (doc,) = load(make(tmp_path, record(TASK, 0, **changes))).docs
    assert right_letter(doc) == letter


@pytest.mark.parametrize(
    "changes",
    [
        {"answer_gt": "a gong"},
        {"answer_gt": "B"},
        {"answer_gt": "None", "choice_c": None},
        {"answer_gt": None},
        {"choice_a": None},
        {"choice_b": " "},
        {"answer_gt": ""},
        {"answer_gt": "A bell"},
        {"answer_gt": ["a bell"]},
        {"question": None},
        {"dataset_name": ""},
    ],
)
def test_an_answer_that_is_no_choice_costs_its_own_record_which_is_named(tmp_path, changes):
    root = make(tmp_path, record(TASK, 0, **changes), record(TASK, 1))
    docs, left_out, facts, _ = load(root)
    assert [doc["uniq_id"] for doc in docs] == ["1"] and facts["records"] == 2
    ((cause, names),) = left_out.items()
    assert cause.startswith("bad record: ") and names == ["record 0 (uniq_id 0)"]
    with pytest.raises(DataError, match="on_bad_record=error"):
        load(root, on_bad_record="error")


@pytest.mark.parametrize(("task", "found"), [("Audio_Grounding", True), ("Sound_AQA", False)])
def test_only_audio_grounding_says_wav_for_flac(tmp_path, task, found):
    root = make(tmp_path, record(task, 0), record(task, 1))
    wav = root / "Foundation" / f"{task}_source" / "clip 0.wav"
    wav.rename(wav.with_suffix(".flac"))
    assert len(load(root, task).docs) == 1 + found


def test_a_folder_that_is_not_there_costs_its_records_and_an_unknown_task_only_its_own(tmp_path):
    root = make(
        tmp_path,
        record(TASK, 0),
        record(TASK, 1, dataset_name="other"),
        record("Music_Genre", 2),
        record("Music_AQA", 3),
    )
    shutil.rmtree(root / "Foundation" / f"{TASK}_other")
    docs, left_out, facts, _ = load(root)
    assert [doc["uniq_id"] for doc in docs] == ["0"] and facts["records"] == 2
    assert left_out == {"missing": [f"{TASK}_other/clip 1.wav"]}
    assert list(facts["left_out_of_all_tasks"]) == ["bad record: unknown task_name 'Music_Genre'"]
    shutil.rmtree(root / "Foundation" / "Music_AQA_source")
    with pytest.raises(NoDocs, match=r"Music_AQA: no doc with usable audio .*tasks="):
        load(root, "Music_AQA")


# The bundled sample


def test_the_sample_has_two_clips_a_category_and_records_for_every_task():
    records = json.loads((SAMPLE / FOUNDATION.file).read_text(encoding="utf-8"))
    clips = sorted(path.relative_to(SAMPLE / "Foundation") for path in SAMPLE.rglob("*") if path.suffix != ".json")
    assert [clip.parts[0] for clip in clips if clip.suffix] == ["music"] * 2 + ["sound"] * 2 + ["speech"] * 2
    assert {one["task_name"] for one in records} == set(TASKS)
    for task in TASKS:
        docs, left_out, *_ = load(SAMPLE, task)
        assert len(docs) == 2 and not left_out
        assert {Path(doc["audio"]["path"]).parent.name for doc in docs} == {CATEGORY[task]}
        assert {len([c for c in LETTERS if f"choice_{c.lower()}" in doc]) for doc in docs} == {
            2 if TASKS[task].chance == 0.5 else 4
        }


def test_the_sample_stays_small():
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < 400_000


# Several ranks


def answer_to(doc: dict) -> str:
    """Odd docs, which are those of rank 1, have no letter for the official rule, and one of them no answer at all."""
    return ("B", "a bell", "A", "", "B", "no idea")[int(doc["uniq_id"])]


def test_two_ranks_give_the_numbers_of_one(tmp_path):
    tasks = [task for task, category in CATEGORY.items() if category == "sound"]
    root = make(tmp_path, *(record(task, n) for task in tasks for n in range(6)))
    manager = TaskManager(include_path=str(INCLUDE_PATH), include_defaults=False, metadata={"local_path": str(root)})
    found = []
    for ranks in (1, 2):
        results = merged([on_rank(manager, f"{ALL}_sound", rank, ranks, answer_to) for rank in range(ranks)])
        found.append({name: row(results, name) for name in ("sound", *tasks)})
    assert found[0]["sound"]["acc"] == pytest.approx(3 / 5)
    assert found[0]["sound"]["official_acc"] == pytest.approx(2 / 3)
    for name, one in found[0].items():
        assert {k: v for k, v in found[1][name].items() if "acc" in k} == pytest.approx(
            {k: v for k, v in one.items() if "acc" in k}
        ), name


# Fetching


@pytest.fixture
def on_the_hub(server, huggingface, tmp_path):  # noqa: F811
    root = make(tmp_path / "on the hub", record(TASK, 0), record(TASK, 1), record("Music_AQA", 0))
    server.add(REPOSITORY["huggingface"], hub_server.folder_files(root))
    return root


def test_either_hub_sends_the_folders_of_the_named_task_alone(source, tmp_path):  # noqa: F811
    root = make(
        tmp_path / "on the hub", *(record(TASK, n, dataset_name="ab"[n]) for n in (0, 1)), record("Music_AQA", 0)
    )
    source.server.add(source.repo, hub_server.folder_files(root))
    got = hub.fetch(FOUNDATION, AirBenchFoundationSettings(source=source.name), [TASK])
    assert sorted(source.server.sent()) == sorted(
        [FOUNDATION.file, f"Foundation/{TASK}_a/clip 0.wav", f"Foundation/{TASK}_b/clip 1.wav"]
    )
    assert len(load(got).docs) == 2


def test_fetch_says_the_size_and_gets_the_folders_of_the_named_tasks_alone(on_the_hub, server, capsys):  # noqa: F811
    assert cli.main(["fetch", ALL, "--source", "huggingface", "--tasks", TASK]) == 0
    told = capsys.readouterr()
    size = sum(path.stat().st_size for path in (on_the_hub / "Foundation" / f"{TASK}_source").iterdir())
    assert f"1 tasks, {size / 1e9:.2f} GB on the hub" in told.err
    clips = [f"Foundation/{TASK}_source/clip {n}.wav" for n in (0, 1)]
    assert sorted(server.sent()) == sorted([FOUNDATION.file, *clips])
    assert len(load(Path(told.out.strip())).docs) == 2


def test_a_size_that_the_hub_does_not_tell_stops_nobody(on_the_hub, server, capsys):  # noqa: F811
    asked = []

    def refuse(path):
        asked.append("/tree/" in path)
        return 403 if sum(asked) == 1 and asked[-1] else None  # the first listing is the one for the size

    server.refuse = refuse
    assert cli.main(["fetch", ALL, "--source", "huggingface", "--tasks", TASK]) == 0
    assert "of unknown size (the hub does not tell)" in capsys.readouterr().err


def test_nothing_is_fetched_where_no_task_is_named(on_the_hub, server, capsys):  # noqa: F811
    assert cli.main(["fetch", ALL, "--source", "huggingface"]) == 2
    told = capsys.readouterr().err
    assert "49 GB" in told and "--tasks all" in told and "Music_AQA" in told
    assert not server.sent()


def test_all_is_all_tasks(on_the_hub, server, capsys):  # noqa: F811
    assert cli.main(["fetch", ALL, "--source", "huggingface", "--tasks", "all"]) == 0
    assert len(server.sent()) == 1 + 3


def test_a_run_without_a_local_copy_says_how_much_the_track_is(on_the_hub, caplog):
    with caplog.at_level(logging.WARNING, "lm_eval"):
        manager = TaskManager(
            include_path=str(INCLUDE_PATH), include_defaults=False, metadata={"source": "huggingface", "tasks": [TASK]}
        )
        manager.load([f"{ALL}_sound"])
    assert "49 GB" in caplog.text


def test_the_yaml_files_hold_the_tasks_of_the_data():
    folder = INCLUDE_PATH / "air_bench_foundation"
    for name in TASKS:
        lines = (folder / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
        assert lines[1:] == [f"task: {ALL}_{name}", f"task_alias: {name}", f"dataset_name: {name}"]
    assert set(RECORDS) == {path.stem for path in folder.glob("*.yaml") if not path.stem.startswith("group_")}
