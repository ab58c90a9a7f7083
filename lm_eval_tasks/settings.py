"""What a user can set, read from lm-eval's metadata and from the environment.

lm-eval hands a task one dict that holds the YAML's own ``metadata``, then ``--model_args``, then ``--metadata`` (later
wins). Keys that are not ours are ignored there, because most of them belong to the model; a near miss of one of ours is
named in a warning. A dict under the benchmark's own name (``{"intima": {"judge_model": "..."}}``) wins over the rest,
so that one command can run both benchmarks with different settings.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

log = logging.getLogger(f"lm_eval.{__name__}")  # below "lm_eval", whose handler prints it

ENV_PREFIX = "LM_EVAL_TASKS_"
"""``LM_EVAL_TASKS_JUDGE_MODEL=...`` sets the default of ``judge_model``, and so on for every key."""

OPENAI_BASE_URL = "https://api.openai.com/v1"
OFFICIAL_AIR_BENCH_JUDGE = "gpt-4-0125-preview"
"""The judge behind the published leaderboard (README of the official AIR-Bench repository)."""

NO_KEY = "none"
"""What is sent as a key to a server that asks for none."""


class JudgeSettings(BaseModel):
    """Who judges, how it is called and what it is asked: common to every judged benchmark."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    judge_model: str = Field(OFFICIAL_AIR_BENCH_JUDGE, min_length=1)
    judge_base_url: str = OPENAI_BASE_URL
    judge_api_key_env: str | None = None
    judge_concurrency: int = Field(32, ge=1, le=4096)
    judge_timeout: float = Field(120.0, gt=0, allow_inf_nan=False)
    judge_max_retries: int = Field(6, ge=0, le=100)
    judge_temperature: float = Field(0.0, ge=0, le=2)
    judge_max_tokens: int = Field(1024, ge=1)
    judge_prompt: str | None = None
    judge_cache: str | bool = True
    judge_early: bool = True

    @field_validator("judge_base_url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("must be an http or https address such as http://127.0.0.1:8000/v1")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError(
                "must not hold a user name, password or query (it is written to the results); use a key variable"
            )
        parts.port  # noqa: B018 - raises where it is no number
        return url.rstrip("/").removesuffix("/chat/completions")

    @field_validator("judge_api_key_env")
    @classmethod
    def _name_of_a_variable(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError("must be the name of an environment variable, not the key itself")
        return name

    @field_validator("judge_cache", mode="before")
    @classmethod
    def _switch_or_path(cls, value: Any) -> Any:
        return value.lower() == "true" if isinstance(value, str) and value.lower() in ("true", "false") else value


class AirBenchSettings(JudgeSettings):
    """Everything that AIR-Bench-Chat takes."""

    local_path: str | None = None
    source: Literal["auto", "modelscope", "huggingface"] = "auto"
    revision: str | None = None
    tasks: tuple[str, ...] | None = None
    do_swap: bool = True
    audio_part: Literal["input_audio", "input_audio_data_uri", "audio_url", "file_url"] = "input_audio"
    audio_sample_rate: int | None = Field(None, ge=1000, le=768_000)
    max_audio_seconds: float = Field(600.0, gt=0, le=86_400, allow_inf_nan=False)
    on_bad_audio: Literal["leave_out", "error"] = "leave_out"
    on_bad_record: Literal["leave_out", "error"] = "leave_out"

    @field_validator("tasks", mode="before")
    @classmethod
    def _list_of_names(cls, value: Any) -> Any:
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value

    @field_validator("audio_sample_rate")
    @classmethod
    def _not_with_file_url(cls, rate: int | None, info: Any) -> int | None:
        if rate is not None and info.data.get("audio_part") == "file_url":
            raise ValueError("cannot be combined with audio_part=file_url, where the server reads the file as it is")
        return rate


class IntimaSettings(JudgeSettings):
    """Everything that INTIMA takes."""

    local_path: str | None = None
    revision: str | None = None
    include_extra_codes: bool = False
    on_bad_record: Literal["leave_out", "error"] = "leave_out"
    level_threshold: Literal["low", "medium", "high"] = "medium"


_SETTINGS: dict[str, type[JudgeSettings]] = {"air_bench_chat": AirBenchSettings, "intima": IntimaSettings}
_KEYS = sorted({key for settings in _SETTINGS.values() for key in settings.model_fields})
_SECRETS = ("judge_api_key", "judge_key", "judge_token")


def read_settings(benchmark: str, metadata: dict[str, Any] | None) -> Any:
    """The settings of one benchmark.

    Args:
        benchmark: ``air_bench_chat`` or ``intima``.
        metadata: the dict that lm-eval passes to a task or group.

    Returns:
        An ``AirBenchSettings`` or ``IntimaSettings``, frozen.

    Raises:
        ValueError: a key is out of range or a secret was passed; the message names key, cause and remedy.
    """
    model = _SETTINGS[benchmark]
    given = dict(metadata or {})
    own = given.get(benchmark)
    _refuse_secrets(given)
    _warn_of_unknown_keys(tuple(sorted(key for key in given if isinstance(key, str))))
    _warn_of_unknown_variables(tuple(sorted(name for name in os.environ if name.startswith(ENV_PREFIX))))
    if isinstance(own, dict):
        _refuse_unknown_keys(benchmark, own)
        given |= own
    preset = {key: os.environ[ENV_PREFIX + key.upper()] for key in model.model_fields if _in_environment(key)}
    found = preset | {key: given[key] for key in model.model_fields if given.get(key) is not None}
    try:
        return model(**found)
    except ValidationError as error:
        details = error.errors()
        problems = "; ".join(_problem(detail) for detail in details)
        places = {
            ENV_PREFIX + key.upper() if key in preset and given.get(key) is None else "--metadata"
            for key in (str(detail["loc"][0]) if detail["loc"] else "" for detail in details)
        }
        where = " and ".join(sorted(places))
        raise ValueError(f"{benchmark}: {problems}. Set it in {where} (see the README's table).") from None


def with_changes(metadata: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Metadata in which each change wins, also over what was set under a benchmark's own name."""
    merged = {**metadata, **changes}
    for benchmark in _SETTINGS:
        own, changed = (found.get(benchmark) for found in (metadata, changes))
        if isinstance(own, dict):
            kept = {key: value for key, value in own.items() if key not in changes}
            merged[benchmark] = kept | (changed if isinstance(changed, dict) else {})
    return merged


def _in_environment(key: str) -> bool:
    return bool(os.environ.get(ENV_PREFIX + key.upper()))


def _problem(detail: Any) -> str:
    key = str(detail["loc"][0]) if detail["loc"] else "settings"
    shown = json.dumps(detail["input"], default=str)
    if key == "judge_api_key_env" or (key == "judge_base_url" and re.search("[@?#]", shown)):
        shown = "..."  # it may hold a key or a password
    return f"{key}={shown}: {detail['msg'].removeprefix('Value error, ')}"


def _refuse_secrets(given: dict[str, Any]) -> None:
    named = [own for own in map(given.get, _SETTINGS) if isinstance(own, dict)]  # of benchmarks that don't run, too
    for key in _SECRETS:
        if any(key in found for found in (given, *named)):
            raise ValueError(
                f"{key} cannot be passed as metadata, because lm-eval writes that to the results file. Put the key "
                "into the environment variable JUDGE_API_KEY (or into one that judge_api_key_env names)."
            )


@lru_cache(maxsize=64)  # once for each set of keys, not once for each task
def _warn_of_unknown_keys(keys: tuple[str, ...]) -> None:
    """Name what looks like ours and is not. Other keys are the model's, since --model_args land in the same dict."""
    for key in keys:
        near = _nearest(key, [*_KEYS, *_SETTINGS], 0.85)
        if key not in _KEYS and key not in _SETTINGS and (near or key.startswith("judge_")):
            log.warning("--metadata: %r IS NOT AN OPTION AND IS IGNORED%s", key, _did_you_mean(key, near))


@lru_cache(maxsize=64)
def _warn_of_unknown_variables(names: tuple[str, ...]) -> None:
    for name in names:
        key = name.removeprefix(ENV_PREFIX).lower()
        if key not in _KEYS:
            near = _nearest(key, _KEYS, 0.6)
            meant = f"; did you mean {ENV_PREFIX}{near.upper()}?" if near else ""
            log.warning("The environment variable %s is no option's and is ignored%s", name, meant)


def _refuse_unknown_keys(benchmark: str, own: dict[str, Any]) -> None:
    """Nothing but options can be meant under a benchmark's own name."""
    for key in own:
        if key not in _SETTINGS[benchmark].model_fields:
            near = _nearest(str(key), list(_SETTINGS[benchmark].model_fields), 0.6)
            raise ValueError(f"{benchmark}: {key!r} is not one of its options{_did_you_mean(key, near)}")


def _nearest(key: str, names: list[str], cutoff: float) -> str | None:
    return next(iter(difflib.get_close_matches(key, names, n=1, cutoff=cutoff)), None)


def _did_you_mean(key: str, near: str | None) -> str:
    near = near or _nearest(key, _KEYS, 0.6)
    return f"; did you mean {near!r}?" if near else " (see the README's table)."


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
    if settings.judge_api_key_env:
        raise ValueError(f"judge_api_key_env names {settings.judge_api_key_env}, but that variable is not set.")
    if urlsplit(settings.judge_base_url).hostname == urlsplit(OPENAI_BASE_URL).hostname:
        raise ValueError(
            f"No API key for the judge at {settings.judge_base_url}: set JUDGE_API_KEY (or OPENAI_API_KEY), or pass "
            "judge_base_url of another server in --metadata."
        )
    return NO_KEY
