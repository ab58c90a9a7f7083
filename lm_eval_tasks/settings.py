"""What a user can set, read from lm-eval's metadata and from the environment.

lm-eval hands a task one dict that holds the YAML's own ``metadata``, then ``--model_args``, then ``--metadata`` (later
wins). Keys that are not ours are ignored there, because most of them belong to the model; what is nearly one of ours,
or begins like the judge's, is an error. A dict under the benchmark's own name (``{"intima": {"judge_model": "..."}}``)
wins over the rest, so that one command can run several benchmarks with different settings.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lm_eval_tasks.option_names import ENV_PREFIX, refuse_secrets, refuse_unknown_keys, refuse_unknown_variables

log = logging.getLogger(f"lm_eval.{__name__}")  # below "lm_eval", whose handler prints it

OPENAI_BASE_URL = "https://api.openai.com/v1"
OFFICIAL_AIR_BENCH_JUDGE = "gpt-4-0125-preview"
"""The judge behind the published leaderboard (README of the official AIR-Bench repository)."""

OFFICIAL_JUDGE_GONE = "2026-03-26"
"""The day on which OpenAI shut that judge down."""

NO_KEY = "none"
"""What is sent as a key to a server that asks for none."""


Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Of a million tokens, in any currency."""


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
    judge_patience: float = Field(900.0, gt=0, allow_inf_nan=False)
    judge_check: Literal["error", "warn"] = "error"
    judge_extra_body: dict[str, Any] | None = None
    judge_batch: bool = False
    judge_batch_rest: Literal["batch", "direct"] = "batch"
    judge_batch_poll: float = Field(30.0, gt=0, le=3600, allow_inf_nan=False)
    judge_price: tuple[Price, Price] | None = None
    judge_repeats: int = Field(1, ge=1, le=100)
    judge_max_calls: int | None = Field(None, ge=1)
    judge_max_tokens_total: int | None = Field(None, ge=1)

    @field_validator("judge_price", mode="before")
    @classmethod
    def _two_numbers(cls, price: Any) -> Any:
        return re.split(r"[\s,/]+", price.strip("[]() ")) if isinstance(price, str) else price

    @field_validator("judge_batch")
    @classmethod
    def _kept_somewhere(cls, batch: bool, info: Any) -> bool:
        if batch and info.data.get("judge_cache") is False:
            raise ValueError("needs the verdict cache, where its verdicts go: leave out judge_cache=false")
        return batch

    empty_answers: Literal["leave_out", "judge"] = "leave_out"

    @field_validator("judge_base_url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("must be an http or https address such as http://127.0.0.1:8000/v1")
        if (
            "@" in parts.netloc
            or parts.fragment
            or (parts.query and not re.fullmatch(r"api-version=[\w.-]+", parts.query))
        ):
            raise ValueError(
                "must not hold a user name, password or query other than Azure's api-version (it is written to the "
                "results); use a key variable"
            )
        parts.port  # noqa: B018 - raises where it is no number
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))

    @field_validator("judge_extra_body", mode="before")
    @classmethod
    def _object_of_fields(cls, value: Any) -> Any:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                raise ValueError('must be a JSON object such as {"enable_thinking": false}') from None
        for name in value if isinstance(value, dict) else ():
            if name in ("messages", "model", "stream", "n"):
                raise ValueError(f"must not set {name!r}, which the pack sets itself")
        for name in _names_in(value):
            if re.search(r"(?i)(api|access|private)[-_]?key|authorization|password|secret|credential", name):
                raise ValueError(f"must not hold {name!r}: it is written to the results; use a key variable")
        return value

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


