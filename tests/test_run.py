"""``lm-eval-tasks run``: the stock command with the pack at hand, quicker where only the pack's tasks are asked for."""

from __future__ import annotations

import functools
import json

import lm_eval
import lm_eval.tasks
import pytest
from lm_eval._cli import HarnessCLI
from lm_eval.api.model import LM
from servers import DROP, refused

from lm_eval_tasks import INCLUDE_PATH, cli
from lm_eval_tasks.commands import run

pytestmark = pytest.mark.usefixtures("handlers")

MODEL = ("--model", "audio-chat-completions", "--model_args", "model=m,base_url=http://h/v1/chat/completions")
OPTIONS = [
    *(*MODEL, "--apply_chat_template"),
    *("--limit", "2", "--seed", "1,2,3,4", "--use_cache", "answers", "--gen_kwargs", "temperature=0.5"),
    *("--cache_requests", "refresh", "--metadata", '{"judge_model": "j"}', "--system_instruction", "Be brief."),
]


@pytest.fixture
def stock_runs(monkeypatch):
    """The arguments of the runs that were left to the stock command."""
    runs = []
    monkeypatch.setattr(HarnessCLI, "execute", lambda self, args: runs.append(args))
    return runs


@pytest.fixture
def evaluations(monkeypatch):
    """What ``simple_evaluate`` was called with, without the objects that differ by nature."""
    calls = []

    @functools.wraps(lm_eval.simple_evaluate)
    def record(**options):
        calls.append({k: v for k, v in options.items() if k not in ("task_manager", "evaluation_tracker")})

    monkeypatch.setattr(lm_eval, "simple_evaluate", record)
    return calls


def test_the_packs_tasks_run_without_lm_evals_index_and_with_the_same_arguments(evaluations, monkeypatch):
    arguments = ["--tasks", "air_bench_chat_speech,air_bench_chat_music_QA", *OPTIONS]
    assert run.main(arguments) == 0
    own_only = functools.partial(lm_eval.tasks.TaskManager, include_defaults=False)  # only to make this test quick
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", own_only)
    monkeypatch.setattr(run, "_run_without_index", lambda parsed: False)
    assert run.main(arguments) == 0
    ours, stock = evaluations
    assert ours == {key: stock[key] for key in ours}
    defaults = {"bootstrap_iters", "check_integrity"}
    assert {key for key in stock if key not in ours} <= defaults
    assert (ours["random_seed"], ours["fewshot_random_seed"], ours["rewrite_requests_cache"]) == (1, 4, True)


@pytest.mark.parametrize(
    "options",
    [
        ["--tasks", "air_bench_chat,hellaswag"],
        ["--tasks", "air_bench_chat_*"],
        ["--tasks", "air_bench_chat", "--wandb_args", "project=x"],
        ["--tasks", "air_bench_chat", "--show_config"],
    ],
)
def test_whatever_else_is_asked_for_goes_through_the_stock_command(stock_runs, options):
    assert run.main([*options, *MODEL]) == 0
    assert len(stock_runs) == 1 and str(INCLUDE_PATH) in stock_runs[0].include_path


