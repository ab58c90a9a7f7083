"""Which reply of the judge is a verdict, and which is none."""

from __future__ import annotations

import contextlib
import re
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_tasks.airbench_chat.prompt import JudgePrompt, parse_scores
from lm_eval_tasks.judge.question import NoVerdict

JSON = '{"assistant_1": 8, "assistant_2": 6}'
NO_PAIR, RANGE, AMBIGUOUS = "no pair of scores", "outside 0 to 10", "ambiguous"
ENDLESS, LONG = "reasoning without an end", "longer than was asked for"
REPLIES = {
    # two numbers
    "a space": ("8 6", (8, 6)),
    "a comma": ("8, 6", (8, 6)),
    "a full stop": ("8 6.", (8, 6)),
    "square brackets": ("[8, 6]", (8, 6)),
    "quoted": ('["8", "6"]', (8, 6)),
    "two lines": ("8\n6", (8, 6)),
    "white space and empty lines around": ("\n \n  8 6 \n\n", (8, 6)),
    "the limits": ("0 10", (0, 10)),
    "out of ten": ("8/10 6/10", (8, 6)),
    "full-width digits": ("\uff18 \uff16", (8, 6)),
    "nothing": ("", NO_PAIR),
    "one number": ("8", NO_PAIR),
    "three numbers": ("8 6 7", NO_PAIR),
    "prose first": ("Here are my scores: 8 6", NO_PAIR),
    "a hyphen between": ("8-6", NO_PAIR),
    "the word and between": ("8 and 6", NO_PAIR),
    "eleven": ("8 11", RANGE),
    "a hundred": ("100 6", RANGE),
    "an error's codes": ("429 503", RANGE),
    "5,000 digits": ("8 " + "9" * 5000, NO_PAIR),
    "negative": ("-8 6", NO_PAIR),
    "an exponent": ("8e0 6", NO_PAIR),
    "out of a hundred": ("80/100 60/100", NO_PAIR),
    "a numbered list": ("1. 8\n2. 6", NO_PAIR),
    "half of a surrogate pair": ("8 6\ud83d", NO_PAIR),
    "half of a surrogate pair in the explanation": ("8 6\nFine \ud83d", (8, 6)),
    "a decimal comma or a list": ("8,5", NO_PAIR),
    "a list without spaces": ("[8,5]", (8, 5)),
    "an open bracket": ("[9, 1", NO_PAIR),
    "an open quotation": ('"9 1', NO_PAIR),
    "a leading zero": ("08 6", (8, 6)),
    "a leading zero before ten": ("010 6", NO_PAIR),
    "of another scale": ("0.8 0.6", RANGE),
    "a third number below": ("8 6\n7", AMBIGUOUS),
    # labels
    "labels on one line": ("Assistant 1: 8, Assistant 2: 6", (8, 6)),
    "labels on two lines": ("Assistant 1: 8\nAssistant 2: 6", (8, 6)),
    "labels in the other order": ("Assistant 2: 6\nAssistant 1: 8", (8, 6)),
    "labels as the mark writes them": ("Assistant 1's Answer: 8/10\nAssistant 2s Answer: 6/10", (8, 6)),
    "the same label twice": ("Assistant 1: 8\nAssistant 1: 6", NO_PAIR),
    "a third label": ("Assistant 1: 8\nAssistant 3: 6", NO_PAIR),
    # JSON
    "json": (JSON, (8, 6)),
    "json over lines": (JSON.replace(" ", "\n  "), (8, 6)),
    "json and an explanation": (f"{JSON}\n\nThe tempo is 120, not 4 or 5.", (8, 6)),
    "json with a reason": ('{"reason": "it names 3 of 4", "score_1": 8.5, "score_2": 6}', (8.5, 6)),
    "json with one score": ('{"assistant_1": 8}', NO_PAIR),
    "json with the same key twice": ('{"assistant_1": 8, "assistant_1": 9, "assistant_2": 6}', NO_PAIR),
    "json with null": ('{"assistant_1": 8, "assistant_2": null}', RANGE),
    "json with true": ('{"assistant_1": true, "assistant_2": 6}', RANGE),
    "json with 5,000 digits": (f'{{"assistant_1": 1{"0" * 5000}, "assistant_2": 6}}', RANGE),
    "json with a key without end": (f'{{"1{"scores" * 60}x": 8, "2": 6}}', NO_PAIR),
    "json that nests 100,000 deep": ('{"a":' * 100_000, LONG),
    "lists that nest in json": ('{"a": ' + "[" * 30_000 + "]" * 5_000 + "}", NO_PAIR),
    "json cut short": ('{"assistant_1": 8, "assistant_2": 6', NO_PAIR),
    # what is nothing
    "bold": ("**8 6**", (8, 6)),
    "a fence": ("```\n8 6\n```", (8, 6)),
    "invisible characters": ("\ufeff8\u200b 6\u2060\u00ad\u202e", (8, 6)),
    "an invisible character inside a number": ("1\u200b0 6", (10, 6)),
    "digits split by bold": ("1**0** 6", NO_PAIR),
    **{
        f"the end mark {mark}": (f"8 6{mark}", (8, 6)) for mark in ("<|im_end|>", "</s>", "<|eot_id|>", "<end_of_turn>")
    },
    "deepseek's end mark": ("8 6<\uff5cend\u2581of\u2581sentence\uff5c>", (8, 6)),
    "a mark inside a number": ("1<|im_end|>0 6", NO_PAIR),
    "a tag around": ("<answer>8 6</answer>", (8, 6)),
    "tags that name the answers": ("<score2>6</score2><score1>8</score1>", "tag of its own"),
    "tags with words": ("<second>6</second> <first>8</first>", "tag of its own"),
    "the same tag twice": ("<b>8</b> <b>6</b>", (8, 6)),
    # reasoning
    "a thought of an unknown name": ("<rationale>\n3 4\n", "unknown name"),
    "a thought of a longer name": ("<thought_process>\n3 4\n</thought_process>\n8 6", "unknown name"),
    "a thought": ("<think>maybe 3 4</think>8 6", (8, 6)),
    "the end of a thought alone": ("maybe 3 4\n</think>\n8 6", (8, 6)),
    "a thought of another name": ("<seed:think>3 4</seed:think><reasoning>\n3 4\n</reasoning>\n8 6", (8, 6)),
    "a thought in tokens": ("<|begin_of_thought|>3 4<|end_of_thought|>8 6", (8, 6)),
    "a thought after the verdict": ("8 6\n<reasoning>The first is right in 3 of 4 points.</reasoning>", (8, 6)),
    "a thought in a thought": ("<think>1 1<think>2 2</think>3 3</think>8 6", (8, 6)),
    "channels": (
        "<|channel|>analysis<|message|>3 4<|end|><|start|>assistant<|channel|>final<|message|>8 6<|return|>",
        (8, 6),
    ),
    "channels of another spelling": ("<|channel>thought\n3 4<channel|>8 6", (8, 6)),
    "a thought without an end": ("<think>\n8 6", ENDLESS),
    "a channel without an end": ("<|channel|>analysis<|message|>8 6", ENDLESS),
    "a thought alone": ("<think>8 6</think>", NO_PAIR),
    "a long thought": ("<think>" + "3 4 or 5 6?\n" * 50_000 + "</think>8 6", (8, 6)),
    # what follows
    "an explanation": ("8 6\nAssistant 1 names the dog, Assistant 2 does not.", (8, 6)),
    "an explanation with numbers": ("8 6\nThe tempo of 120 is 2 off, while 3/10 of it is at 4 4.", (8, 6)),
    "an explanation with scores": ("8 6\nAssistant 1 gets 8; Assistant 2 deserves a 6 rather than a 9.", (8, 6)),
    "a resolution": ("8 6\nThe picture would be\n1920 1080", (8, 6)),
    "a second pair": ("8 6\n7 5", AMBIGUOUS),
    "a score for each quality": ("8 6\nHelpfulness: 9 7\nAccuracy: 8 5\nBars and beats: 4, 4", (8, 6)),
    "a second pair announced at length": ("10 1\nSo my corrected scores for Assistant 1 and 2 are: 3, 8.", AMBIGUOUS),
    "a second pair with labels": ("10 1\nAssistant 1: 3\nwhile\nAssistant 2: 8", AMBIGUOUS),
    "a second pair in json": ('10 1\n{"assistant_1": 3, "assistant_2": 8}', AMBIGUOUS),
    "a second json": ('{"assistant_1": 10, "assistant_2": 1}\n' + JSON, AMBIGUOUS),
    "a second json on the line": (JSON + ' {"assistant_1": 10, "assistant_2": 1}', AMBIGUOUS),
    "a second json below": ("8 6\n" + JSON + ' {"assistant_1": 10, "assistant_2": 1}', AMBIGUOUS),
    "scores taken back": ("10 1\nWait, I swapped them: 1 10", AMBIGUOUS),
    "scores put right": ("10 1\nThe correct scores are 3, 8.", AMBIGUOUS),
    "scores that should be others": ("10 1\nSorry, it should be (3, 8).", AMBIGUOUS),
    "the same scores in a sentence": ("8 6\nMy final scores are 8 6.", (8, 6)),
    "a second pair on two lines": ("10 1\nOn reflection:\n3\n8", AMBIGUOUS),
    "a second pair in another turn": ("10 1<|im_end|>\n<|im_start|>assistant\n3 8", AMBIGUOUS),
    "a second pair as an item": ("10 1\n- 3 8", AMBIGUOUS),
    "a second pair quoted": ("10 1\n> 3 8", AMBIGUOUS),
    "a second pair as the answer": ("10 1\nAnswer: 3 8", AMBIGUOUS),
    "a second pair with a remark": ("10 1\n3 8 (corrected)", AMBIGUOUS),
    "a second thought": ("10 1\nOn second thought, 3 8", AMBIGUOUS),
    "another score after a dash": ("10 1\nAssistant 1 - 3", AMBIGUOUS),
    "one other score with a label": ("10 1\nAssistant 1: 3", AMBIGUOUS),
    "a book": ("8 6\n" + "prose\n" * 10_000, LONG),
    "20 MB": ("8 6\n" + "x" * 20_000_000, LONG),
}