class TrackSettings(BaseModel):
    """What every track of AIR-Bench takes: where the data is, which tasks, and how a clip is sent."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    local_path: str | None = None
    source: Literal["auto", "modelscope", "huggingface"] = "auto"
    revision: str | None = None
    tasks: tuple[str, ...] | None = None
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


class AirBenchSettings(TrackSettings, JudgeSettings):
    """Everything that AIR-Bench-Chat takes."""

    do_swap: bool = True


class AirBenchFoundationSettings(TrackSettings):
    """Everything that AIR-Bench Foundation takes; it has no judge."""

    prompt_form: Literal["official", "own"] = "official"


class IntimaSettings(JudgeSettings):
    """Everything that INTIMA takes."""

    local_path: str | None = None
    revision: str | None = None
    include_extra_codes: bool = False
    on_bad_record: Literal["leave_out", "error"] = "leave_out"
    level_threshold: Literal["low", "medium", "high"] = "medium"


_SETTINGS: dict[str, type[BaseModel]] = {
    "air_bench_chat": AirBenchSettings,
    "air_bench_foundation": AirBenchFoundationSettings,
    "intima": IntimaSettings,
}
_OPTIONS = {benchmark: tuple(settings.model_fields) for benchmark, settings in _SETTINGS.items()}
BENCHMARKS = tuple(_SETTINGS)
OPTIONS = frozenset().union(*_OPTIONS.values())


def read_settings(benchmark: str, metadata: dict[str, Any] | None) -> Any:
    """The settings of one benchmark.

    Args:
        benchmark: one of ``BENCHMARKS``.
        metadata: the dict that lm-eval passes to a task or group.

    Returns:
        An ``AirBenchSettings``, ``AirBenchFoundationSettings`` or ``IntimaSettings``, frozen.

    Raises:
        ValueError: a key is out of range or nearly one of ours, or a secret was passed; the message names key, cause
            and remedy.
    """
    model = _SETTINGS[benchmark]
    given = dict(metadata or {})
    own = given.get(benchmark)
    refuse_secrets(given, _OPTIONS)
    if not given.get("replay"):  # a stored run may hold what once was a warning, and nobody can set it right there
        check_names(given)
    given |= own if isinstance(own, dict) else {}
    preset = {key: os.environ[ENV_PREFIX + key.upper()] for key in model.model_fields if _in_environment(key)}
    found = preset | {key: given[key] for key in model.model_fields if given.get(key) is not None}
    if "judge_base_url" in model.model_fields and "judge_base_url" not in found:
        found |= _openai_base_url(found)
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


def _openai_base_url(found: dict[str, Any]) -> dict[str, str]:
    """The judge's address from ``OPENAI_BASE_URL``, to which the key in ``OPENAI_API_KEY`` belongs.

    Raises:
        ValueError: the judge has a key of its own, and it is not said whether that belongs there.
    """
    address = os.environ.get("OPENAI_BASE_URL", "").strip()
    if not address:
        return {}
    if found.get("judge_api_key_env") or os.environ.get("JUDGE_API_KEY"):
        raise ValueError(
            "OPENAI_BASE_URL is set and the judge has a key of its own: say where that key belongs with judge_base_url "
            f"in --metadata ({OPENAI_BASE_URL} for OpenAI)."
        )
    return {"judge_base_url": address}


def check_judge(settings: JudgeSettings) -> None:
    """Refuse a run that names no judge, since the protocol's own is gone; before anything is fetched or paid for.

    Raises:
        ValueError: says what to set.
    """
    if "judge_model" in settings.model_fields_set:
        return
    raise ValueError(
        f"No judge_model is set, and the judge of the published protocol, {OFFICIAL_AIR_BENCH_JUDGE}, was shut down by "
        f"OpenAI on {OFFICIAL_JUDGE_GONE}: no run can repeat the published scores with it. Name another judge in "
        '--metadata, such as {"judge_model": "Qwen/Qwen3-32B", "judge_base_url": "http://127.0.0.1:8001/v1"}; an open '
        "model with pinned weights is the only judge that stays the same. (With --predict_only any name will do.)"
    )


def check_names(given: dict[str, Any]) -> None:
    """Refuse secrets, and names in metadata or in the environment that are nearly ours; a ValueError names the one."""
    refuse_secrets(given, _OPTIONS)
    refuse_unknown_keys(given, _OPTIONS)
    refuse_unknown_variables(_OPTIONS)


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


def _names_in(value: Any) -> Iterator[str]:
    """The names of all fields of JSON data, however deep."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield str(name)
        yield from _names_in(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _names_in(inner)


def _problem(detail: Any) -> str:
    key = str(detail["loc"][0]) if detail["loc"] else "settings"
    shown = json.dumps(detail["input"], default=str)
    if key in ("judge_api_key_env", "judge_extra_body") or (key == "judge_base_url" and re.search("[@?#]", shown)):
        shown = "..."  # it may hold a key or a password
    return f"{key}={shown}: {detail['msg'].removeprefix('Value error, ')}"
