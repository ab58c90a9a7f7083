"""How a checkpoint takes a chat with clips: tried on its own processor and checked, not looked up by its name."""

from __future__ import annotations

import base64
import inspect
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy
import soundfile
import soxr
import torch
import transformers

from lm_eval_tasks.audio.clips import read_samples
from lm_eval_tasks.errors import ModelUnavailable
from lm_eval_tasks.harness.chat import REFERENCE, AudioChat
from lm_eval_tasks.harness.compat import JsonChatStr

IDENTITY = "model"
"""The key of a chat's first message that names the checkpoint: one model's cached answers are never another's."""

SERVER_WAY = "serve it (for instance with vLLM) and use --model audio-chat-completions; see lm-eval-tasks run --serve"

_TAIL = 0.5  # seconds at the end of a clip that may be lost in the encoder's own steps


class Deaf(ModelUnavailable):
    """The model would answer without having heard the clip."""


@dataclass
class Chat:
    """A chat that is about to be encoded.

    Attributes:
        messages: with ``{"type": "audio"}`` where a clip stands.
        clips: mono float32 samples at the checkpoint's rate, in the order of their places.
    """

    messages: list[dict[str, Any]]
    clips: list[numpy.ndarray] = field(default_factory=list)

    @property
    def texts(self) -> Iterator[str]:
        """Every text in it."""
        parts = (part for message in _in_parts(self) for part in message["content"])
        return (part["text"].strip() for part in parts if part["type"] == "text")


def stored_text(chat: JsonChatStr) -> str:
    """The messages of a request as JSON with clips by reference; reads no file."""
    return chat.small if isinstance(chat, AudioChat) else chat.prompt


def stored_messages(chat: JsonChatStr) -> list[dict[str, Any]]:
    """The messages of a request with clips by reference, and without what names the model."""
    messages = json.loads(stored_text(chat))
    return [{key: value for key, value in message.items() if key != IDENTITY} for message in messages]


def references(chat: JsonChatStr) -> list[dict[str, Any]]:
    """The clips of a request by reference; reads no file."""
    contents = (message["content"] for message in stored_messages(chat))
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return [part[REFERENCE] for part in parts if part["type"] == REFERENCE]


