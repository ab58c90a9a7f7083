"""From an answer to a letter, by the strict reader and by the official rule, and what a letter is worth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.tasks import TaskManager

from lm_eval_tasks import INCLUDE_PATH
from lm_eval_tasks.air_bench_foundation import scoring
from lm_eval_tasks.air_bench_foundation.letters import official_letter, read_letter
from lm_eval_tasks.report import facts

MODELS, PUBLISHED = facts.PUBLISHED[facts.FOUNDATION]
CHOICES = {"A": "dog barks", "B": "rain", "C": "a church bell", "D": "Certainly"}

ANSWERS = [  # answer, letter of the strict reader, letter of the official rule
    ("B", "B", "B"),
    ("b", "B", None),
    ("B.", "B", "B"),
    ("(B)", "B", "B"),
    ("**B**", "B", None),
    (" B \n", "B", "B"),
    ("B)", "B", "B"),
    ("B. rain", "B", "B"),
    ("B: Rain.", "B", "B"),
    ("B - rain", "B", "B"),
    ("(B) rain", "B", None),
    ("B. wind", None, "B"),
    ("B. dog barks", None, "B"),
    ("B or C", None, "B"),
    ("A, B", None, "A"),
    ("The answer is B", "B", None),
    ("The answer is B.", "B", "B"),
    ("The correct answer is (B).", "B", None),
    ("the answer is b", "B", None),
    ("the answer is a", None, None),
    ("Answer: B", "B", "A"),
    ("So, my final answer is: B. rain", "B", None),
    ("Option B", "B", None),
    ("The answer is option B.", "B", "B"),
    ("The answer is B, since water falls.", "B", None),
    ("The answer is B because water falls.", "B", None),
    ("The answer is A dog that barks.", None, None),
    ("The answer is A, B", None, None),
    ("The answer is A or B.", None, "B"),
    ("The answer is not B.", None, "B"),
    ("The answer is rain.", "B", None),
    ("rain", "B", None),
    ("A church bell.", "C", "A"),
    ("a church bell", "C", None),
    ("Certainly", "D", "C"),
    ("Certainly, it is a dog", None, "C"),
    ("A dog barks", None, "A"),
    ("A. dog barks", "A", "A"),
    ("The answer is A dog barks", None, None),
    ("Bird song", None, "B"),
    ("It rains", None, None),
    ("<think>It is A. No.</think>B", "B", None),
    ("<think>The answer is A", None, None),
    ("<answer>B</answer>", "B", None),
    (r"\boxed{B}", "B", "B"),
    ("B\nBecause water falls.", "B", "B"),
    ("Water falls.\nThe answer is B.", "B", "B"),
    ("A. dog barks\nB. rain\nThe answer is B.", "B", "A"),
    ("A\nB", None, "A"),
    ("The answer is A.\nThe answer is B.", None, "B"),
    ("E", None, None),
    ("Because of A and B we cannot know", None, "B"),
    ("\uff22", "B", None),
    ("", None, None),
]


@pytest.mark.parametrize(("answer", "strict", "official"), ANSWERS)
def test_the_two_readings_of_an_answer(answer, strict, official):
    assert (read_letter(answer, CHOICES), official_letter(answer)) == (strict, official)


def test_what_may_be_a_letter_with_its_text_or_the_text_of_another_choice_is_none():
    assert read_letter("A dog barks", {"A": "dog barks", "B": "A dog barks"}) == "B"
    assert read_letter("B - rain", {"A": "B - rain", "B": "rain"}) is None


def test_a_letter_alone_is_a_letter_also_where_choices_are_letters():
    assert read_letter("C", {"A": "C", "B": "D"}) == "C"


@given(st.text(max_size=60))
def test_no_text_is_an_error_and_every_letter_is_one_of_four(text):
    assert read_letter(text, CHOICES) in (*"ABCD", None)
    assert official_letter(text) in (*"ABCD", None)


def doc(**other):
    return {"choice_a": "rain", "choice_b": "wind", "answer_gt": "wind", **other}


@pytest.mark.parametrize(
    ("answer", "missing", "metrics"),
    [
        ("B", None, {"acc": 1, "official_acc": 1}),
        ("A", None, {"acc": 0, "official_acc": 0}),
        ("wind", None, {"acc": 1}),
        ("no idea", None, {"acc": 0}),
        ("Bees", None, {"acc": 0, "official_acc": 1}),
        ("C", None, {"acc": 0, "official_acc": 0}),
        ("", "no answer: content filter", {}),
    ],
)
def test_what_an_answer_is_worth(answer, missing, metrics):
    assert scoring.metrics([scoring.reading(doc(), answer, missing)]) == metrics


def test_of_equal_choices_each_letter_is_right_for_acc_and_the_first_for_the_official_rule():
    twice = doc(choice_c="wind")
    assert scoring.metrics([scoring.reading(twice, "C")]) == {"acc": 1, "official_acc": 0}
    assert scoring.metrics([scoring.reading(twice, "wind")]) == {"acc": 1}


def test_several_answers_to_a_doc_count_as_their_mean_without_those_that_are_missing():
    records = [scoring.reading(doc(), "B"), scoring.reading(doc(), "A"), scoring.reading(doc(), "", "no answer: x")]
    assert scoring.metrics(records) == {"acc": 0.5, "official_acc": 0.5}
    assert scoring.summary(records) == {
        "docs": 3,
        "scored": 2,
        "no_letter": 0,
        "official_no_letter": 0,
        "unanswered": {"no answer: x": 1},
    }


@pytest.mark.parametrize("model", MODELS[:-1])
def test_the_average_of_the_published_rows_is_the_one_that_was_published(model):
    """The groups of the YAML files over the published task rows; their sizes must not matter."""
    place = MODELS.index(model)
    manager = TaskManager(include_path=str(INCLUDE_PATH), include_defaults=False, metadata={"local_path": "sample"})
    group = manager.load(["air_bench_foundation"])["groups"]["air_bench_foundation"]
    rows = {
        f"air_bench_foundation_{name}": {
            "acc,none": row[place] / 100,
            "acc_stderr,none": 0.01,
            "sample_len": 3 + 100 * number,
        }
        for number, (name, row) in enumerate(PUBLISHED.items())
        if name in scoring.TASKS
    }
    found = group.aggregate(rows)
    assert 100 * found["acc,none"] == pytest.approx(PUBLISHED["Average"][place], abs=0.0501)
    share = [1 / 9, 1 / 4, 1 / 6]  # of a category's error in its mean, before the mean of three
    assert found["acc_stderr,none"] == pytest.approx(0.01 * sum(share) ** 0.5 / 3)


def test_the_tables_of_tasks_agree():
    assert list(PUBLISHED) == [*scoring.TASKS, "Average"] and len(scoring.TASKS) == 19
    assert sum(task.records for task in scoring.TASKS.values()) == 24_683