@pytest.mark.parametrize("shape", REPLIES)
def test_a_reply_is_a_verdict_or_none_for_a_reason(shape):
    reply, expected = REPLIES[shape]
    if isinstance(expected, tuple):
        assert parse_scores(reply) == expected
    else:
        with pytest.raises(NoVerdict, match=expected):
            parse_scores(reply)


@pytest.mark.parametrize(
    ("reply", "answer", "is_verdict"),
    [
        ("10 1\nThat is what it says; I would give 3 and 8.", "10 1", False),
        ("10 1\n...", "**10**, 1.\nBoth are good.", False),
        ("Assistant 1: 10\nAssistant 2: 1\n...", "Assistant 2: 1\nAssistant 1: 10", False),
        ("10 1", '{"assistant_1": 10, "assistant_2": 1}', False),
        ("10 1", "10\n1", False),
        ("10 1", "1 10", True),
        ("10 1", "I would say 10 1", True),
        ("10 1", "There are 10 dogs.\n10 1", True),
        ("10 1", "10", True),
    ],
)
def test_a_verdict_that_an_answer_opens_with_may_have_been_repeated(reply, answer, is_verdict):
    prompt = JudgePrompt.load(None)
    for question in (prompt.ask("d", "q", answer, "b"), prompt.ask("d", "q", "a", answer)):
        if is_verdict:
            assert question.parse(reply) == (10, 1)
        else:
            with pytest.raises(NoVerdict, match="repeats the answer"):
                question.parse(reply)