class Prompts:
    """A checkpoint's processor, and how chats are put to it.

    Args:
        processor: what ``AutoProcessor`` loaded; a bare tokenizer for checkpoints of text alone.
        tokenizer: its tokenizer.
        config: the checkpoint's configuration.
        template_options: passed to the chat template.

    Attributes:
        rate: Hz of the samples that it takes; None where it takes none.
        audio_id: the token that stands for a stretch of audio in an encoded prompt; None where there is none.
    """

    def __init__(self, processor: Any, tokenizer: Any, config: Any, template_options: dict[str, Any]) -> None:
        self.processor, self.tokenizer, self.options = processor, tokenizer, template_options
        extractors = (getattr(processor, name, None) for name in ("feature_extractor", "audio_processor"))
        self._extractor = next((one for one in extractors if one is not None), None)
        self.rate = _rate(self._extractor)
        self.audio_id = _audio_id(processor, config)
        self._token = None if self.audio_id is None else tokenizer.convert_ids_to_tokens(self.audio_id)
        # mistral-common has no template that could be rendered, and takes files in place of samples
        self._by_file = isinstance(tokenizer, transformers.MistralCommonBackend)
        self._forms: list[Callable[[Chat], list[dict[str, Any]]]] = [
            lambda chat: chat.messages,
            _in_parts,
            self._in_text,
        ]

    @property
    def template(self) -> Any:
        """The chat template: the processor's, or else the tokenizer's."""
        return getattr(self.processor, "chat_template", None) or getattr(self.tokenizer, "chat_template", None)

    def read(self, chat: JsonChatStr) -> Chat:
        """A request's chat with its clips decoded at the checkpoint's rate; raises ``BadAudio``."""
        messages, clips = stored_messages(chat), []
        for message in messages:
            if isinstance(message["content"], list):
                for place, part in enumerate(message["content"]):
                    if part["type"] == REFERENCE:
                        if self.rate is None:
                            raise Deaf(f"its processor names no audio sampling rate: {SERVER_WAY}")
                        clips.append(_samples(part[REFERENCE], self.rate))
                        message["content"][place] = {"type": "audio", "audio": ""}
        return Chat(messages, clips)

    def encode(self, chats: list[Chat]) -> dict[str, Any]:
        """Tensors for ``generate``, padded on the left.

        Raises:
            Deaf: the prompt of a chat with clips has no place for them.
        """
        clips = [clip for chat in chats for clip in chat.clips]
        inputs = self._from_files(chats) if self._by_file else self._from_texts(chats, clips)
        if clips:
            self._check_heard(inputs, chats)
        return dict(inputs)

    def seconds_heard(self, clip: numpy.ndarray) -> float:
        """How much of a clip reaches the model, found by changing its end until the encoded prompt changes too."""
        noise = _noise(len(clip))
        whole = self._encoded_alone(clip)

        def is_heard_after(start: int) -> bool:
            changed = numpy.concatenate([clip[:start], noise[start:]])
            return not _same(whole, self._encoded_alone(changed))

        heard, unheard = 0, len(clip) - int(_TAIL * self.rate)
        if unheard <= 0 or is_heard_after(unheard):
            return len(clip) / self.rate
        while unheard - heard > self.rate / 20:
            middle = (heard + unheard) // 2
            heard, unheard = (middle, unheard) if is_heard_after(middle) else (heard, middle)
        return unheard / self.rate

    def probes(self) -> list[Chat]:
        """Two chats that differ in one second of audio: silence, and noise."""
        silence = numpy.zeros(self.rate or 16_000, dtype=numpy.float32)
        return [self._alone(clip) for clip in (silence, _noise(len(silence)))]

    def _encoded_alone(self, clip: numpy.ndarray) -> dict[str, Any]:
        return self.encode([self._alone(clip)])

    def _alone(self, clip: numpy.ndarray) -> Chat:
        parts = [{"type": "audio", "audio": ""}, {"type": "text", "text": "What do you hear?"}]
        return Chat([{"role": "user", "content": parts}], [clip])

    def _from_texts(self, chats: list[Chat], clips: list[numpy.ndarray]) -> Any:
        texts = [self._render(chat) for chat in chats]
        how: dict[str, Any] = {"padding": True, "padding_side": "left"}
        bos = self.tokenizer.bos_token
        if bos and texts[0].startswith(bos):
            how["add_special_tokens"] = False  # as apply_chat_template does, so that it is there once
        if self.processor is self.tokenizer:
            return self.tokenizer(texts, return_tensors="pt", **how)
        given: dict[str, Any] = {"text_kwargs": how}  # not flat: padding would reach the audio side as well
        if clips:
            given["audio"] = clips
            if "sampling_rate" in inspect.signature(self._extractor.__call__).parameters:
                given["audio_kwargs"] = {"sampling_rate": self.rate}
        return self.processor(text=texts, return_tensors="pt", **given)

    def _from_files(self, chats: list[Chat]) -> Any:
        def with_files(chat: Chat) -> list[dict[str, Any]]:
            clips = iter(chat.clips)

            def filled(part: dict[str, Any]) -> dict[str, Any]:
                return {"type": "audio", "base64": _wav(next(clips), self.rate)} if part["type"] == "audio" else part

            return [{**message, "content": list(map(filled, message["content"]))} for message in _in_parts(chat)]

        conversations = [with_files(chat) for chat in chats]
        return self.processor.apply_chat_template(conversations, continue_final_message=_continues(chats[0]))

    def _render(self, chat: Chat) -> str:
        """The prompt as text: by the first form that has each text and a place for each clip in it.

        Raises:
            Deaf: no form has.
        """
        said = ""
        for form in self._forms:
            try:
                text = self._apply(form(chat), chat)
            except Exception as error:  # a template fails as it likes at what it does not know
                said = said or f" ({' '.join(str(error).split())[:200]})"
                continue
            places = text.count(self._token) if self._token else 0
            if places == len(chat.clips) and all(words in text for words in chat.texts):
                self._forms.sort(key=lambda other: other is not form)  # the next chat is likely to need the same
                return text
        what = "no place for a clip" if chat.clips else "no place for the text"
        raise Deaf(f"the checkpoint's chat template leaves {what}{said}: {SERVER_WAY}")

    def _apply(self, messages: list[dict[str, Any]], chat: Chat) -> str:
        goes_on = _continues(chat)
        how = {"tokenize": False, "add_generation_prompt": not goes_on, "continue_final_message": goes_on}
        speaker = self.processor if getattr(self.processor, "chat_template", None) else self.tokenizer
        return speaker.apply_chat_template(messages, **how, **self.options)

    def _in_text(self, chat: Chat) -> list[dict[str, Any]]:
        """Each message as a string, with the audio token where a clip stands."""

        def flat(parts: list[dict[str, Any]]) -> str:
            return "".join(part["text"] if part["type"] == "text" else str(self._token) for part in parts)

        return [{**message, "content": flat(message["content"])} for message in _in_parts(chat)]

    def _check_heard(self, inputs: Any, chats: list[Chat]) -> None:
        if self.audio_id is None:
            raise Deaf(f"nothing tells which tokens of its prompt are audio: {SERVER_WAY}")
        features = [value for value in inputs.values() if torch.is_tensor(value) and value.is_floating_point()]
        tokens = (inputs["input_ids"] == self.audio_id).sum(dim=1).tolist()
        if not features or any(count < len(chat.clips) for count, chat in zip(tokens, chats, strict=True)):
            raise Deaf(f"its encoded prompt holds no audio: {SERVER_WAY}")


