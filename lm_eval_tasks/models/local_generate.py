"""Tokens in, answers out: what ``generate`` of transformers is asked for, and how its answers ended."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from lm_eval_tasks.harness.compat import handle_stop_sequences, normalize_gen_kwargs
from lm_eval_tasks.runs.answers import Answer


class PromptTooLong(ValueError):
    """A prompt does not fit into the model's context."""


class Generator:
    """A loaded model that answers encoded chats.

    Args:
        model: of transformers.
        tokenizer: for this thread alone.
        think_end_token: text or token after which the answer itself begins, where the model thinks first.
        limit: of new tokens, where a task sets none.

    Attributes:
        name: the model's path.
    """

    def __init__(self, model: Any, tokenizer: Any, think_end_token: str | int | None, limit: int) -> None:
        self.model, self.tokenizer, self.limit = model, tokenizer, limit
        self.name = str(model.name_or_path)
        self._thought_end = _as_token(tokenizer, think_end_token) if think_end_token is not None else None
        self._context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        ends = model.generation_config.eos_token_id
        self._ends = {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None}
        self._has_vocabulary = not isinstance(tokenizer, transformers.MistralCommonBackend)

    def __call__(self, inputs: dict[str, Any], options: dict[str, Any]) -> list[Answer]:
        """One answer for each encoded chat.

        Args:
            inputs: tensors as ``Prompts.encode`` makes them.
            options: a request's ``generation_kwargs``.

        Raises:
            PromptTooLong: there is no room for an answer.
        """
        settings: dict[str, Any] = normalize_gen_kwargs(options, self.limit)
        until = [text for text in handle_stop_sequences(settings.pop("until", None), eos=None) if text]
        limit = settings.pop("max_gen_toks")
        length = inputs["input_ids"].shape[1]
        if self._context and length >= self._context:
            raise PromptTooLong(f"{length} tokens of prompt, and the model's context has {self._context}")
        if not settings.get("do_sample"):
            for name in ("temperature", "top_p", "top_k"):  # which a checkpoint's own settings may hold
                settings[name] = None
        tokens = {text: _as_token(self.tokenizer, text) for text in until}
        ends = self._ends | {token for token in tokens.values() if isinstance(token, int)}
        stops = [text for text, token in tokens.items() if not isinstance(token, int)]
        if stops and self._has_vocabulary:  # else they are cut off afterwards
            settings |= {"stop_strings": stops, "tokenizer": self.tokenizer}
        out = self._generate(inputs, eos_token_id=sorted(ends), max_new_tokens=limit, **settings)
        echoed = out.shape[1] >= length and torch.equal(out[:, :length].cpu(), inputs["input_ids"])
        new = out[:, length if echoed else 0 :].tolist()
        prompts = inputs["attention_mask"].sum(dim=1).tolist()
        return [self._read(row, ends, stops, prompt) for row, prompt in zip(new, prompts, strict=True)]

    def next_token(self, inputs: dict[str, Any]) -> torch.Tensor:
        """Logits of the first new token, float32, shape ``(chats, vocabulary)``."""
        out = self._generate(
            inputs, max_new_tokens=1, do_sample=False, output_logits=True, return_dict_in_generate=True,
            temperature=None, top_p=None, top_k=None,
        )  # fmt: skip
        return out.logits[0].float().cpu()

    def _generate(self, inputs: dict[str, Any], **settings: Any) -> Any:
        def placed(value: Any) -> Any:
            if not torch.is_tensor(value):
                return value
            return value.to(self.model.device, self.model.dtype if value.is_floating_point() else None)

        with torch.inference_mode():
            return self.model.generate(**{name: placed(value) for name, value in inputs.items()}, **settings)

    def _read(self, row: list[int], ends: set[int], stops: list[str], prompt: int) -> Answer:
        """The answer in a row of new tokens, behind whose end there is padding."""
        last = next((place for place, token in enumerate(row) if token in ends), None)
        row = row if last is None else row[: last + 1]
        finish, thought = "length" if last is None else "stop", False
        answer = row
        if isinstance(self._thought_end, int) and self._thought_end in row:
            answer = row[len(row) - row[::-1].index(self._thought_end) :]
            thought = True
        text = self.tokenizer.decode(answer, skip_special_tokens=True)
        if isinstance(self._thought_end, str) and self._thought_end in text:
            text, thought = text.rsplit(self._thought_end, 1)[1], True
        if thought:
            text = text.lstrip()
        elif self._thought_end is not None and finish == "length":
            finish = "thinking"
        stopped = min((text.find(stop) for stop in stops if stop in text), default=None)
        if stopped is not None:
            text, finish = text[:stopped], "stop"
        return Answer(text, finish, self.name, prompt, len(row))


def _as_token(tokenizer: Any, text: str | int) -> str | int:
    """The one token that a text is, if it is one that was added to the vocabulary; else the text."""
    if isinstance(text, int):
        return text
    added = getattr(tokenizer, "added_tokens_encoder", None) or {}
    return added.get(text, text)
