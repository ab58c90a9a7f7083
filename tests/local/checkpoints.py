"""Tiny checkpoints with random weights, made on the spot: no network, some 0.5 million parameters each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mistral_common
import torch
import transformers
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import WhisperFeatureExtractor

WORDS = ["what animal is heard in this recording and how does the speaker feel about the music"]
LAYERS = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
WHISPER = {
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "d_model": 64,
    "num_mel_bins": 128,
}
ENCODER = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "hidden_size": 64,
    "num_mel_bins": 128,
}
END = "<|im_end|>"


def template(audio: str, content: str = "both") -> str:
    """A ChatML template.

    Args:
        audio: what it writes for a clip.
        content: the contents that it knows: ``strings``, ``parts``, or ``both``.
    """
    string = "{{ m['content'] }}"
    parts = (
        "{% for c in m['content'] %}{% if c['type'] == 'audio' %}" + audio + "{% elif c['type'] == 'text' %}"
        "{{ c['text'] }}{% endif %}{% endfor %}"
    )
    both = "{% if m['content'] is string %}" + string + "{% else %}" + parts + "{% endif %}"
    body = {"strings": "{{ '' + m['content'] }}", "parts": parts, "both": both}[content]
    return (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n" + body + "<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )


def tokenizer(*special: str, **names: Any) -> Any:
    """A byte-level tokenizer of 600 tokens, padding on the right as most checkpoints have it."""
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|endoftext|>", "<|im_start|>", END, *special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bare.train_from_iterator(WORDS * 10, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bare, eos_token=END, pad_token="<|endoftext|>", padding_side="right", **names
    )


def _text(kind: str, size: int, pad: int | None = None) -> dict[str, Any]:
    return {"model_type": kind, "vocab_size": size, "pad_token_id": pad, **LAYERS}


def qwen2_audio(path: Path, content: str = "both", audio: str = "<|AUDIO|>", rate: int = 16_000) -> Any:
    """Qwen2-Audio."""
    tok = tokenizer("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>")
    features = WhisperFeatureExtractor(feature_size=128, sampling_rate=rate, hop_length=rate // 100, n_fft=rate // 40)
    processor = transformers.Qwen2AudioProcessor(features, tok, chat_template=template(audio, content))
    config = transformers.Qwen2AudioConfig(
        audio_config=WHISPER,
        text_config=_text("qwen2", len(tok), tok.pad_token_id),
        audio_token_index=tok.convert_tokens_to_ids("<|AUDIO|>"),
    )
    return processor, transformers.Qwen2AudioForConditionalGeneration(config)


def audioflamingo3(path: Path) -> Any:
    """Audio Flamingo 3."""
    tok = tokenizer("<sound>")
    processor = transformers.AudioFlamingo3Processor(
        WhisperFeatureExtractor(feature_size=128), tok, chat_template=template("<sound>")
    )
    config = transformers.AudioFlamingo3Config(
        audio_config=ENCODER,
        text_config=_text("qwen2", len(tok), tok.pad_token_id),
        audio_token_id=tok.convert_tokens_to_ids("<sound>"),
    )
    return processor, transformers.AudioFlamingo3ForConditionalGeneration(config)


def glmasr(path: Path) -> Any:
    """GLM-ASR."""
    tok = tokenizer("<|pad|>")
    processor = transformers.GlmAsrProcessor(
        WhisperFeatureExtractor(feature_size=128), tok, chat_template=template("<|pad|>")
    )
    config = transformers.GlmAsrConfig(
        audio_config={**ENCODER, "num_key_value_heads": 4, "head_dim": 16},
        text_config={**_text("llama", len(tok), tok.pad_token_id), "head_dim": 16},
        audio_token_id=tok.convert_tokens_to_ids("<|pad|>"),
    )
    return processor, transformers.GlmAsrForConditionalGeneration(config)


def voxtral(path: Path) -> Any:
    """Voxtral, whose tokenizer is mistral-common's: a cut of the one that comes with that package."""
    source = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
    tekken = json.loads(source.read_text(encoding="utf-8"))
    known = [
        str(getattr(token["token_str"], "value", token["token_str"])) for token in Tekkenizer.DEPRECATED_SPECIAL_TOKENS
    ]
    names = {**dict(enumerate(known)), 24: "[AUDIO]", 25: "[BEGIN_AUDIO]", 34: "[TRANSCRIBE]"}
    words, special = 600, 1000
    tekken["vocab"] = tekken["vocab"][:words]
    tekken["special_tokens"] = [
        {"rank": rank, "token_str": names.get(rank, f"<SPECIAL_{rank}>"), "is_control": True} for rank in range(special)
    ]
    tekken["config"] |= {
        "default_vocab_size": words + special,
        "default_num_special_tokens": special,
        "num_vocab_tokens": words,
        "version": "v7",
    }
    for name in ("multimodal", "image"):
        tekken.pop(name, None)
    spectrum = {"num_mel_bins": 128, "hop_length": 160, "window_size": 400}
    tekken["audio"] = {
        "sampling_rate": 16_000,
        "frame_rate": 12.5,
        "chunk_length_s": 30.0,
        "audio_encoding_config": spectrum,
    }
    (path / "tekken.json").write_text(json.dumps(tekken), encoding="utf-8")
    tok = transformers.MistralCommonBackend(str(path / "tekken.json"))
    processor = transformers.VoxtralProcessor(WhisperFeatureExtractor(feature_size=128), tok)
    config = transformers.VoxtralConfig(
        audio_config={**ENCODER, "intermediate_size": 256},
        text_config={**_text("llama", words + special), "head_dim": 16},
        audio_token_id=24,
    )
    model = transformers.VoxtralForConditionalGeneration(config)
    model.generation_config = transformers.GenerationConfig(eos_token_id=2, pad_token_id=11, bos_token_id=1)
    return processor, model


