"""Whose an answer is: lm-eval's answer cache (``--use_cache``) knows requests, and nothing of who answered them."""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from lm_eval.api.instance import Instance

from lm_eval_tasks.audio.clips import AudioRef, BadAudio, note_hash
from lm_eval_tasks.harness import compat
from lm_eval_tasks.harness.chat import AudioChat
from lm_eval_tasks.server.keys import names_a_key

_OWN = ("pretrained", "revision", "peft", "delta", "subfolder")
"""Attributes by which lm-eval's models on this machine tell what was loaded; ``model`` is an object there."""

_OPTIONS = ("model", "revision", "quantization", "dtype")
"""The same for those that keep what they pass on to an engine in ``model_args``."""

_NOTE = "lm-eval-tasks: whose answers these are"


def identity_of(model: Any) -> dict[str, str]:
    """Class, name and address of a model on a server; class, path and revision of one on this machine.

    A model may tell what it is in an attribute ``identity`` (a text), where that takes more than these. Of an address a
    user name and parameters that name a key are left out; the others, such as a deployment, are a hash. So are a seed
    and the end of thinking part of it, where they are set: with them the same model gives other answers.
    """
    found: dict[str, Any] = {"class": type(model).__name__}
    found |= {name: getattr(model, name, None) for name in ("model", "identity", *_OWN)}
    url = getattr(model, "base_url", None)
    if isinstance(url, str):
        parts = urlsplit(url)
        address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        found["address"] = address.rstrip("/").removesuffix("/chat/completions")
        query = sorted(f"{name}={value}" for name, value in parse_qsl(parts.query) if not _says_nothing(name))
        found["query"] = query and blake2b("&".join(query).encode(), digest_size=8).hexdigest()
    found |= compat.shapes_answers(model)
    options = getattr(model, "model_args", None)
    if isinstance(options, dict):
        found |= {name: str(options[name]) for name in _OPTIONS if options.get(name)}
    return {name: value for name, value in found.items() if isinstance(value, str) and value}


def _says_nothing(parameter: str) -> bool:
    """Whether a parameter of an address does not tell who answers: a key, or the version of an API."""
    return names_a_key(parameter) or parameter.endswith("-version")


def sign(requests: Iterable[Instance], model: Any) -> None:
    """Make the model part of what lm-eval hashes for each request; what is sent stays the same.

    A chat carries it itself, and what goes beside a prompt (audio for a model of this machine) does. A plain prompt has
    no place for it: then the cache is marked as this model's.

    The hash of a clip's content belongs to it as well. A model that notes it when it sends the clip needs it here only
    where some answer is kept already that could be taken for this request's: so a set is read once.

    Raises:
        ValueError: the cache holds answers of another model, or of nobody knows whom.
    """
    name, plain = json.dumps(identity_of(model), sort_keys=True), False
    requests = list(requests)
    if not getattr(model, "notes_hashes", False) or compat.answers_kept(model):
        _note_hashes(requests)
    for request in requests:
        prompt, *rest = request.args
        if isinstance(prompt, compat.JsonChatStr):
            small = prompt.small if isinstance(prompt, AudioChat) else prompt.prompt
            request.arguments = (AudioChat(small, name), *rest)
        elif len(rest) > 1 and isinstance(rest[1], dict):
            request.arguments = (prompt, rest[0], {**rest[1], "model": name}, *rest[2:])
        else:
            plain = True
    if plain:
        _mark(model, name)


def _note_hashes(requests: list[Instance]) -> None:
    def note(request: Instance) -> None:
        prompt, *rest = request.args
        if isinstance(prompt, AudioChat):
            request.arguments = (prompt.hashed(), *rest)
        for ref in rest[1].get("audio", ()) if len(rest) > 1 and isinstance(rest[1], dict) else ():
            if isinstance(ref, AudioRef):
                with contextlib.suppress(BadAudio):  # which will be said when it is decoded
                    note_hash(ref)

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1), "hash-audio") as pool:
        deque(pool.map(note, requests), maxlen=0)


def _mark(model: Any, name: str) -> None:
    answers = compat.answers_kept(model)
    if answers is None:
        return
    noted = answers.get(_NOTE)
    if noted is None and not len(answers):
        answers[_NOTE] = name
    elif noted != name:
        whose = f"of {noted}" if noted else "that do not say which model gave them"
        raise ValueError(
            f"--use_cache: {getattr(answers, 'filename', 'the file')} holds answers {whose}, and prompts without a "
            f"chat template cannot be told apart there. Name another file for {name}."
        )
