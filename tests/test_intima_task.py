"""INTIMA under lm-eval: API and text models, the judge's dialect, faults and settings."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import servers
from intima_runs import PROMPTS, TASKS, TextModel, by_prompt, chat_options, rate, record, run, verdict
from lm_eval.utils import warning_once

from lm_eval_tasks.demo.server import running_server
from lm_eval_tasks.intima import scoring
from lm_eval_tasks.intima.scoring import KEYS, LABELS

# Models


def test_an_api_model_is_judged_by_the_demo_server_from_end_to_end(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with running_server() as url:
        settings = {"local_path": "sample", "judge_model": "demo-judge"}
        results = run(url, "local-chat-completions", options=chat_options(url), **settings)
    assert results["results"]["intima"]["sample_len"] == 31
    assert results["group_subtasks"] == {"intima": TASKS}
    for task in [*TASKS, "intima"]:
        values = {metric: rate(results, task, metric) for metric in [*KEYS, *(f"label_{name}" for name in LABELS)]}
        assert all(0 <= value <= 1 for value in values.values())
        assert sum(values[f"label_{name}"] for name in LABELS) == pytest.approx(1)
        errors = [results["results"][task][f"{metric}_stderr,judge"] for metric in values]
        assert all(isinstance(error, float) for error in errors)
        assert all(results["higher_is_better"][task][metric] is None for metric in values)
    sample = results["samples"]["intima_user_vulnerabilities"][0]
    assert (sample["doc"]["code"], sample["doc"]["category"]) == ("support", "user_vulnerabilities")
    assert record(sample)["judge"] == "demo-judge"
    assert set(record(sample)["levels"]) == set(KEYS)


def test_lm_evals_models_are_still_found_after_the_tasks_were_imported():
    code = "import lm_eval_tasks.intima.task; from lm_eval.api.registry import get_model; print(get_model('dummy'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "DummyLM" in done.stdout, done.stderr


def test_the_model_gets_the_bare_prompt_and_no_stop_string_that_cuts_a_paragraph(server, rows):
    server.script("judge", verdict(companionship_neutral="high"))
    model = TextModel()
    run(server.url(), model, local_path=str(rows))
    assert sorted(context for context, _ in model.got) == sorted(PROMPTS)[:7]
    options = {"until": ["<|endoftext|>"], "do_sample": False, "temperature": 0.0, "max_gen_toks": 512}
    assert all(given == options for _, given in model.got)


# The judge


def test_a_server_is_asked_by_schema_and_in_words_from_its_refusal_on(server, rows):
    refusal = servers.refused(422, "extra inputs are not permitted", param="response_format")
    good = verdict(companionship_neutral="high")
    server.script("judge", good, good, lambda asked: refusal if "response_format" in asked.body else good)
    results = run(server.url(), TextModel(), local_path=str(rows), judge_concurrency=1)
    assert rate(results, "intima", "companionship_neutral") == 1
    forms = [asked.body.get("response_format") for asked in server.asked["judge"]]
    assert [form is not None for form in forms] == [True] * 3 + [False] * 6
    assert forms[0]["type"] == "json_schema" and forms[0]["json_schema"]["strict"] is True
    assert set(forms[0]["json_schema"]["schema"]["required"]) == set(KEYS)
    settings = results["configs"]["intima_assistant_traits"]["metadata"]["judging"]["settings"]
    assert settings["dialect"] == ["response_format"]


def test_the_distribution_of_levels_and_the_errors_by_code_are_in_the_results(server, rows):
    server.script("judge", by_prompt({"p1": verdict(isolation="low"), "p2": "No."}, verdict(isolation="high")))
    results = run(server.url(), TextModel(), tasks="intima_assistant_traits", local_path=str(rows))
    judging = results["configs"]["intima_assistant_traits"]["metadata"]["judging"]
    assert judging["levels"]["isolation"] == {"none": 0, "low": 1, "medium": 0, "high": 1}
    assert set(judging["levels"]) == set(KEYS)
    # values 0 and 1 under codes of their own: the plain standard error
    assert judging["stderr_by_code"]["isolation"] == pytest.approx(0.5)
    assert judging["stderr_by_code"]["off_topic"] == 0
    json.dumps(judging)


def test_levels_and_errors_by_code_are_those_of_all_ranks(server, rows, monkeypatch):
    metrics = *KEYS, *(f"label_{name}" for name in LABELS)
    absent, present = dict.fromkeys(metrics, 0.0), dict.fromkeys(metrics, 1.0)
    other = scoring.level_counts([]), [("name", absent), ("smart", present), ("smart", {})]
    other[0]["isolation"]["high"] = 5
    monkeypatch.setattr("lm_eval_tasks.intima.task.of_all_ranks", lambda value, ranks: [value, other])
    server.script("judge", by_prompt({"p1": verdict(isolation="low"), "p2": "No."}, verdict(isolation="high")))
    results = run(server.url(), TextModel(), tasks="intima_assistant_traits", local_path=str(rows))
    judging = results["configs"]["intima_assistant_traits"]["metadata"]["judging"]
    assert judging["levels"]["isolation"] == {"none": 0, "low": 1, "medium": 0, "high": 6}
    # name 0 and 0, smart 1, mirror 1: mean 1/2, deviations -1, 1/2 and 1/2; the root of 3/2 * 3/2, over 4
    assert judging["stderr_by_code"]["isolation"] == pytest.approx(1.5 / 4)


@pytest.mark.parametrize(
    ("judge", "warned"),
    [
        *((name, False) for name in ("Qwen/Qwen3-32B", "qwen3:32b", "hf.co/unsloth/Qwen3-30B-A3B-GGUF")),
        *((name, True) for name in ("qwen3.5-plus", "Qwen2.5-72B-Instruct", "gpt-4o")),
    ],
)
def test_a_judge_of_another_family_than_the_papers_is_warned_of_once(server, rows, caplog, judge, warned):
    warning_once.cache_clear()
    server.script("judge", verdict(companionship_neutral="high"))
    run(server.url(), TextModel(), local_path=str(rows), judge_model=judge, options={"limit": 1})
    assert caplog.text.count("Qwen-3 family") == warned


def test_each_benchmark_can_have_settings_and_a_wording_of_its_own(server, rows, tmp_path):
    (tmp_path / "wording.txt").write_text("Mine: {prompt} / {answer}", encoding="utf-8")
    server.script("judge", verdict(companionship_reinforcing="low"))
    own = {"local_path": str(rows), "level_threshold": "low", "judge_prompt": str(tmp_path / "wording.txt")}
    results = run(server.url(), TextModel(), local_path="nowhere", intima=own)
    assert rate(results, "intima", "companionship_reinforcing") == 1
    assert "Mine: p7 / Answer to p7." in server.texts()
    used = results["configs"]["intima_emotional_investment"]["metadata"]["judging"]["settings"]["prompt_version"]
    assert used.startswith("file-")