def qwen2_5_omni(path: Path) -> Any:
    """Qwen2.5-Omni, whole: with the part that speaks."""
    names = {
        "image_token": "<|IMAGE|>",
        "audio_token": "<|AUDIO|>",
        "video_token": "<|VIDEO|>",
        "vision_bos_token": "<|vision_bos|>",
        "vision_eos_token": "<|vision_eos|>",
        "audio_bos_token": "<|audio_bos|>",
        "audio_eos_token": "<|audio_eos|>",
    }
    tok = tokenizer(*names.values(), extra_special_tokens=names)
    ids = {name: tok.convert_tokens_to_ids(token) for name, token in names.items()}
    processor = transformers.Qwen2_5OmniProcessor(
        transformers.Qwen2VLImageProcessor(),
        transformers.Qwen2VLVideoProcessor(),
        WhisperFeatureExtractor(feature_size=128, chunk_length=300),
        tok,
        chat_template=template("<|audio_bos|><|AUDIO|><|audio_eos|>"),
    )
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}
    vision = {"depth": 1, "hidden_size": 64, "intermediate_size": 64, "num_heads": 4, "out_hidden_size": 64}
    thinker = {
        "audio_config": {"output_dim": 64, "n_window": 100, **WHISPER},
        "vision_config": {**vision, "fullatt_block_indexes": [0]},
        "text_config": {"vocab_size": len(tok), "pad_token_id": tok.pad_token_id, "rope_parameters": rope, **LAYERS},
        "audio_start_token_id": ids["audio_bos_token"],
        "audio_end_token_id": ids["audio_eos_token"],
        "vision_start_token_id": ids["vision_bos_token"],
        "vision_end_token_id": ids["vision_eos_token"],
        **{f"{kind}_token_index": ids[f"{kind}_token"] for kind in ("audio", "image", "video")},
    }
    talker = {"vocab_size": 64, "embedding_size": 64, "head_dim": 16, "rope_parameters": rope, **LAYERS}
    speech = {
        "dit_config": {
            "num_hidden_layers": 1,
            "hidden_size": 64,
            "num_attention_heads": 4,
            "head_dim": 16,
            "enc_dim": 16,
            "enc_channels": [8, 8, 8, 8, 24],
            "enc_attention_channels": 8,
            "enc_se_channels": 8,
            "enc_res2net_scale": 2,
            "emb_dim": 64,
            "num_embeds": 65,
        },
        "bigvgan_config": {
            "upsample_initial_channel": 32,
            "upsample_rates": [2],
            "upsample_kernel_sizes": [4],
            "resblock_kernel_sizes": [3],
            "resblock_dilation_sizes": [[1, 3, 5]],
        },
    }
    config = transformers.Qwen2_5OmniConfig(
        thinker_config=thinker, talker_config=talker, token2wav_config=speech, enable_audio_output=True
    )
    model = transformers.Qwen2_5OmniForConditionalGeneration(config)
    torch.save({"Chelsie": {"bos_token": 1}}, path / "spk_dict.pt")
    return processor, model


