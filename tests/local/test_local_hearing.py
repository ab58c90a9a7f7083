"""It hears, or it stops: whatever would give scores of a model that did not hear the clip ends the run."""

from __future__ import annotations

import json
import logging
import shutil

import pytest
import torch

from lm_eval_tasks.errors import ModelUnavailable
from lm_eval_tasks.runs.answers import Answer
from local.asking import request, requests, write_clip


@pytest.mark.parametrize("special", [{"content": "parts"}, {"content": "strings"}, {}])
def test_templates_that_know_only_parts_or_only_strings_lead_to_the_same_answers(special, load, tmp_path):
    plain, other = load(), load(special=special)
    asked = requests(plain, tmp_path, [1.0, 2.0])
    answers = plain.generate_until(asked, disable_tqdm=True)
    assert other.generate_until(requests(other, tmp_path, [1.0, 2.0]), disable_tqdm=True) == answers


def test_a_template_without_a_place_for_audio_ends_the_run_and_names_the_server_way(load, tmp_path):
    model = load(special={"audio": "(a clip)", "content": "parts"})
    with pytest.raises(ModelUnavailable, match=r"no place for a clip.*audio-chat-completions"):
        model.generate_until(requests(model, tmp_path, [1.0]), disable_tqdm=True)


def test_a_processor_without_a_template_takes_the_tokenizers(load, tmp_path, checkpoint):
    bare = shutil.copytree(checkpoint(), tmp_path / "bare")
    template = (bare / "chat_template.jinja").read_text()
    (bare / "chat_template.jinja").unlink()
    for name in ("processor_config.json", "tokenizer_config.json"):
        config = json.loads((bare / name).read_text())
        config.pop("chat_template", None)
        (bare / name).write_text(json.dumps(config | ({"chat_template": template} if "tok" in name else {})))
    model = load(bare)
    model.processor.chat_template = None
    asked = requests(model, tmp_path, [1.0, 2.0])
    assert model.generate_until(asked, disable_tqdm=True) == load().generate_until(asked, disable_tqdm=True)


def test_no_template_at_all_ends_the_run(load, tmp_path):
    model = load()
    model.processor.chat_template = model.tokenizer.chat_template = None
    with pytest.raises(ModelUnavailable, match=r"no place for a clip \(.*chat_template is not set"):
        model.generate_until(requests(model, tmp_path, [1.0]), disable_tqdm=True)


def test_a_model_whose_answers_do_not_depend_on_the_clip_ends_the_run(load, tmp_path):
    model = load()
    with torch.no_grad():
        for weights in model.model.model.multi_modal_projector.parameters():
            weights.zero_()
    with pytest.raises(ModelUnavailable, match="silence and noise alike"):
        model.generate_until(requests(model, tmp_path, [1.0]), disable_tqdm=True)


def test_a_model_that_computes_no_numbers_ends_the_run(load, tmp_path):
    model = load()
    with torch.no_grad():
        next(model.model.model.language_model.parameters()).fill_(float("nan"))
    with pytest.raises(ModelUnavailable, match="not numbers in float32"):
        model.generate_until(requests(model, tmp_path, [1.0]), disable_tqdm=True)


def test_an_encoded_prompt_without_audio_tokens_ends_the_run(load, tmp_path, monkeypatch):
    """As a processor gives that ignores a clip: the text is there, and nothing else."""
    model = load()
    encode = type(model.processor).__call__

    def ignores(self, text=None, audio=None, **options):
        return encode(self, text=[words.replace("<|AUDIO|>", "") for words in text], **options)

    monkeypatch.setattr(type(model.processor), "__call__", ignores)
    with pytest.raises(ModelUnavailable, match="holds no audio"):
        model.generate_until(requests(model, tmp_path, [1.0]), disable_tqdm=True)


def test_a_checkpoint_of_text_alone_refuses_a_clip(load, tmp_path):
    model = load("qwen2_text")
    with pytest.raises(ModelUnavailable, match=r"audio-chat-completions"):
        model.generate_until(requests(model, tmp_path, [1.0]), disable_tqdm=True)


def test_a_question_that_holds_the_audio_token_costs_only_itself(load, tmp_path):
    model = load()
    clip = write_clip(tmp_path / "clip.wav", 1.0)
    asked = [request(model, clip), request(model, clip, "What is <|AUDIO|>?", 1)]
    good, bad = model.generate_until(asked, disable_tqdm=True)
    assert good and not bad and "no place for a clip" in bad.detail


@pytest.mark.parametrize("rate", [16_000, 24_000])
def test_clips_are_given_at_the_rate_that_the_checkpoint_takes(rate, load, tmp_path, monkeypatch):
    model = load(special={"rate": rate} if rate != 16_000 else {})
    given = []
    encode = type(model.processor).__call__

    def note(self, text=None, audio=None, **options):
        given.append((len(audio[0]), options["audio_kwargs"]["sampling_rate"]))
        return encode(self, text=text, audio=audio, **options)

    monkeypatch.setattr(type(model.processor), "__call__", note)
    asked = [request(model, write_clip(tmp_path / "clip.wav", 2.0, rate=44_100))]
    assert model.generate_until(asked, disable_tqdm=True)[0]
    assert given[-1] == (2 * rate, rate)


@pytest.mark.parametrize(("family", "heard"), [("qwen2_audio", 30.0), ("voxtral", None)])
def test_clips_that_are_longer_than_the_model_hears_are_counted_before_the_first_answer(
    family, heard, load, tmp_path, caplog
):
    model = load(family)
    asked = requests(model, tmp_path, [31.0, 2.0, 45.0])
    with caplog.at_level(logging.WARNING):
        answers = model.generate_until(asked, disable_tqdm=True)
    assert all(isinstance(answer, Answer) for answer in answers)
    found = model.get_model_info()["hf_audio"]
    warned = [record.message for record in caplog.records if "LONGER THAN THE MODEL HEARS" in record.message]
    if heard is None:
        assert not warned and "clips_cut" not in found
    else:
        assert "2 of 3" in warned[0] and "the longest has 45.0 s" in warned[0]
        assert found["clips_cut"] == 2 and abs(found["hears_seconds"] - heard) < 0.2