def scores_or_none(text):
    with contextlib.suppress(NoVerdict):
        return parse_scores(text)


LETTERS = '0123456789 .,/\n\t*`:={}[]"_-<>assistantANSWERscore\uff11\uff10\u00b2\u2460\u0661'


@given(st.text() | st.text(alphabet=LETTERS, max_size=40))
@settings(max_examples=800)
def test_any_text_yields_scores_in_range_made_of_its_own_digits_or_none(text):
    digits = unicodedata.normalize("NFKC", text)
    assert all(0 <= score <= 10 and f"{int(score)}" in digits for score in scores_or_none(text) or ())


SCORES = st.integers(0, 10)
NO_DIGITS = st.text(st.characters(exclude_categories=["Nd", "No", "Nl"]), max_size=30)
FORMS = ["{} {}", "{}, {}", "{}\n{}", "{}/10 {}/10", "**{}** **{}**", "Assistant 1: {}\nAssistant 2: {}", "[{}, {}]"]
FORMS += ['{{"assistant_1": {}, "assistant_2": {}}}', "<think>x</think>{} {}"]


@given(NO_DIGITS, st.sampled_from(FORMS), SCORES, SCORES, NO_DIGITS)
@settings(max_examples=600)
def test_noise_without_digits_around_a_form_never_yields_other_numbers(before, form, one, two, after):
    assert scores_or_none(before + form.format(one, two) + after) in (None, (one, two))


@given(st.sampled_from(FORMS), SCORES, SCORES, st.text(max_size=60))
@settings(max_examples=500)
def test_any_text_on_the_lines_after_a_form_never_yields_other_numbers(form, one, two, after):
    assert scores_or_none(form.format(one, two) + "\n" + after) in (None, (one, two))


@given(SCORES, SCORES, st.sampled_from(FORMS[:-1]), SCORES, SCORES, NO_DIGITS)
@settings(max_examples=500)
def test_a_quoted_pair_before_the_verdict_never_wins(quoted_one, quoted_two, form, one, two, between):
    """What a judge does that repeats the answer's own scores, then gives its verdict on lines of its own."""
    between = re.sub(r"[<>\[\]{}`~]", "", between)
    assert scores_or_none(f"{quoted_one} {quoted_two}\n{between}\n{form.format(one, two)}") in (None, (one, two))


PARTS = [
    "8 6\n",
    "8 ",
    "8\n",
    "assistant 1 ",
    "*",
    "`",
    "{",
    "{\n",
    '{"a":',
    "Assistant 1: 8 ",
    ": ",
    "a:\n",
    "[",
    "<",
    "< ",
]
PARTS += ["<think>", "</think>", "<   ", "<a_", "<|a", "score ", "\u200b", "\n", "8 6 {}\n"]


def test_a_long_reply_is_read_in_no_time():
    start = time.monotonic()
    for part in PARTS:
        for reply in (part * 20_000, "8 6\n" + part * (39_000 // len(part)), f"<think>{part * 20_000}</think>8 6"):
            scores_or_none(reply)
    assert time.monotonic() - start < 10