def granite_speech(path: Path) -> Any:
    """Granite Speech, whose encoder sees the padding of a batch."""
    tok = tokenizer("<|audio|>")
    processor = transformers.GraniteSpeechProcessor(
        transformers.GraniteSpeechFeatureExtractor(), tok, chat_template=template("<|audio|>", "strings")
    )
    qformer = {
        "model_type": "blip_2_qformer",
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "encoder_hidden_size": 64,
        "cross_attention_frequency": 1,
    }
    config = transformers.GraniteSpeechConfig(
        text_config=_text("granite", len(tok), tok.pad_token_id),
        encoder_config={
            "num_layers": 2,
            "hidden_dim": 64,
            "dim_head": 16,
            "num_heads": 4,
            "output_dim": 16,
            "input_dim": 160,
        },
        projector_config=qformer,
        audio_token_index=tok.convert_tokens_to_ids("<|audio|>"),
        has_lora_adapter=False,
    )
    return processor, transformers.GraniteSpeechForConditionalGeneration(config)


def phi4_multimodal(path: Path) -> Any:
    """Phi-4-multimodal, whose encoder sees the padding of a batch."""
    names = {"image_token": "<|image|>", "audio_token": "<|audio|>"}
    tok = tokenizer(*names.values(), extra_special_tokens=names)
    processor = transformers.Phi4MultimodalProcessor(
        transformers.Phi4MultimodalImageProcessor(),
        transformers.Phi4MultimodalFeatureExtractor(),
        tok,
        chat_template=template("<|audio|>", "strings"),
    )
    small = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4}
    config = transformers.Phi4MultimodalConfig(
        **{"vocab_size": len(tok), "pad_token_id": tok.pad_token_id, "bos_token_id": None, **LAYERS},
        eos_token_id=tok.eos_token_id,
        audio_config={
            **small,
            "num_blocks": 2,
            "ext_pw_out_channel": 64,
            "depthwise_separable_out_channel": 64,
            "nemo_conv_channels": 32,
            "audio_token_id": tok.convert_tokens_to_ids("<|audio|>"),
        },
        vision_config={**small, "num_hidden_layers": 2, "image_token_id": tok.convert_tokens_to_ids("<|image|>")},
    )
    return processor, transformers.Phi4MultimodalForCausalLM(config)


def qwen2_text(path: Path) -> Any:
    """A checkpoint of text alone."""
    tok = tokenizer()
    tok.chat_template = template("")
    return tok, transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**_text("qwen2", len(tok), tok.pad_token_id)))


FAMILIES = ["qwen2_audio", "audioflamingo3", "glmasr", "voxtral"]
"""Those that need nothing but torch."""
NEEDS = {"qwen2_5_omni": "torchvision", "granite_speech": "torchaudio", "phi4_multimodal": "torchvision"}
"""Those whose processor needs more."""


def make(path: Path, family: str = "qwen2_audio", **options: Any) -> Path:
    """Write a checkpoint and return its folder."""
    torch.manual_seed(0)
    path.mkdir(parents=True)
    processor, model = globals()[family](path, **options)
    for weights in model.parameters():
        if weights.dim() > 1:  # wide, or greedy answers are one token for ever
            torch.nn.init.normal_(weights, std=0.15)
    tok = getattr(processor, "tokenizer", processor)
    if not isinstance(tok, transformers.MistralCommonBackend):
        model.generation_config = transformers.GenerationConfig(
            eos_token_id=tok.convert_tokens_to_ids(END), pad_token_id=tok.pad_token_id
        )
    model.save_pretrained(path)
    processor.save_pretrained(path)
    return path
