"""A chat with audio that stays small until the moment it is sent.

lm-eval's API models turn a chat into a ``JsonChatStr`` and read its ``prompt`` when they build the request. Here the
tuple's own item holds the clip by reference, which is what caches, logs and hashes see; ``prompt`` is computed.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import uuid
from collections.abc import Callable
from typing import Any

from lm_eval_tasks.audio.clips import AudioRef, BadAudio, note_hash
from lm_eval_tasks.audio.encode import audio_part, encoded_audio, file_part
from lm_eval_tasks.harness.compat import JsonChatStr

REFERENCE = "audio_file"
"""The type of the message part that stands for a clip in the small form."""


NEEDS_AUDIO = (
    "needs a model that takes audio, such as --model audio-chat-completions or hf-audio, with --apply_chat_template."
)


def takes_audio(model: Any) -> bool:
    """Whether a model, or a class of models, says of itself that it takes more than text."""
    return bool(getattr(model, "MULTIMODAL", False))


class AudioChat(JsonChatStr):
    """Messages as JSON with clips by reference; ``prompt`` reads and encodes them.

    A second item of the tuple, where there is one, says which model is asked (``identity.identity_of``, as JSON):
    lm-eval's answer cache hashes the whole tuple, and neither ``prompt`` nor the small form has anything of it.
    """

    __slots__ = ()

    def __new__(cls, small: str, model: str | None = None) -> AudioChat:
        return tuple.__new__(cls, (small,) if model is None else (small, model))

    def __repr__(self) -> str:
        return f"AudioChat{tuple(self)!r}"

    @property
    def small(self) -> str:
        """The messages as JSON, with each clip's path, format, size and time in place of its bytes."""
        return tuple.__getitem__(self, 0)

    @property
    def prompt(self) -> str:
        """The messages as JSON as a server takes them. Reads the audio file now; raises ``BadAudio`` if it can't."""
        messages, encode, _ = self.expanded()
        return b"".join(encode(messages)).decode()

    def hashed(self) -> AudioChat:
        """The same chat with the hash of each clip's content; a clip that can't be read has none."""
        messages = json.loads(self.small)
        for message in messages:
            for part in message["content"] if isinstance(message["content"], list) else ():
                if part.get("type") == REFERENCE:
                    with contextlib.suppress(BadAudio):  # which will be said when it is to be sent
                        note_hash(part[REFERENCE])
        return self._with(messages)

    def _with(self, messages: list[dict[str, Any]]) -> AudioChat:
        return AudioChat(json.dumps(messages, ensure_ascii=False), *tuple(self)[1:])

    def expanded(self) -> tuple[list[dict[str, Any]], Callable[[Any], list[bytes | mmap.mmap]], AudioChat]:
        """The messages with a mark for each clip's base64 text, and what makes bytes of JSON that holds these marks.

        The third item is this chat with the hash of what was read of each clip.

        JSON is made around the marks and then cut there: passing megabytes of base64 through a JSON encoder would cost
        three times as much as the encoding itself. Reads the clips now.

        Raises:
            BadAudio: a clip can't be read any more.
        """
        clips: list[tuple[bytes, mmap.mmap]] = []

        def expand(part: dict[str, Any]) -> dict[str, Any]:
            if part.get("type") != REFERENCE:
                return part
            ref = part[REFERENCE]
            if ref["part"] == "file_url":
                return file_part(ref)
            data, form = encoded_audio(ref)
            mark = uuid.uuid4().hex
            clips.append((mark.encode(), data))
            return audio_part(ref, mark, form)

        def encode(value: Any) -> list[bytes | mmap.mmap]:
            pieces, rest = [], json.dumps(value).encode()
            for mark, data in clips:
                head, _, rest = rest.partition(mark)
                pieces += [head, data]
            return [*pieces, rest]

        small = json.loads(self.small)
        messages = [
            {**message, "content": [expand(part) for part in message["content"]]}
            if isinstance(message["content"], list)
            else message
            for message in small
        ]
        return messages, encode, self._with(small)

    def encode(self, encoding: str = "utf-8") -> bytes:
        """The small form in bytes; lm-eval hashes it into the sample's ``prompt_hash``."""
        return self.small.encode(encoding)


def with_audio(chat: JsonChatStr, clips: list[AudioRef], part: str, resample: int | None) -> AudioChat:
    """Put clips before the text of the last user message.

    Args:
        chat: what the model's chat template returned.
        clips: the clips of one doc.
        part: how they are sent (option ``audio_part``).
        resample: Hz, or None for the file's own bytes (option ``audio_sample_rate``).
    """
    messages = json.loads(chat.prompt)
    last = next(message for message in reversed(messages) if message["role"] == "user")
    text = last["content"]
    parts = text if isinstance(text, list) else [{"type": "text", "text": text}]
    last["content"] = [
        {"type": REFERENCE, REFERENCE: dict(clip, part=part, resample=resample)} for clip in clips
    ] + parts
    return AudioChat(json.dumps(messages, ensure_ascii=False))