def test_tasks_of_a_folder_of_ones_own_count_as_the_packs_and_its_own_folder_overrides_nothing(
    stock_runs, evaluations, tmp_path, caplog
):
    ours = INCLUDE_PATH / "intima" / ".." / "airbench_chat"
    (tmp_path / "mine.yaml").write_text(f"include: {ours / 'speech_QA.yaml'}\ntask: mine\n", encoding="utf-8")
    for name, folder in (("mine", tmp_path), ("air_bench_chat_speech_QA", ours)):
        assert run.main(["--tasks", name, "--include_path", str(folder), *MODEL]) == 0
        assert not stock_runs and evaluations[-1]["tasks"] == [name]
    assert "overrides" not in caplog.text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--tasks", "air_bench_chat", *MODEL, "--no_such_option"], "unrecognized arguments: --no_such_option"),
        (["--tasks", "air_bench_chat", *MODEL, "--limit", "few"], "--limit"),
        (["--tasks", "air_bench_chat", *MODEL, "--include_path", "nowhere"], "nowhere: there is no such folder"),
        (["--tasks", "air_bench_chat", *MODEL, "--metadata", '{"judge_modle": "x"}'], "did you mean 'judge_model'"),
        (["--tasks", "air_bench_chat", *MODEL], "No judge_model is set"),
        (
            ["--tasks", "air_bench_chat", *MODEL, "--metadata", '{"judge_model": "j", "local_path": "sample"}'],
            "add --apply_chat_template",
        ),
        (["--tasks", "air_bench_chat", "--model", "audio-chat-completions"], "base_url=http://HOST:PORT/v1"),
        (["--tasks", "intima", "--model", "local-chat-completions"], "base_url=http://HOST:PORT/v1"),
        (["--tasks", "air_bench_chat", "--model", "dummy"], "takes text only. air_bench_chat needs a model that"),
        (["--tasks", "air_bench_chat"], "--model audio-chat-completions"),  # lm-eval's default takes text
        (["--tasks", "intima", "--model", "gpt"], "no model for this name"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(capsys, options, told):
    metadata = json.dumps({"local_path": "sample", "judge_base_url": "http://127.0.0.1:9/v1"})
    local = [] if "--metadata" in options else ["--metadata", metadata]
    assert cli.main(["run", *options, *local]) == 2
    out, error = capsys.readouterr()
    own = [line for line in error.splitlines() if line.startswith("lm-eval-tasks: ")]
    assert out == "" and len(own) == 1 and told in own[0] and "Traceback" not in error


def test_a_text_only_model_is_told_what_to_use_by_the_stock_command_too(make_data):
    tasks = lm_eval.tasks.TaskManager(
        include_path=str(INCLUDE_PATH),
        include_defaults=False,
        metadata={"local_path": str(make_data(speech_QA=1)), "judge_model": "j"},
    )
    with pytest.raises(ValueError, match="TextOnly takes text only"):
        lm_eval.simple_evaluate(
            TextOnly(), tasks=["air_bench_chat_speech_QA"], task_manager=tasks, apply_chat_template=True
        )


class TextOnly(LM):
    """A model with a chat template and without ears."""

    tokenizer_name = "none"

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        return str(chat_history)

    def generate_until(self, requests, disable_tqdm=False):
        raise AssertionError("asked")

    loglikelihood = loglikelihood_rolling = generate_until


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (refused(400, "audio is not supported"), "audio is not supported"),
        (refused(404, "no such model"), "to a model of that server"),
        (None, "Start it, or set base_url"),
    ],
    ids=["refuses all", "wrong model", "no server"],
)
def test_a_model_that_is_not_to_be_had_is_one_line_and_status_1(server, make_data, capsys, step, told):
    server.script("judge", "8 6")
    server.script("model", step or DROP)
    address = server.url("model") if step else "http://127.0.0.1:9/v1"
    metadata = {"local_path": str(make_data(speech_QA=2)), "judge_model": "judge-1", "judge_base_url": server.url()}
    arguments = [
        *("run", "--model", "audio-chat-completions", "--apply_chat_template", "--tasks", "air_bench_chat_speech_QA"),
        *("--model_args", f"model=m,base_url={address}/chat/completions,max_retries=1"),
        *("--metadata", json.dumps(metadata)),
    ]
    assert cli.main(arguments) == 1
    out, error = capsys.readouterr()
    own = [line for line in error.splitlines() if line.startswith("lm-eval-tasks: ")]
    assert out == "" and len(own) == 1 and told in own[0]


def test_an_interruption_says_what_is_kept(monkeypatch, capsys):
    def interrupt(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "main", interrupt)
    assert cli.main(["run", "--tasks", "intima"]) == 130
    assert "answers with --use_cache: the same command resumes" in capsys.readouterr().err
