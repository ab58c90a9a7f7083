"""AIR-Bench-Chat's numbers in whole runs: worked by hand, and with docs that are not judged."""

from __future__ import annotations

import pytest
from airbench_runs import (
    ALL,
    CATEGORIES,
    SPEECH_QA,
    answers,
    by_role,
    filtered,
    judging,
    question,
    records,
    row,
    run,
    scores,
)
from conftest import FOLDERS

pytestmark = pytest.mark.usefixtures("airbench_server")


# Numbers worked by hand


def test_a_judge_that_always_says_8_6_gives_seven_to_both_no_win_and_a_gap_of_two_everywhere(server, make_data):
    results = run(server, make_data())
    names = ["", *(name.removeprefix(f"{ALL}_") for name in CATEGORIES), *FOLDERS]
    assert {name: scores(results, name) for name in names} == dict.fromkeys(names, (7, 7, 0, 2))
    assert server.calls("model") == 16 and server.calls() == 1 + 2 * 16
    assert results["n-samples"][SPEECH_QA] == {"original": 2, "effective": 2}


@pytest.mark.parametrize(
    ("sizes", "high", "means"),
    [
        ({"speech_QA": 2, "speech_dialogue_QA": 8}, "speech_QA", [6, 5, 5, 5, 5.25]),
        ({"speech_and_sound_QA": 9}, "speech_and_sound_QA", [5, 5, 5, 7.5, 5.625]),
    ],
    ids=["docs weigh alike in a category", "both categories weigh alike in mixed"],
)
def test_means_are_over_docs_then_over_categories_then_over_four_values(server, make_data, sizes, high, means):
    root = make_data(**dict.fromkeys(FOLDERS, 1) | sizes)
    server.script("judge", lambda asked: "10 10" if question(asked)[0] == high else "5 5")
    results = run(server, root)
    assert [row(results, name)["gpt_score"] for name in ("speech", "sound", "music", "mixed", "")] == means


def test_wins_are_counted_by_role_in_both_orders(server, make_data):
    server.script("judge", by_role(9, 4))
    assert scores(run(server, make_data(speech_QA=3), SPEECH_QA), "speech_QA") == (9, 4, 1, 0)


def test_standard_errors_belong_to_their_means(server, make_data):
    root = make_data(**dict.fromkeys(FOLDERS, 3))
    server.script("judge", lambda asked: f"{3 + 2 * question(asked)[1]} {3 + 2 * question(asked)[1]}")
    results = run(server, root)  # 3, 5 and 7 in each task: variance 4
    task = 2 / 3**0.5
    assert row(results, "speech_QA")["gpt_score_stderr"] == pytest.approx(task)
    category = (4 / 6) ** 0.5
    assert row(results, "speech")["gpt_score_stderr"] == pytest.approx(category)
    mixed = (2 * task**2) ** 0.5 / 2
    assert row(results, "mixed")["gpt_score_stderr"] == pytest.approx(mixed)
    assert row(results)["gpt_score_stderr"] == pytest.approx((3 * category**2 + mixed**2) ** 0.5 / 4)


# Unjudged docs


def test_an_unjudged_doc_is_in_no_numerator_denominator_or_weight(server, make_data, caplog):
    root = make_data(**{**dict.fromkeys(FOLDERS, 2), "speech_dialogue_QA": 4})
    server.script("judge", filtered(("speech_QA", 1), ("speech_dialogue_QA", 0)))
    results = run(server, root)
    assert row(results, "speech_QA")["gpt_score"] == 10 and row(results, "speech_dialogue_QA")["gpt_score"] == 4
    assert row(results, "speech")["gpt_score"] == (10 + 4 + 4 + 4) / 4 and row(results, "speech")["sample_len"] == 4
    assert results["n-samples"][SPEECH_QA] == {"original": 2, "effective": 1}
    assert judging(results, "speech_QA")["unjudged"] == {"content filter": 1}
    assert judging(results, "speech_QA")["judged"] == 1
    judged, unjudged = records(results, "speech_QA")
    assert judged["judged"] and (unjudged["judged"], unjudged["reason"]) == (False, "content filter")
    assert "2 UNJUDGED answers are excluded from every score" in caplog.text


def test_half_a_pair_leaves_the_doc_unjudged(server, make_data):
    def answer(asked):
        return "prose" if answers(asked)[0].startswith("answer to speech_QA 1") else "8 6"

    server.script("judge", answer)
    results = run(server, make_data(speech_QA=2), SPEECH_QA)
    assert judging(results, "speech_QA")["unjudged"] == {"no pair of scores where the reply begins": 1}
    assert scores(results, "speech_QA") == (7, 7, 0, 2) and server.calls() == 1 + 3 + 3


def test_a_category_without_a_judged_doc_has_no_score_and_there_is_no_average(server, make_data, caplog):
    server.script("judge", filtered(("speech_and_sound_QA", 0), ("speech_and_sound_QA", 1)))
    results = run(server, make_data())
    assert scores(results, "speech_and_sound")[0] is None and scores(results, "mixed")[0] is None
    assert scores(results)[0] is None and row(results, "speech")["gpt_score"] == 7
    assert "air_bench_chat has no score" in caplog.text


def test_bad_clips_and_tasks_without_a_usable_one_are_in_the_results_by_name(server, make_data, caplog):
    root = make_data()
    (root / "Chat" / "speech_QA_iemocap" / "clip 1.wav").write_bytes(b"")
    for clip in (root / "Chat" / "sound_QA_clotho").iterdir():
        clip.write_bytes(b"")
    for clip in (root / "Chat" / "speech_and_music_QA_musiccaps_cv").iterdir():
        clip.unlink()
    results = run(server, root)
    assert judging(results, "speech_QA")["left_out"] == {"empty file": ["speech_QA_iemocap/clip 1.wav"]}
    absent = judging(results, "music_QA")["absent"] | judging(results, "sound_generation_QA")["absent"]
    assert list(absent) == [f"{ALL}_sound_QA"] and "empty file" in absent[f"{ALL}_sound_QA"]
    assert not {f"{ALL}_speech_and_music_QA", f"{ALL}_sound_QA"} & set(results["results"])
    assert row(results, "speech_and_sound")["gpt_score"] == 7 and scores(results)[0] is None
    assert f"{ALL}_sound RUNS WITHOUT {ALL}_sound_QA" in caplog.text and "missing: 2" in caplog.text
    assert server.calls("model") == 16 - 1 - 2 - 2
