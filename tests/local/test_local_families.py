"""Each family by the same code: it hears, and batches give what single answers give."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from transformers.integrations.peft import MIN_PEFT_VERSION

from lm_eval_tasks.runs.answers import Answer
from local.asking import request, requests
from local.checkpoints import FAMILIES, NEEDS


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_gives_the_answers_of_single_clips_token_by_token(family, load, tmp_path):
    alone, together = load(family), load(family, batch_size=4)
    asked = requests(alone, tmp_path)
    answers = alone.generate_until(asked, disable_tqdm=True)
    assert len(set(answers)) > 2  # they depend on the clips
    assert together.generate_until(asked, disable_tqdm=True) == answers
    assert together.get_model_info()["hf_audio"]["batch_size"] == 4
    for answer in answers:
        assert isinstance(answer, Answer)
        assert (answer.finish == "length") == (answer.completion_tokens == 12)
        assert answer.prompt_tokens > 30 and answer.model == str(alone.pretrained)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "voxtral"])  # which refuses it itself
def test_a_system_message_reaches_the_model(family, load, tmp_path):
    model = load(family)
    [asked] = requests(model, tmp_path, [1.0])
    chat = model.prompts.read(asked.args[0])
    short = model.prompts.encode([chat])["input_ids"].shape[1]
    chat.messages[:0] = [{"role": "system", "content": "You listen closely to the music."}]
    assert model.prompts.encode([chat])["input_ids"].shape[1] > short + 5


def test_text_alone_goes_through_the_same_model(load, tmp_path):
    model = load(batch_size=2)
    asked = [request(model, None, f"How do you feel, {number}?" * (1 + number), number) for number in range(3)]
    asked += requests(model, tmp_path, [1.0, 3.0])
    single = load()
    assert model.generate_until(asked, disable_tqdm=True) == single.generate_until(asked, disable_tqdm=True)


def test_a_checkpoint_of_text_alone_answers_text(load):
    model = load("qwen2_text", batch_size=2)
    asked = [request(model, None, question, number) for number, question in enumerate(["Hello?", "How are you today?"])]
    answers = model.generate_until(asked, disable_tqdm=True)
    assert len(set(answers)) == 2 and all(answer.completion_tokens for answer in answers)


@pytest.mark.parametrize("family", NEEDS)
def test_families_that_need_more_than_torch_give_exact_answers_or_go_one_by_one(family, load, tmp_path):
    pytest.importorskip(NEEDS[family])
    alone, together = load(family), load(family, batch_size=4)
    asked = requests(alone, tmp_path)
    answers = alone.generate_until(asked, disable_tqdm=True)
    assert len(set(answers)) > 2
    assert together.generate_until(asked, disable_tqdm=True) == answers
    found = together.get_model_info()["hf_audio"]
    assert (found["batch_size"], found["batch_distance"] > 1e-3) == ((4, False) if "omni" in family else (1, True))
    assert "Talker" not in found["model_class"] and max(answer.completion_tokens for answer in answers) <= 12


def test_speech_weights_that_stand_beside_the_model_are_loaded(checkpoint, load, tmp_path):
    pytest.importorskip("torchvision")
    peft = pytest.importorskip("peft", minversion=MIN_PEFT_VERSION)
    plain = checkpoint("phi4_multimodal")
    whole = Path(shutil.copytree(plain, tmp_path / "whole"))
    adapted = peft.get_peft_model(
        load(plain).model, peft.LoraConfig(target_modules=r".*self_attn\.qkv_proj", init_lora_weights=False)
    )
    adapted.save_pretrained(whole / "speech-lora")
    model, without = load(whole), load(plain)
    asked = requests(model, tmp_path, [1.0, 2.0])
    assert model.model.active_adapters() == ["speech-lora"]
    assert model.generate_until(asked, disable_tqdm=True) != without.generate_until(asked, disable_tqdm=True)


def test_an_adapter_of_peft_goes_on_top_and_makes_it_another_model(load, tmp_path):
    peft = pytest.importorskip("peft")
    plain = load()
    asked = requests(plain, tmp_path, [1.0, 2.0])
    answers = plain.generate_until(asked, disable_tqdm=True)
    tuned = peft.get_peft_model(
        load().model, peft.LoraConfig(target_modules=r".*language_model.*q_proj", init_lora_weights=False)
    )
    tuned.save_pretrained(tmp_path / "adapter")
    model = load(peft=str(tmp_path / "adapter"), batch_size=2)
    assert model.generate_until(asked, disable_tqdm=True) != answers
    assert model.get_model_info()["hf_audio"]["model_class"] == "Qwen2AudioForConditionalGeneration"
    assert model._identity != plain._identity
