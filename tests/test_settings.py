"""Settings: where they come from, who wins, and what is refused."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import lm_eval
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_tasks.option_names import nearest
from lm_eval_tasks.server.keys import judge_api_key
from lm_eval_tasks.settings import AirBenchSettings, IntimaSettings, read_settings, with_changes

LOCAL = {"judge_base_url": "http://127.0.0.1:9/v1"}


def air(**metadata):
    return read_settings("air_bench_chat", metadata)


def test_defaults_are_the_official_judge_with_swap():
    settings = read_settings("air_bench_chat", None)
    assert settings.judge_model == "gpt-4-0125-preview" and settings.judge_base_url == "https://api.openai.com/v1"
    assert (settings.judge_temperature, settings.judge_max_tokens, settings.do_swap) == (0, 1024, True)
    assert (settings.judge_concurrency, settings.judge_timeout, settings.judge_max_retries) == (32, 120, 6)


def test_the_environment_sets_defaults_and_metadata_wins(monkeypatch):
    monkeypatch.setenv("LM_EVAL_TASKS_JUDGE_MODEL", "from-environment")
    monkeypatch.setenv("LM_EVAL_TASKS_DO_SWAP", "false")
    assert air().judge_model == "from-environment" and air().do_swap is False
    assert air(judge_model="from-metadata").judge_model == "from-metadata"
    monkeypatch.setenv("LM_EVAL_TASKS_JUDGE_MODEL", "")  # as not set, like a null
    assert air(judge_model=None).judge_model == "gpt-4-0125-preview"
    assert air(revision="a model's", air_bench_chat={"revision": None}).revision is None
    monkeypatch.setenv("LM_EVAL_TASKS_JUDGE_CONCURRENCY", "0")
    with pytest.raises(ValueError, match="Set it in LM_EVAL_TASKS_JUDGE_CONCURRENCY"):
        air()


def test_a_change_wins_over_what_was_set_under_a_benchmarks_name_and_leaves_the_rest():
    before = {"judge_model": "a", "intima": {"judge_model": "b", "level_threshold": "low"}}
    threshold = {"intima": {"level_threshold": "low"}}
    assert with_changes(before, {"judge_model": "c"}) == {"judge_model": "c", **threshold}
    named = with_changes(before, {"intima": {"judge_model": "c"}})
    assert named == {"judge_model": "a", "intima": {"judge_model": "c", "level_threshold": "low"}}
    assert with_changes({"do_swap": False}, threshold) == {"do_swap": False, **threshold}


def test_a_dict_under_the_benchmarks_name_wins_for_that_benchmark_alone():
    metadata = {"judge_model": "both", "intima": {"judge_model": "own"}}
    assert read_settings("intima", metadata).judge_model == "own"
    assert read_settings("air_bench_chat", metadata).judge_model == "both"


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        *(("tasks", names, ("a", "b")) for names in ("a,b", " a , b ", ["a", "b"])),
        *(("judge_cache", value, kept) for value, kept in [("false", False), ("True", True), ("a/b", "a/b")]),
        *(("judge_base_url", f"http://h:1/v1{end}", "http://h:1/v1") for end in ("", "/", "/chat/completions")),
    ],
)
def test_a_value_may_be_spelled_in_several_ways(key, value, read):
    assert getattr(air(**{key: value}), key) == read


OUT_OF_RANGE = {
    "judge_base_url": ["127.0.0.1:8000/v1", "ftp://h/v1", "http://h:port/v1", "http://[::1/v1"],
    "judge_concurrency": [0],
    "judge_timeout": [0, "nan", "inf"],
    "judge_max_retries": [-1],
    "judge_temperature": [3, "nan"],
    "judge_max_tokens": [0],
    "judge_model": [""],
    "do_swap": ["perhaps"],
    "audio_part": ["video"],
    "source": ["ftp"],
    "audio_sample_rate": [16],
    "on_bad_audio": ["ignore"],
    "tasks": [5],
}


@pytest.mark.parametrize("key", OUT_OF_RANGE)
def test_a_value_out_of_range_is_refused_with_its_key(key):
    for value in OUT_OF_RANGE[key]:
        with pytest.raises(ValueError, match=f"air_bench_chat: {key}="):
            air(**{key: value})
    with pytest.raises(ValueError, match="file_url"):
        air(audio_part="file_url", audio_sample_rate=16000)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        *(("judge_base_url", f"http://{rest}", "judge_base_url") for rest in ("user:hunter2@h/v1", "h/v1?key=hunter2")),
        ("judge_base_url", "http://h/v1#hunter2", "judge_base_url"),
        ("judge_api_key_env", "sk-hunter2", "judge_api_key_env"),
        ("judge_extra_body", {"provider": [{"access_key": "sk-hunter2"}]}, "judge_extra_body"),
        *((key, "sk-hunter2", "JUDGE_API_KEY") for key in ("judge_api_key", "judge_key", "judge_token")),
    ],
)
def test_a_secret_given_in_the_wrong_place_is_refused_and_not_repeated(key, value, told):
    with pytest.raises(ValueError, match=told) as caught:
        air(**{key: value})
    assert "hunter2" not in str(caught.value)
    if told != key:
        with pytest.raises(ValueError, match=f"{key} cannot be passed"):
            air(intima={key: value})


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"judge_modle": "x"}, "--metadata: 'judge_modle' is not an option; did you mean 'judge_model'"),
        ({"judge-model": "x"}, "did you mean 'judge_model'"),
        ({"judge_url": "x"}, "'judge_url' is not an option; did you mean 'judge_"),
        ({"intma": {"judge_model": "m"}}, "did you mean 'intima'"),
        ({"air_bench_chat": {"judge_modle": "x"}}, "air_bench_chat: 'judge_modle' is not one of its options; did you"),
        ({"intima": {"do_swap": False}}, "intima: 'do_swap' is not one of its options"),
        ({"intima": {3: "x"}}, "intima: 3 is not one of its options"),
    ],
)
def test_what_is_nearly_an_option_is_refused(metadata, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        air(**metadata)


def test_no_argument_of_lm_evals_own_models_looks_like_an_option():
    folder = Path(lm_eval.__file__).parent / "models"
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.glob("*.py")]
    made = [node for tree in trees for node in ast.walk(tree) if getattr(node, "name", "") == "__init__"]
    names = {argument.arg for node in made for argument in [*node.args.args, *node.args.kwonlyargs]}
    assert {"base_url", "pretrained", "max_retries"} < names
    air(**dict.fromkeys(names - {"revision"}), threshold="low")
    # a stored run that is judged again may hold what is no option
    assert air(judge_modle="x", replay="/runs/1").judge_model == "gpt-4-0125-preview"


@given(st.dictionaries(st.text(max_size=12), st.none() | st.booleans() | st.integers() | st.text(max_size=12)))
def test_any_foreign_metadata_is_ignored(metadata):
    taken = {*AirBenchSettings.model_fields, *IntimaSettings.model_fields, "air_bench_chat", "intima"}
    foreign = {key: value for key, value in metadata.items() if not nearest(key, list(taken), 0.6)}
    settings = read_settings("air_bench_chat", foreign)
    assert settings.judge_model == "gpt-4-0125-preview"


def test_the_judges_own_key_comes_before_the_shared_one(monkeypatch):
    with pytest.raises(ValueError, match="JUDGE_API_KEY"):
        judge_api_key(air())  # OpenAI's own address needs one
    assert judge_api_key(air(**LOCAL)) == "none"
    monkeypatch.setenv("OPENAI_API_KEY", "shared")
    assert judge_api_key(air()) == "shared"
    monkeypatch.setenv("JUDGE_API_KEY", "own-from-a-file\n")
    assert judge_api_key(air()) == "own-from-a-file"
    with pytest.raises(ValueError, match="MINE"):
        judge_api_key(air(judge_api_key_env="MINE", **LOCAL))
    monkeypatch.setenv("MINE", "named")
    assert judge_api_key(air(judge_api_key_env="MINE")) == "named"


@pytest.mark.parametrize("key", ["sk-\u00e4", "sk-a\nb"])
def test_a_key_that_no_header_can_carry_is_refused_by_its_variable_and_not_repeated(monkeypatch, key):
    monkeypatch.setenv("JUDGE_API_KEY", key)
    with pytest.raises(ValueError, match="JUDGE_API_KEY") as caught:
        judge_api_key(air())
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("JUDGE_MODL", "LM_EVAL_TASKS_JUDGE_MODL is not an option; did you mean 'LM_EVAL_TASKS_JUDGE_MODEL'?"),
        ("XYZZY", "LM_EVAL_TASKS_XYZZY is not an option (see the README"),
    ],
)
def test_an_unknown_variable_is_refused(name, told, monkeypatch):
    monkeypatch.setenv(f"LM_EVAL_TASKS_{name}", "x")
    with pytest.raises(ValueError, match=re.escape(told)):
        air()
