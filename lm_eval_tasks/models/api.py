"""``audio-chat-completions``: lm-eval's local-chat-completions with memory that does not grow with the data.

The stock API models build every request before they send the first, and one request that fails ends the run. This one
builds a request when its turn has come, stores each answer at once, and goes on without an answer that cannot be had.
Importing this module registers it.
"""

from __future__ import annotations

import copy
import json
import ssl
from typing import Any

import aiohttp
from lm_eval.api.instance import Instance
from lm_eval.api.registry import register_model
from lm_eval.models.api_models import LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER, JsonChatStr
from lm_eval.models.openai_completions import LocalChatCompletion

from lm_eval_tasks.harness.chat import AudioChat
from lm_eval_tasks.models.generation import generate
from lm_eval_tasks.runs.answers import Unanswered, mark_unanswered


@register_model("audio-chat-completions")
class AudioChatCompletions(LocalChatCompletion):
    """Same arguments as local-chat-completions, and like it with ``--apply_chat_template``; for text tasks as well.

    At most ``num_concurrent`` requests exist at a time. One that the server refuses (HTTP 400, 413, 422, ...) is not
    sent again; one that fails is tried ``max_retries`` times. What then has no answer becomes ``Unanswered`` where the
    instance carries ``may_stay_unanswered``, and else an error once all others are answered. An instance's
    ``on_answer``, where it has one, gets the instance and its answer the moment that is there (in the thread of the
    event loop).
    """

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Answer all requests.

        Raises:
            ModelUnavailable: the server refuses every request or is not there, or a task needs what has no answer.
        """
        if any(len(request.args) > 2 for request in requests):  # images, in the form that lm-eval has for them
            return super().generate_until(requests, disable_tqdm)
        for request in requests:
            if not isinstance(request.args[0], JsonChatStr):
                raise ValueError(f"{request.task_name}: this model takes chats; add --apply_chat_template.")
        answers = generate(self, requests, disable_tqdm)
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, Unanswered):
                mark_unanswered(request, answer)
        return answers

    def request_body(self, chat: JsonChatStr, gen_kwargs: dict[str, Any]) -> list[bytes]:
        """One request as JSON in pieces; reads and encodes its clips now."""

        def payload(messages: list[dict[str, Any]]) -> dict[str, Any]:
            options = copy.deepcopy(gen_kwargs)  # emptied by _create_payload
            return self._create_payload(
                messages, generate=True, gen_kwargs=options, seed=self._seed, eos=self._eos_string
            )

        if isinstance(chat, AudioChat):
            return chat.body(payload)
        return [json.dumps(payload(json.loads(chat.prompt))).encode()]

    def read_answer(self, reply: Any) -> str:
        """The text of a chat completion, without reasoning where ``think_end_token`` is set.

        Raises:
            ValueError: it is no chat completion.
        """
        try:
            content = reply["choices"][0]["message"].get("content")
        except (KeyError, IndexError, TypeError, AttributeError):
            raise ValueError("malformed reply") from None
        if content is None:
            return LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER
        if not isinstance(content, str):
            raise ValueError("malformed reply")
        return self.parse_generations({"choices": [{"index": 0, "message": {"content": content}}]})[0]

    def session(self) -> aiohttp.ClientSession:
        """A session with this model's concurrency, time limit and certificates."""
        verify: bool | ssl.SSLContext = self.verify_certificate
        if verify and self.ca_cert_path:
            verify = ssl.create_default_context(cafile=self.ca_cert_path)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._concurrent, ssl=verify),
            timeout=aiohttp.ClientTimeout(total=self.timeout),
            headers={"Content-Type": "application/json", **self.header},
        )
