"""Batches: exact or one by one, halved when memory ends, and a clip that fails costs only itself."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from lm_eval_tasks.errors import ModelUnavailable
from lm_eval_tasks.models.local_generate import Generator
from lm_eval_tasks.runs.answers import Unanswered
from local.asking import GREEDY, request, requests, write_clip


@pytest.fixture
def spoil(monkeypatch):
    """A function that makes ``generate`` fail for the batches that it is told."""

    def spoil(model, fails, error):
        sizes, generate = [], model.model.generate

        def broken(**inputs):
            count, limit = len(inputs["input_ids"]), inputs["max_new_tokens"]
            if limit > 1:  # else it is a check
                sizes.append(count)
                if fails(count, len(sizes)):
                    raise error
            return generate(**inputs)

        monkeypatch.setattr(model.model, "generate", broken)
        return sizes

    return spoil


def test_a_model_whose_batches_leak_goes_on_one_by_one_and_says_so(load, tmp_path, monkeypatch, caplog):
    """Padding on the right, which is the default of most tokenizers, changes the answers of the shorter clips."""
    alone, leaking = load(), load(batch_size=4)
    encode = type(leaking.processor).__call__

    def on_the_right(self, text=None, audio=None, text_kwargs=None, **options):
        return encode(self, text=text, audio=audio, text_kwargs={**text_kwargs, "padding_side": "right"}, **options)

    monkeypatch.setattr(type(leaking.processor), "__call__", on_the_right)
    asked = requests(alone, tmp_path)
    with caplog.at_level(logging.WARNING):
        answers = leaking.generate_until(asked, disable_tqdm=True)
    assert answers == alone.generate_until(asked, disable_tqdm=True)
    assert "Going on with batch_size=1" in caplog.text
    found = leaking.get_model_info()["hf_audio"]
    assert found["batch_size"] == 1 and found["batch_distance"] > 0.02


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory"),
    MemoryError(),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["cuda", "cpu", "python"])
def test_out_of_memory_halves_the_batch_and_loses_nothing(error, load, tmp_path, spoil, caplog):
    model = load(batch_size="auto", max_batch_size=8)
    asked = requests(model, tmp_path, [3.0, 1.0, 2.0, 2.5, 1.5, 0.5, 3.5])
    sizes = spoil(model, lambda count, _: count > 2, error)
    with caplog.at_level(logging.WARNING):
        answers = model.generate_until(asked, disable_tqdm=True)
    assert answers == load().generate_until(asked, disable_tqdm=True)
    assert sizes[:2] == [7, 4] and sizes.count(7) == 1 and max(sizes[sizes.index(2) :]) <= 3
    assert "Out of memory with 7 clips at once; going on with 4" in caplog.text
    assert model.get_model_info()["hf_audio"]["batch_size"] == 2


def test_a_later_batch_is_made_again_when_memory_ended_before_it(load, tmp_path, spoil):
    model = load(batch_size=4)
    asked = requests(model, tmp_path, [1.0 + number / 10 for number in range(10)])
    sizes = spoil(model, lambda count, _: count > 2, OUT_OF_MEMORY[0])
    answers = model.generate_until(asked, disable_tqdm=True)
    assert sizes == [4, 2, 2, 2, 2, 2] and not any(isinstance(answer, Unanswered) for answer in answers)


def test_a_clip_that_has_gone_keeps_its_reason_where_its_batch_is_made_again(load, tmp_path, spoil):
    model = load(batch_size=4)
    asked = requests(model, tmp_path, [1.0 + number / 10 for number in range(10)])
    (tmp_path / "3.wav").unlink()  # of the second batch
    spoil(model, lambda count, _: count > 2, OUT_OF_MEMORY[0])
    answers = model.generate_until(asked, disable_tqdm=True)
    [missing] = [answer for answer in answers if isinstance(answer, Unanswered)]
    assert answers.index(missing) == 3 and missing.reason == "audio gone or damaged"


def test_one_clip_that_does_not_fit_alone_is_unanswered(load, tmp_path, spoil):
    model = load()
    asked = requests(model, tmp_path)
    spoil(model, lambda _, call: call == 1, OUT_OF_MEMORY[0])
    answers = model.generate_until(asked, disable_tqdm=True)
    [missing] = [answer for answer in answers if isinstance(answer, Unanswered)]
    assert missing.reason == "out of memory" and "2 GiB" in missing.detail
    assert answers.index(missing) == 1  # the longest, which is tried first


def test_a_clip_that_has_gone_is_unanswered_with_its_reason(load, tmp_path, caplog):
    model = load(batch_size=4)
    asked = requests(model, tmp_path)
    (tmp_path / "2.wav").unlink()
    before = [one.args[1] for one in asked]
    answers = model.generate_until(asked, disable_tqdm=True)
    assert [number for number, answer in enumerate(answers) if isinstance(answer, Unanswered)] == [2]
    assert answers[2].reason == "audio gone or damaged" and "2.wav" in answers[2].detail
    assert asked[2].args[1] == {**before[2], "unanswered": answers[2].reason, "why": answers[2].detail}
    assert "1 of 5 REQUESTS HAVE NO ANSWER" in caplog.text


def test_a_request_that_fails_in_a_batch_costs_only_itself(load, tmp_path, monkeypatch):
    model = load(batch_size=5)
    asked = requests(model, tmp_path)
    encode = model.prompts.encode

    def broken(chats):
        if any("What is heard, 3?" in chat.texts for chat in chats):
            raise ValueError("no such clip")
        return encode(chats)

    monkeypatch.setattr(model.prompts, "encode", broken)
    answers = model.generate_until(asked, disable_tqdm=True)
    assert [isinstance(answer, Unanswered) for answer in answers] == [False, False, False, True, False]
    assert answers[3].reason == "model failed (ValueError)" and answers[3].detail == "no such clip"


def test_when_nothing_is_answered_the_run_ends_with_the_cause_and_without_trying_everything(load, tmp_path, spoil):
    model = load()
    asked = requests(model, tmp_path, [0.5 + number / 100 for number in range(30)])
    sizes = spoil(model, lambda *_: True, RuntimeError("CUDA error: device-side assert triggered"))
    with pytest.raises(ModelUnavailable, match=r"none of 30 requests.*device-side assert"):
        model.generate_until(asked, disable_tqdm=True)
    assert len(sizes) == 8


def test_a_task_that_needs_every_answer_ends_the_run_after_all_others_are_stored(load, tmp_path, monkeypatch):
    model = load()
    asked = requests(model, tmp_path)
    for one in asked:
        one.__class__ = type("Plain", (type(one),), {"may_stay_unanswered": False})
    (tmp_path / "2.wav").unlink()
    stored = []
    monkeypatch.setattr(model.cache_hook, "add_partial", lambda *arguments: stored.append(arguments))
    with pytest.raises(ModelUnavailable, match="1 of 5 requests have no answer"):
        model.generate_until(asked, disable_tqdm=True)
    assert len(stored) == 4


def test_answers_are_stored_and_handed_over_batch_by_batch(load, tmp_path, monkeypatch):
    model = load(batch_size=2)
    asked = requests(model, tmp_path)
    events = []
    generate = model.generator
    monkeypatch.setattr(model, "generator", lambda *given: events.append("batch") or generate(*given))
    monkeypatch.setattr(model.cache_hook, "add_partial", lambda name, arguments, answer: events.append("stored"))
    for one in asked:
        one.on_answer = lambda one, answer: events.append("handed over")
    model.generate_until(asked, disable_tqdm=True)
    pair = ["stored", "handed over"]
    assert events == ["batch", *pair * 2, "batch", *pair * 2, "batch", *pair]


def test_a_prompt_that_fills_the_context_is_unanswered(load, tmp_path):
    model = load()
    model.generator._context = 200
    clip = write_clip(tmp_path / "clip.wav", 1.0)
    asked = [request(model, clip), request(model, clip, "Why? " * 300, 1)]
    good, bad = model.generate_until(asked, disable_tqdm=True)
    assert good and bad.reason == "model failed (PromptTooLong)" and "context has 200" in bad.detail


def test_without_chats_it_says_what_to_add(load):
    asked = request(load(), None)
    asked.arguments = ("plain text", GREEDY)
    with pytest.raises(ValueError, match="--apply_chat_template"):
        load().generate_until([asked])


def test_likelihoods_are_refused(load):
    with pytest.raises(ValueError, match="--model hf"):
        load().loglikelihood([])


@pytest.mark.parametrize(
    ("row", "think", "until", "text", "finish", "tokens"),
    [
        ("a dog<|im_end|>", None, [], "a dog", "stop", None),
        ("a dog<|im_end|><|endoftext|><|endoftext|>", None, [], "a dog", "stop", None),
        ("a dog", None, [], "a dog", "length", None),
        ("a dog\n\nand", None, ["\n\n"], "a dog", "stop", None),
        ("a dog. a cat\n\n", None, ["\n\n", "."], "a dog", "stop", None),
        ("hm</think>a dog<|im_end|>", "</think>", [], "a dog", "stop", None),
        ("hm</think>\na dog", "</think>", [], "a dog", "length", None),
        ("a\n\nb</think>a dog\n\nx", "</think>", ["\n\n"], "a dog", "stop", None),
        ("hm, hm", "</think>", [], "hm, hm", "thinking", None),
        ("a dog<|im_end|>", "</think>", [], "a dog", "stop", None),
        ("hm<|im_start|>a dog<|im_end|>", "<|im_start|>", [], "a dog", "stop", None),
        ("<|im_end|>", None, [], "", "stop", 1),
    ],
)
def test_how_an_answer_ended(row, think, until, text, finish, tokens, load):
    model = load()
    generator = Generator(model.model, model.tokenizer, think, 256)
    ids = model.tokenizer(row)["input_ids"]
    answer = generator._read(ids, generator._ends, until, 7)
    assert (answer, answer.finish, answer.prompt_tokens) == (text, finish, 7)
    assert tokens is None or answer.completion_tokens == tokens


def test_other_stop_strings_end_an_answer(load, tmp_path):
    model = load()
    clip = write_clip(tmp_path / "clip.wav", 1.0)
    whole = model.generate_until([request(model, clip)], disable_tqdm=True)[0]
    stop = whole[2:4]
    cut = model.generate_until([request(model, clip, until=[stop])], disable_tqdm=True)[0]
    assert cut == whole[: whole.index(stop)] and cut.finish == "stop" and cut.completion_tokens < 12


def test_what_names_the_checkpoint_changes_with_whatever_changes_its_answers(load, checkpoint, tmp_path):
    import shutil

    copy = Path(shutil.copytree(checkpoint(), tmp_path / "copy"))
    before = load(copy)._identity
    assert load(copy)._identity == before == load(copy, batch_size=4)._identity
    assert load(copy, dtype="bfloat16")._identity != before
    assert load(copy, enable_thinking=False)._identity != before
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes())
    assert load(copy)._identity != before
