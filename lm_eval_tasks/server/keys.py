"""API keys: which one the judge gets; and all that this process knows, kept out of whatever is written or shown."""

from __future__ import annotations

import base64
import html
import json
import logging
import os
import re
import traceback
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from lm_eval_tasks.settings import NO_KEY, OPENAI_BASE_URL, JudgeSettings

_LEAST = 8
"""A shorter key is not looked for: it would be found in ordinary text."""

_VARIABLES = ("JUDGE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")

_NAMES = re.compile(
    r"(?i)(?:.*[-_])?(?:api[-_]?key|apikey|(?:auth|access|api|hf|bearer|session)[-_]?token|secret|password|passwd|"
    r"(?:access|secret|private|account|subscription|virtual|master)[-_]?key|authorization|credentials?|cookie)|"
    r"token|key|auth|code|sig|signature"
)
"""Options and headers whose value is a key; ``think_end_token`` and ``max_tokens`` are none."""

_PLAIN_HEADERS = re.compile(
    r"(?i)accept(-.*)?|content-.*|user-agent|host|referer|origin|connection|x-title|http-referer|.*-version"
)

_WORD = re.compile("[A-Za-z][a-z]{,18}")

_known: set[str] = set()


def judge_api_key(settings: JudgeSettings) -> str:
    """The judge's API key, read from the environment when it is needed.

    Returns:
        The key, without white space around it; ``NO_KEY`` for servers that ask for none.

    Raises:
        ValueError: the variable that ``judge_api_key_env`` names is not set, OpenAI's own address has no key, or the
            key cannot be sent.
    """
    variables = [settings.judge_api_key_env] if settings.judge_api_key_env else ["JUDGE_API_KEY", "OPENAI_API_KEY"]
    for variable in variables:
        key = os.environ.get(variable, "").strip()
        if key and not (key.isascii() and key.isprintable()):
            raise ValueError(f"{variable} holds characters that no HTTP header can carry; set it again.")
        if key:
            return key
    name = settings.judge_api_key_env
    if name and is_name_of_variable(name):
        raise ValueError(f"judge_api_key_env names {name}, but that variable is not set.")
    if name:
        raise ValueError(
            "judge_api_key_env names no variable that is set (its value is not shown: it may be a key). Put the key "
            "into an environment variable, and give that variable's name."
        )
    if urlsplit(settings.judge_base_url).hostname == urlsplit(OPENAI_BASE_URL).hostname:
        raise ValueError(
            f"No API key for the judge at {settings.judge_base_url}: set JUDGE_API_KEY (or OPENAI_API_KEY), or pass "
            "judge_base_url of another server in --metadata."
        )
    return NO_KEY


def is_name_of_variable(text: str) -> bool:
    """Whether a text looks like the name of an environment variable, and not like a key in its place."""
    parts = text.split("_")
    named = re.fullmatch(r"_?[A-Z][A-Z0-9_]*", text) is not None
    return named and len(text) <= 48 and len(max(parts, key=len)) < 16 and sum(map(str.isdigit, text)) <= 4


def names_a_key(name: str) -> bool:
    """Whether an option, a header or a parameter of an address is named as one that holds a key."""
    return _NAMES.fullmatch(name) is not None


def know(*keys: str | None) -> None:
    """Remember keys, so that ``without_keys`` finds them, also as they stand in an address, in JSON, HTML or base64."""
    for key in keys:
        if key and len(key) >= _LEAST:
            _known.update({key, quote(key), quote(key, safe=""), html.escape(key), html.escape(key, quote=False)})
            _known.update({json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1]})
            _known.update(
                encode(key.encode("utf-8", "replace")).decode().rstrip("=")
                for encode in (base64.b64encode, base64.urlsafe_b64encode)
            )


def know_variables(*names: str | None) -> None:
    """Remember the keys that are in the environment.

    Args:
        names: variables besides the usual ones; a name that none has may be a key in its place.
    """
    know(*(os.environ.get(name, "").strip() for name in (*_VARIABLES, *filter(None, names))))
    know(*(name for name in filter(None, names) if name not in os.environ and not is_name_of_variable(name)))


def know_options(options: Any, name: str = "") -> None:
    """Remember the keys among options such as ``--model_args``, however deep: by their names, headers, addresses."""
    if isinstance(options, Mapping):
        headers = re.fullmatch(r"(?i)(?:.*_)?headers?", name)
        for key, value in options.items():
            plain = headers and _PLAIN_HEADERS.fullmatch(str(key))
            know_options(value, "api_key" if headers and not plain else str(key))
    elif isinstance(options, (list, tuple)):
        for value in options:
            know_options(value, name)
    elif isinstance(options, str):
        if re.match(r"(?i)https?://", options):
            _know_address(options)
        elif re.fullmatch(r"(?i)(?:.*_)?headers?", name) or names_a_key(name):
            know(options, re.sub(r"(?i)^.*?\b(bearer|basic|token|apikey)\s+", "", options))


def _know_address(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    know(password, None if len(password) >= _LEAST else user)  # a user name alone is a key
    know(f"{user}:{password}" if user else None)  # which is what a header holds, in base64
    know(*(value for name, value in parse_qsl(parts.query) if not _PLAIN_HEADERS.fullmatch(name)))


def without_keys(text: str, spare_words: bool = False) -> str:
    """The text with ``[key]`` for each known key, in whatever case; never for a reply that is still to be read.

    Args:
        text: to be written or shown.
        spare_words: leave a key that is an ordinary word (``placeholder``), as a model's answer may hold.
    """
    if not _known:
        return text
    folded = text.lower()  # finding is quick, replacing whatever the case is not
    for key in sorted(_known, key=len, reverse=True):
        if key.lower() in folded and not (spare_words and _WORD.fullmatch(key)):
            text = re.sub(re.escape(key), "[key]", text, flags=re.IGNORECASE)
    return text


def know_words(words: Iterable[str]) -> None:
    """Remember the keys on a command line, in the forms that ``--model_args`` and ``--metadata`` have."""
    for word in words:
        try:
            know_options(json.loads(word))
        except (ValueError, RecursionError):
            know_options(dict(part.split("=", 1) for part in word.split(",") if "=" in part))


def masked(value: Any) -> Any:
    """The same data with ``[key]`` for each known key in its texts."""
    if isinstance(value, str):
        return without_keys(value)
    if isinstance(value, Mapping):
        return {masked(key): masked(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(one) for one in value]
    return value


class _Filter(logging.Filter):
    """Takes known keys out of what a handler is about to write."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not _known:
            return True
        try:
            said = record.getMessage()
        except Exception:  # the handler says what is wrong with it
            return True
        shown = without_keys(said)
        if shown != said:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[0]:
            record.exc_text = without_keys("".join(traceback.format_exception(*record.exc_info)).rstrip())
        return True


_filter = _Filter()


def guard_logs() -> None:
    """Put the filter on every handler that lm-eval and this process have by now; may be called again."""
    for name in (None, "lm_eval"):
        for handler in logging.getLogger(name).handlers:
            handler.addFilter(_filter)  # which is put on once only