def _in_parts(chat: Chat) -> list[dict[str, Any]]:
    """Each message as a list of parts: some templates know no strings."""
    return [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        if isinstance(message["content"], str)
        else message
        for message in chat.messages
    ]


def _samples(ref: dict[str, Any], rate: int) -> numpy.ndarray:
    """A clip at ``rate``, by way of the rate that the option ``audio_sample_rate`` asks for."""
    asked = ref.get("resample") or rate
    samples = read_samples(ref["path"], asked, ref.get("hash"))
    return samples if asked == rate else soxr.resample(samples, asked, rate)


def _continues(chat: Chat) -> bool:
    return chat.messages[-1]["role"] == "assistant"


def _rate(extractor: Any) -> int | None:
    """Hz that a feature extractor takes, wherever it says so."""
    spectrum = getattr(extractor, "melspec_kwargs", None) or {}
    said = (
        getattr(extractor, "sampling_rate", None),
        getattr(extractor, "sample_rate", None),
        spectrum.get("sample_rate"),
    )
    return next((int(rate) for rate in said if rate), None)


def _audio_id(processor: Any, config: Any) -> int | None:
    """The audio token, as the processor or some part of the configuration names it."""
    configs = [config, *(part for part in vars(config).values() if isinstance(part, transformers.PretrainedConfig))]
    for place in (processor, *configs):
        for name in ("audio_token_id", "audio_token_index"):
            found = getattr(place, name, None)
            if isinstance(found, int):
                return found
    token = getattr(processor, "audio_token", None)
    found = processor.tokenizer.convert_tokens_to_ids(token) if isinstance(token, str) else None
    return found if isinstance(found, int) else None


def _noise(samples: int) -> numpy.ndarray:
    return numpy.random.default_rng(0).normal(0, 0.1, samples).astype(numpy.float32)


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[key], other[key]) if torch.is_tensor(one[key]) else one[key] == other[key] for key in one
    )


def _wav(clip: numpy.ndarray, rate: int) -> str:
    buffer = io.BytesIO()
    soundfile.write(buffer, clip, rate, format="WAV", subtype="FLOAT")
    return base64.b64encode(buffer.getvalue()).decode()
