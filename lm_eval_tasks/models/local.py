"""``hf-audio``: a checkpoint on this machine that hears, through its own processor and chat template.

One way for all families: a chat is put to the checkpoint's processor in the form that its template takes, and what
comes out is checked, so that no model is scored that has not heard the clip. Importing this module registers it, and
needs the extra ``[local]``.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from lm_eval_tasks.errors import ModelUnavailable

try:
    import accelerate  # noqa: F401 - lm-eval's hf needs it
    import torch
    import transformers
    from transformers import AutoModelForMultimodalLM
    from transformers.utils import cached_file
except ImportError as error:
    raise ModelUnavailable(
        f"--model hf-audio needs torch, transformers>=5.16,<6 and accelerate ({error}): "
        "pip install 'lm-eval-tasks[local]'"
    ) from None

from lm_eval.api.instance import Instance
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm

from lm_eval_tasks.harness.compat import JsonChatStr
from lm_eval_tasks.models.answering import chats
from lm_eval_tasks.models.local_batches import Batches
from lm_eval_tasks.models.local_checks import Checks
from lm_eval_tasks.models.local_generate import Generator
from lm_eval_tasks.models.local_prompt import IDENTITY, Deaf, Prompts

log = logging.getLogger(f"lm_eval.{__name__}")

_MODEL_CLASS = {
    "qwen2_5_omni": "Qwen2_5OmniThinkerForConditionalGeneration",
    "qwen3_omni_moe": "Qwen3OmniMoeThinkerForConditionalGeneration",
}
"""Type of a checkpoint -> the class to load in place of the one that the configuration leads to. The full class speaks:
it ignores max_new_tokens and loads a voice. The thinker has the same weights without it."""

_ADAPTER = {"phi4_multimodal": "speech-lora"}
"""Type of a checkpoint -> the folder in it with a LoRA without which it hears badly, and which from_pretrained does not
load."""

_NOT_IN_IDENTITY = {
    *("batch_size", "max_batch_size", "device", "parallelize", "device_map", "max_memory_per_gpu", "max_cpu_memory"),
    *("offload_folder", "tp_plan", "logits_cache", "max_length", "backend", "softmax_dtype", "truncation"),
}
"""Arguments that may differ between two runs of one model."""


@register_model("hf-audio")
class HFAudio(HFLM):
    """A checkpoint of transformers that takes chats with audio, or chats of text; it only generates.

    Arguments are those of lm-eval's ``hf``: ``pretrained``, ``revision``, ``dtype``, ``device``, ``parallelize``,
    ``peft``, quantised weights, ``batch_size`` (``auto`` begins with ``max_batch_size`` and halves it as memory asks),
    ``think_end_token``, ``enable_thinking``. Goes with ``--apply_chat_template``.

    Raises:
        ModelUnavailable: the checkpoint can't be loaded, or can't hear.
    """

    MULTIMODAL = True

    def __init__(self, pretrained: Any, **options: Any) -> None:
        options.setdefault("device", _best_device())
        self._given = options
        super().__init__(pretrained, **{"backend": "causal", **options})
        self.prompts = Prompts(self.processor, self.tokenizer, self.config, self.chat_template_args)
        self.generator = Generator(self.model, _own_copy(self.tokenizer), self.think_end_token, self.max_gen_toks)
        self._checks = Checks(self.prompts, self.generator)
        self._identity = self._describe_checkpoint(str(getattr(pretrained, "name_or_path", pretrained)))

    # Loading, as lm-eval's hf asks for its steps

    def _get_backend(self, config: Any, backend: str = "causal", trust_remote_code: bool | None = False) -> None:
        self.backend = "causal"  # whatever transformers files it under: an answer follows its prompt
        special = _MODEL_CLASS.get(config.model_type)
        named = special or next(iter(config.architectures or []), "")
        if not special and type(config) in AutoModelForMultimodalLM._model_mapping:
            self.AUTO_MODEL_CLASS = AutoModelForMultimodalLM
        else:  # some are not in the mapping
            self.AUTO_MODEL_CLASS = getattr(transformers, named, transformers.AutoModelForCausalLM)

    def _create_tokenizer(
        self,
        pretrained: Any,
        tokenizer: Any,
        revision: str | None = "main",
        trust_remote_code: bool | None = False,
        subfolder: str | None = "",
        **_: Any,
    ) -> None:
        how = {"revision": revision, "trust_remote_code": trust_remote_code, "subfolder": subfolder or ""}
        name = pretrained if isinstance(pretrained, str) else self.model.name_or_path
        try:
            self.processor = transformers.AutoProcessor.from_pretrained(name, **how)
        except ImportError as error:  # torchvision, torchaudio and the like, which some families' processors need
            raise ModelUnavailable(f"{name}: its processor cannot be loaded: {' '.join(str(error).split())}") from None
        if isinstance(tokenizer, str):
            tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer, **how)
        if tokenizer and hasattr(self.processor, "tokenizer"):
            self.processor.tokenizer = tokenizer
        elif tokenizer:
            self.processor = tokenizer
        self.tokenizer = getattr(self.processor, "tokenizer", self.processor)

    def _create_model(self, pretrained: str, revision: str | None = "main", **options: Any) -> None:
        super()._create_model(pretrained, revision=revision, **options)
        adapter = _ADAPTER.get(self.config.model_type)
        if not adapter:
            return
        where = {"subfolder": adapter, "revision": revision}
        if not cached_file(pretrained, "adapter_config.json", **where, _raise_exceptions_for_missing_entries=False):
            log.warning(
                "%s has no folder %s. Without these weights this family hears badly, unless they are merged.",
                *(pretrained, adapter),
            )
            return
        try:
            weights = cached_file(pretrained, "adapter_model.safetensors", **where)
            self._model.load_adapter(str(Path(weights).parent), adapter)
        except (ImportError, OSError, ValueError) as error:
            said = " ".join(str(error).split())
            raise ModelUnavailable(
                f"{pretrained} hears through its adapter {adapter}; it cannot be loaded (pip install -U peft): {said}"
            ) from None

    # What lm-eval calls

    def apply_chat_template(
        self, chat_history: list[dict[str, Any]], add_generation_prompt: bool = True
    ) -> JsonChatStr:
        """The messages as JSON, into which a task puts its clips by reference; the first one names the checkpoint."""
        first, *rest = chat_history
        return JsonChatStr(json.dumps([{**first, IDENTITY: self._identity}, *rest], ensure_ascii=False))

    def chat_template(self, chat_template: bool | str = False) -> str:
        """The template in use, for the results."""
        return str(self.prompts.template or "") if chat_template else ""

    def get_model_info(self) -> dict[str, Any]:
        """lm-eval's facts for the results, and what was found out about the checkpoint."""
        settings = self.model.generation_config.to_diff_dict()
        return {
            **super().get_model_info(),
            "hf_audio": {**self._checks.found, "checkpoint": self._identity, "generation_config": settings},
        }

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Answer all requests.

        Returns:
            ``Answer``, or ``Unanswered`` where a clip or the model failed.

        Raises:
            ModelUnavailable: the model can't hear, answered nothing, or failed at what a task can't do without.
        """
        with chats(requests):
            try:
                size = self._checks.run(requests, self._size_asked_for())
            except Deaf as error:
                raise ModelUnavailable(f"{self.generator.name}: {error}") from None
            quiet = disable_tqdm or self.rank != 0
            with tqdm(total=len(requests), disable=quiet, desc="Answering", dynamic_ncols=True) as bar:
                batches = Batches(self, requests, size, bar)
                batches.run()
            self._checks.found["batch_size"] = batches.size
            batches.conclude()
        return batches.answers

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        raise ValueError("hf-audio only generates; use --model hf for tasks that compare likelihoods")

    loglikelihood_rolling = loglikelihood

    def _size_asked_for(self) -> int:
        automatic = str(self.batch_size).startswith("auto")
        return max(1, int(self.max_batch_size or 1 if automatic else self.batch_size))

    def _describe_checkpoint(self, name: str) -> str:
        """Name, type and a hash of all that decides what it answers; weights that were replaced change it too."""
        decides = {key: str(value) for key, value in self._given.items() if key not in _NOT_IN_IDENTITY}
        decides |= {"commit": getattr(self.config, "_commit_hash", None), "dtype": str(self.model.dtype)}
        for key, path in {"": name, "peft": self.peft, "delta": self.delta}.items():
            if path and Path(path).is_dir():
                decides[f"files {key}"] = [
                    (str(file), file.stat().st_size, file.stat().st_mtime_ns)
                    for file in sorted(Path(path).resolve().rglob("*"))
                    if file.is_file()
                ]
        digest = hashlib.sha256(json.dumps([name, decides], sort_keys=True).encode()).hexdigest()
        return f"{name} {str(self.model.dtype).removeprefix('torch.')} {digest[:16]}"


def _best_device() -> str:
    return next((name for name in ("cuda", "mps") if getattr(torch, name).is_available()), "cpu")


def _own_copy(tokenizer: Any) -> Any:
    """A tokenizer for the thread that generates: a fast one can't be used by two that set its padding."""
    return copy.deepcopy(tokenizer) if getattr(tokenizer, "is_fast", False) else tokenizer
