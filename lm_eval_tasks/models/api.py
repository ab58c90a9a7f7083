"""``audio-chat-completions``: lm-eval's local-chat-completions with memory that does not grow with the data.

The stock API models build every request before they send the first, and one request that fails ends the run. This one
builds a request when its turn has come, stores each answer at once, and goes on without an answer that cannot be had.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.registry import register_model
from lm_eval.models.openai_completions import LocalChatCompletion
from tqdm import tqdm

from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.chat import AudioChat
from lm_eval_tasks.harness.compat import JsonChatStr
from lm_eval_tasks.judge.question import is_half_a_thought
from lm_eval_tasks.models.answering import chats
from lm_eval_tasks.models.generation import Generation
from lm_eval_tasks.runs.answers import Answer, Unanswered
from lm_eval_tasks.server.connection import Pieces, Server, shown
from lm_eval_tasks.server.keys import without_keys
from lm_eval_tasks.server.outcome import Kind, Outcome
from lm_eval_tasks.settings import NO_KEY

_END_MARKS = re.compile(r"<\|[^|<>]*\|>|</?s>|<eos>|<end_of_turn>|\[/?INST\]", re.IGNORECASE)
"""Ends of a turn that a chat server's own template applies; some servers refuse every request that names them."""

_REASONING_ALONE = "reply in reasoning_content alone: check the reasoning parser of the model's server"


@register_model("audio-chat-completions")
class AudioChatCompletions(LocalChatCompletion):
    """Same arguments as local-chat-completions, and like it with ``--apply_chat_template``; for text tasks as well.

    At most ``num_concurrent`` requests exist at a time; ``max_retries`` and ``timeout`` are those of lm-eval, and
    ``patience`` the seconds without any success after which the server has gone. What has no answer in the end becomes
    ``Unanswered`` where the instance carries ``may_stay_unanswered``, and else an error once all others are answered.
    An instance's ``on_answer``, where it has one, gets the instance and its answer the moment that is there (in a
    thread of its own).
    """

    notes_hashes = True
    """Whether each request gets the hashes of its clips when it is sent; else they must be there before."""

    def __init__(
        self, base_url: str | None = None, patience: float = 900.0, think_end_token: str | None = None, **options: Any
    ) -> None:
        if not base_url:
            raise ValueError(
                "audio-chat-completions needs the address of a server: add base_url=http://HOST/v1/chat/completions "
                "to --model_args (https://api.openai.com/v1/chat/completions for OpenAI)"
            )
        super().__init__(base_url=base_url, **options)
        self.patience, self.think_end_token = float(patience), think_end_token

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Answer all requests.

        Raises:
            ModelUnavailable: the server refuses every request or is not there, or a task needs what has no answer.
        """
        if any(len(request.args) > 2 for request in requests):  # images, in the form that lm-eval has for them
            return super().generate_until(requests, disable_tqdm)
        with chats(requests):
            with tqdm(total=len(requests), desc="Requesting API", disable=disable_tqdm, dynamic_ncols=True) as bar:
                generation = Generation(self, requests, bar)
                generation.run()
            generation.conclude()
        return generation.answers

    def server(self) -> Server:
        """Where the model is and how it is asked."""
        verify: bool | ssl.SSLContext = self.verify_certificate
        if verify and self.ca_cert_path:
            verify = ssl.create_default_context(cafile=self.ca_cert_path)
        own = dict(self.header)
        bearer = str(own.get("Authorization", "")).removeprefix("Bearer ").strip()
        return Server(
            who=f"The model's server at {shown(self.base_url)}",
            url=self.base_url,
            key=bearer or NO_KEY,
            concurrency=compat.concurrency(self),
            timeout=float(self.timeout),
            max_retries=int(self.max_retries),
            patience=self.patience,
            options={
                "key": "key in OPENAI_API_KEY",
                "address": "base_url in --model_args to the full address, which ends in /chat/completions,",
                "model": "model in --model_args",
                "timeout": "timeout",
            },
            headers={} if bearer and len(own) == 1 else {k: v for k, v in own.items() if v != "Bearer "},
            verify=verify,
        )

    def request_of(
        self, chat: JsonChatStr, gen_kwargs: dict[str, Any]
    ) -> tuple[dict[str, Any], Callable[[dict[str, Any]], Pieces] | None, JsonChatStr]:
        """One request, what makes bytes of it, and the chat with the hash of each clip; reads and encodes them now."""
        messages, encode, chat = (
            chat.expanded() if isinstance(chat, AudioChat) else (json.loads(chat.prompt), None, chat)
        )
        request = compat.chat_payload(self, messages, gen_kwargs)
        stop = [text for text in request.pop("stop", None) or [] if text and not _END_MARKS.fullmatch(text)]
        return (request | {"stop": stop} if stop else request), encode, chat

    def answer_of(self, outcome: Outcome, gen_kwargs: dict[str, Any], without: tuple[str, ...]) -> str:
        """What a call gave: an answer, or why there is none."""
        if not outcome.answered or outcome.status != 200:
            return Unanswered(outcome.reason, outcome.words)
        if outcome.only_thought and outcome.kind is Kind.REPLY:
            return Unanswered(_REASONING_ALONE)
        finish, end = "length" if outcome.kind is Kind.CUT else "stop", self.think_end_token
        if is_half_a_thought(outcome.text) or (end and finish == "length" and str(end) not in outcome.text):
            finish = "thinking"
        text = without_keys(outcome.text, spare_words=True)
        if end:
            text = text.split(str(end))[-1].lstrip()
        until = gen_kwargs.get("until") or []
        for mark in [until] if isinstance(until, str) else until:
            text = text.split(mark, 1)[0] if mark else text
        return Answer(text, finish, outcome.model, outcome.prompt_tokens, outcome.completion_tokens, without)
