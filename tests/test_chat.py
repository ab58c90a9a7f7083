"""A chat with audio: small in caches, logs and hashes, whole when it is sent."""

from __future__ import annotations

import base64
import json
import os

import pytest
from conftest import write_tone
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.api.model import hash_args
from lm_eval.models.api_models import JsonChatStr

from lm_eval_tasks.audio.clips import AudioRef, BadAudio, inspect_audio
from lm_eval_tasks.harness.chat import AudioChat, with_audio

MESSAGES = [{"role": "system", "content": "Listen."}, {"role": "user", "content": "What is h\u00f6rbar? \U0001f3b5"}]


def chat_of(path, messages=MESSAGES, part="input_audio", resample=None):
    ref = AudioRef({"sampling_rate": 16000, **inspect_audio(path)})
    return with_audio(JsonChatStr(json.dumps(messages)), [ref], part, resample)


@pytest.fixture
def clip(tmp_path):
    return write_tone(tmp_path / "clip.wav")


def test_what_is_sent_holds_the_clip_before_the_text_of_the_users_message(clip):
    system, user = json.loads(chat_of(clip).prompt)
    assert system == MESSAGES[0]
    audio, text = user["content"]
    assert text == {"type": "text", "text": MESSAGES[1]["content"]}
    assert audio["type"] == "input_audio" and base64.b64decode(audio["input_audio"]["data"]) == clip.read_bytes()


def test_the_clip_goes_into_the_last_users_message_before_its_parts(clip):
    parts = [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]
    messages = [{"role": role, "content": role} for role in ("user", "assistant")]
    sent = json.loads(chat_of(clip, [*messages, {"role": "user", "content": parts}]).prompt)
    assert sent[:2] == messages and sent[2]["content"][1:] == parts


def test_everything_that_is_stored_is_small_and_needs_no_file(clip):
    chat = chat_of(clip)
    clip.unlink()
    encoded = base64.b64encode(b"RIFF").decode()[:5]
    for text in (repr(chat), chat.encode().decode(), json.dumps(chat), hash_args("generate_until", (chat, {}))):
        assert encoded not in text and len(text) < 1000
    assert str(clip) in chat.small and isinstance(chat, AudioChat) and len(chat) == 1
    with pytest.raises(BadAudio):
        chat.prompt  # noqa: B018


def test_another_clip_file_format_or_way_of_sending_is_another_cache_entry(clip, tmp_path):
    keys = {hash_args("generate_until", (chat_of(clip), {}))}
    keys.add(hash_args("generate_until", (chat_of(write_tone(tmp_path / "other.wav")), {})))
    keys.add(hash_args("generate_until", (chat_of(clip, part="audio_url"), {})))
    keys.add(hash_args("generate_until", (chat_of(clip, resample=16000), {})))
    write_tone(clip, 880)
    os.utime(clip, (1, 1))
    keys.add(hash_args("generate_until", (chat_of(clip), {})))
    assert len(keys) == 5


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_question_arrives_as_it_was(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "clip.wav"
    if not path.exists():
        write_tone(path)
    (message,) = json.loads(chat_of(path, [{"role": "user", "content": text}]).prompt)
    assert message["content"][1]["text"] == text
