"""What some families of checkpoints need that their files do not tell: one line each, with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """A special case.

    Attributes:
        model_class: the class of transformers to load, in place of the one that the configuration leads to.
        adapter: subfolder of the checkpoint with weights without which it does not listen properly.
    """

    model_class: str = ""
    adapter: str = ""


FAMILIES = {
    # The full class speaks: it ignores max_new_tokens and loads a voice. The thinker has the same weights without it.
    "qwen2_5_omni": Family(model_class="Qwen2_5OmniThinkerForConditionalGeneration"),
    "qwen3_omni_moe": Family(model_class="Qwen3OmniMoeThinkerForConditionalGeneration"),
    # Its speech weights are a LoRA beside the model, which from_pretrained does not load.
    "phi4_multimodal": Family(adapter="speech-lora"),
}
