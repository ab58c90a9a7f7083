"""Answers as models write them, and the letter that each names: nothing is guessed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_tasks.air_bench_foundation.letters import official_letter, read_letter

CHOICES = {"A": "Cat meowing", "B": "Dog barking", "C": "Dog barking loudly", "D": "Rain"}

ANSWERS = {
    "B": (
        "B | B. | (B) | **B** | B) | B: | B, | [B] | `B` | _B_ | *B* | **B.** | **(B)** | 'B' | \"B\" | "
        "b | b. | (b) | B\n | \nB | B。 | （B） | Ｂ | Ｂ． | B、 | 【B】 | 「B」 | “B” | ‘B’ | {B} | "
        "Answer: B | answer: B | ANSWER: B | Answer: (B) | Answer: **B** | **Answer:** B | **Answer: B** | "
        "Answer - B | Answer is B | Answer B | Answer：B | Ans: B |  Final answer: B | Final Answer: B. | "
        "### Answer: B | ### Answer\nB | # Final Answer\n\n**B** | Answer:\nB | The answer is:\nB | "
        "The answer is:\n\n**B** | The answer is B | The answer is B. | The answer is (B). | "
        "The answer is: B | The answer is **B**. | The answer is: **B. Dog barking** | "
        "The answer is 'B'. | The answer is \"B\". | The correct answer is B. | The correct option is B. | "
        "The correct choice is B | The most suitable answer is B. | "
        "The most suitable answer is B. Dog barking | The best answer is B | The best answer is option B | "
        "My answer is B | I choose B | I choose B. | I would choose B. | I think the answer is B. | "
        "I believe the answer is B | I'd say B. | I'd go with B | Based on the audio, the answer is B. | "
        "Therefore, the answer is B. | So the answer is B. | Thus, the correct answer is B. | "
        "B is correct. | B is the correct answer. | B is the answer | B is the most suitable answer. | "
        "Option B is correct. | The correct answer is option B: Dog barking. | Option B | option B | "
        "Option B. | Option (B) | Choice B | choice: B | B. Dog barking | B. dog barking | "
        "B. dog barking. | B: Dog barking | B) Dog barking | (B) Dog barking | B - Dog barking | "
        "B – Dog barking | B — Dog barking | B Dog barking | **B. Dog barking** | B.Dog barking | "
        "B、Dog barking | B: 'Dog barking' | **B.** Dog barking | B. \"Dog barking\" | B. Dog barking! | "
        "Option B: Dog barking | Answer: B. Dog barking | The answer is B: Dog barking | "
        "The answer is B (Dog barking). | B (Dog barking) | The answer is B, Dog barking. | "
        "The answer is B - Dog barking | Dog barking | dog barking | DOG BARKING | Dog barking. | "
        "\"Dog barking\" | 'dog barking' | **Dog barking** | Dog  barking | dog barking! | "
        "The answer is dog barking. | The correct answer is: Dog barking | Answer: dog barking | 答案是B | "
        "答案：B | 答案是：B | 答案是 B。 | 正确答案是B | 正确答案：B。 | 答案为B | 选B | 选择B | "
        "我选择B | 选项B | 应选B | B选项 | 最合适的答案是B | 因此，答案是B。 | 所以答案是B | \\boxed{B} | "
        "$\\boxed{B}$ | \\boxed{\\text{B}} | The answer is $\\boxed{B}$. | \\(\\boxed{B}\\) | "
        "\\[\\boxed{B}\\] | $B$ | \\text{B} | \\boxed{\\mathrm{B}} | \\boxed{\\textbf{B}} | "
        '{"answer":"B"} | {"answer": "B"} | ```json\n{"answer": "B"}\n``` | {\'answer\': \'B\'} | '
        '{"answer": "B. Dog barking"} | {"choice": "B"} | <answer>B</answer> | <answer> B. </answer> | '
        "<think>The sound could be A or C.</think>B | <think>hm\n\nA?</think>\n\nThe answer is B. | "
        "<think>\n</think>\n\nB | <think>x</think><answer>B</answer> | <thinking>A</thinking>B | "
        "B\n\nExplanation: the dog barks. | B. Dog barking\n\nThe audio has a dog. | "
        "The dog barks twice.\n\nAnswer: B | "
        "First I hear a cat.\nThen a dog.\nTherefore, the answer is B. | B B | B\nB | B, B | "
        "A. Cat meowing\nB. Dog barking\nC. Dog barking loudly\nD. Rain\n\nAnswer: B | "
        "The answer is B. The dog barks once. | The answer is B because of the bark. | B<|im_end|> | "
        "B</s> | B<|endoftext|> | <s>B | Sure! The answer is B. | B.\n |   B | Answer: B\nAnswer: B | "
        "Choice (B) | The answer is B. Dog barking, not loud. | I'd select B"
    ),
    None: (
        " |    | Both A and B | A or B | Not A, but B | A and B | A/B | A, B | A & B | AB | BA | A B | "
        "A\nB | B? | Maybe B or C | Neither A nor B | None of the above | None | All of the above | "
        "Not B | It is not B | The answer is not B | The answer is not B. | I | "
        "I am sorry, but I cannot listen to audio. | A dog barks | A dog barking | A cat | "
        "The answer is a dog | The answer is A dog | The answer is a | Bird song | Because | Definitely | "
        "Dogs | Certainly | Dog | barking | Dog barking and rain | Cat meowing or Dog barking | "
        "Cat meowing\nRain | A. Dog barking | C. Dog barking | B. Rain | B. Cat meowing | "
        "The answer is B. Rain | The answer is A. Dog barking | The answer is A: Dog barking | "
        "Answer: A or B | The answer is A or B | The answer is either A or B. | "
        "The answer is B, but it could be C | The answer is B or C because | The answer could be B | "
        "I'm not sure | I can't determine | Unable to determine. | E | F. | 1 | 2 | The answer is E | "
        "The answer is 2 | A. Cat meowing\nB. Dog barking | "
        "A. Cat meowing B. Dog barking C. Dog barking loudly D. Rain | "
        "Choose the most suitable answer from options A, B, C, and D | Answer: A\nAnswer: B | "
        "The answer is A.\nNo, the answer is B. | <think>The answer is B | <think> | "
        '\\boxed{A}\n\\boxed{B} | {"answer": ["A","B"]} | {"A": 0.1, "B": 0.9} | {"answer": null} | '
        '{"answer":"A","other":"B"} | 答案不是B | A或B | 答案是A或B | 选A还是B | A和B | Vitamin B | '
        "Plan B | hepatitis B | grade B work | I don't know. A? | The answer is D or B. | "
        "B. Dog barking or C. Dog barking loudly | A: The audio is a dog | Answer: A dog barking | "
        "Answer: A cat meowing loudly | The answer is A musical note | As an AI, I cannot hear | "
        "Do you mean B? | Is it B? | The speaker says A | B minor | A major | C major | "
        "The key is C major | A4 | B♭ | D- | A+ | (A) (B) | A) B) | B - A | The answer is B - no, A | "
        "B, not A | Not A but B | B. Dog barking loudly | <B> | A: B | Hence B is the answer | Sure, B | "
        "B ✅ | It is B | It's B. | The answer is B, or possibly D | B\nActually, it is C | "
        "The answer is B. Dog barking loudly, that is | The answer is A.M. | It is C, the pitch | "
        "Option A is incorrect | The answer is B.C | B\nThe answer should be C | 答案是B,或者C | "
        "I don't think the answer is B | The answer isn't B | It is not clear whether the answer is B."
    ),
    "C": ("Dog barking loudly | C. Dog barking loudly | C | The answer is dog barking loudly"),
    "A": (
        "A | A. | (A) | A. Cat meowing | The answer is A | The answer is A. | **A** | Answer: A | "
        "A: Cat meowing | A) | cat meowing | 答案是A | a"
    ),
}
"""The letter that each answer names, None where it names none; answers stand between `` | ``."""


@pytest.mark.parametrize(
    ("letter", "answer"), [(letter, one) for letter, many in ANSWERS.items() for one in many.split(" | ")]
)
def test_the_letter_that_an_answer_names(letter, answer):
    assert read_letter(answer, CHOICES) == letter


def test_choices_that_are_the_same_but_for_case_are_told_apart_by_their_letter_alone():
    choices = {"A": "rain", "B": "Rain.", "C": "wind"}
    said = {"rain": None, "Rain.": None, "B. rain": "B", "B": "B", "wind": "C"}
    assert {one: read_letter(one, choices) for one in said} == said


def test_a_choice_of_signs_alone_is_no_reason_to_find_it_everywhere():
    assert read_letter("The answer is B. Rain it is", {"A": "...", "B": "rain", "C": "$"}) == "B"


PARTS = st.lists(st.sampled_from(["A", "B", "C", "D", "E", "a", ".", ")", " ", "\n", "\t", "\u3000", "x", "the"]))


@given(PARTS.map("".join))
def test_the_official_rule_is_the_one_of_the_official_script(answer):
    """Strip, join the lines, first character, last but one; written a second time from its description."""
    text = "".join(answer.strip().split("\n"))
    candidates = [text[0], text[-2] if len(text) > 1 else ""] if text else []
    expected = next((one for one in candidates if one in {"A", "B", "C", "D"}), None)
    assert official_letter(answer) == expected


@given(PARTS.map(" ".join))
def test_a_letter_needs_to_be_there(answer):
    letter = read_letter(answer, {"A": "cat", "B": "dog"})
    assert letter is None or letter in answer.upper()


@pytest.mark.parametrize(
    "many",
    [
        "A" * 9000,
        "A " * 9000,
        "A," * 9000,
        "the best " * 2000,
        "\\text{" * 2000,
        "我" * 9000,
        "# " * 9000,
        "so " * 4000,
    ],
)
def test_no_answer_takes_long_to_read(many):
    begun = time.monotonic()
    read_letter(many + "!", CHOICES)
    assert time.monotonic() - begun < 2
