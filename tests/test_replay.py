"""Judging a stored run again, or for the first time: through lm_eval, without the model and the audio."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airbench_runs import ALL, answers, listener, metadata, question
from conftest import forget_judges
from servers import DROP, Asked, Server, refused, said

from lm_eval_tasks import INCLUDE_PATH, cli, task
from lm_eval_tasks.demo.server import running_server

DOCS = {"speech_QA": 3, "sound_QA": 2}
TWO = ",".join(f"{ALL}_{name}" for name in DOCS)


def scores(asked: Asked) -> str:
    """A judge whose score of a prediction rises with the number of its question: 3, 4, 5 of 10."""
    first, _ = answers(asked)
    mine = str(3 + question(asked)[1])
    return f"{mine} 8" if first.startswith("answer to") else f"8 {mine}"


class Runs:
    """Runs in this process, each with a judge of its own as in a new one."""

    def __init__(self, server: Server, root: Path, folder: Path) -> None:
        self.server, self.root, self.folder = server, root, folder

    def run(self, out: str, *extra: str, tasks: str = TWO, logged: bool = True, **settings: Any) -> Path:
        command = self.command(out, *extra, tasks=tasks, logged=logged, **settings)
        assert self._start(command) == 0
        return self.folder / out

    def command(self, out: str, *extra: str, tasks: str = TWO, logged: bool = True, **settings: Any) -> list[str]:
        address = f"{self.server.url('model')}/chat/completions"
        command = ["run", "--model", "local-chat-completions", "--apply_chat_template", "--tasks", tasks]
        command += ["--model_args", f"model=listener,base_url={address},num_concurrent=8,max_retries=2"]
        command += ["--metadata", json.dumps(metadata(self.server, self.root, **settings))]
        command += ["--output_path", str(self.folder / out), *(["--log_samples"] if logged else []), *extra]
        return command

    def rejudge(self, where: Path, *extra: str) -> dict[str, Any]:
        """The new results."""
        assert self._start(["rejudge", str(where), *extra, "--output_path", str(self.folder / "again")]) == 0
        return results(self.folder / "again")

    def _start(self, command: list[str]) -> int:
        forget_judges()
        task._unjudged_tasks.clear()
        self.server.forget()
        return cli.main(command)

    def judged(self) -> list[tuple[str, int]]:
        """The questions that the judge was asked since the last start, without the trial."""
        return sorted(question(asked) for asked in self.server.asked["judge"] if question(asked)[0] != "trial")


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Take off the handlers that a command puts on, since their stream is this test's."""
    before = {name: logging.getLogger(name).handlers[:] for name in (None, "lm_eval")}
    yield
    for name, found in before.items():
        logging.getLogger(name).handlers[:] = found


@pytest.fixture
def runs(server: Server, make_data: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    server.script("model", listener)
    server.script("judge", scores)
    monkeypatch.chdir(tmp_path)
    return Runs(server, make_data(**DOCS), tmp_path)


def results(folder: Path) -> dict[str, Any]:
    """The newest results in a folder."""
    return json.loads(max(folder.rglob("results_*.json"), key=lambda file: file.name).read_text(encoding="utf-8"))


def numbers(found: dict[str, Any]) -> dict[str, Any]:
    """All that a table shows, and what the means are over."""
    keys = ("results", "groups", "group_subtasks", "n-samples", "versions", "n-shot")
    return {key: found[key] for key in keys if key in found}


def judging(found: dict[str, Any], name: str) -> dict[str, Any]:
    return found["configs"][f"{ALL}_{name}"]["metadata"]["judging"]


def samples_file(folder: Path, name: str) -> Path:
    (found,) = folder.rglob(f"samples_{ALL}_{name}_*.jsonl")
    return found


def samples(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in samples_file(folder, name).read_text(encoding="utf-8").splitlines()]


def rewrite(file: Path, change: Callable[[list[str]], list[str]]) -> None:
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(change(lines)), encoding="utf-8")


def lose_cache() -> None:
    """Forget all verdicts but those of the run itself."""
    shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]) / "lm-eval-tasks")


# What is asked


@pytest.fixture
def demo() -> Iterator[str]:
    with running_server() as url:
        yield url


def test_the_demo_judged_again_gives_the_same_tables(
    demo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"local_path": "sample", "judge_model": "demo-judge", "judge_base_url": demo}
    command = ["run", "--model", "local-chat-completions", "--apply_chat_template", "--tasks", ALL, "--log_samples"]
    command += ["--model_args", f"model=demo-listener,base_url={demo}/chat/completions", "--output_path", "out"]
    assert cli.main([*command, "--metadata", json.dumps(settings)]) == 0
    first = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert cli.main(["rejudge", "out"]) == 0
    second = capsys.readouterr().out.splitlines()
    assert [line for line in second if line.startswith("|")] == first
    assert second[-1] == f"The results are in {tmp_path / 'out-rejudged'}"
    assert sum("AIR-Bench-Chat" in line for line in first) == 2
    assert numbers(results(tmp_path / "out-rejudged")) == numbers(results(tmp_path / "out"))
    assert results(tmp_path / "out-rejudged")["model_name"] == "demo-listener"


def test_with_the_same_judge_nothing_is_asked_even_without_a_cache_or_a_server(runs: Runs) -> None:
    out = runs.run("out")
    lose_cache()
    runs.server.script("judge", DROP)
    again = runs.rejudge(out)
    assert (runs.server.calls("judge"), runs.server.calls("model")) == (0, 0)
    assert numbers(again) == numbers(results(out))
    assert again["results"][f"{ALL}_speech_QA"]["gpt_score,judge"] == 4
    assert judging(again, "speech_QA")["from_cache"] == 6


def test_a_judged_again_run_can_be_judged_again(runs: Runs) -> None:
    first = runs.rejudge(runs.run("out"))
    shutil.move(runs.folder / "again", runs.folder / "first-again")
    assert numbers(runs.rejudge(runs.folder / "first-again")) == numbers(first)


def test_another_judge_is_asked_everything(runs: Runs) -> None:
    out = runs.run("out")
    runs.server.script("judge", "9 9")
    again = runs.rejudge(out, "--metadata", '{"judge_model": "judge-2"}')
    assert len(runs.judged()) == 10
    assert {asked.body["model"] for asked in runs.server.asked["judge"]} == {"judge-2"}
    assert again["results"][f"{ALL}_speech_QA"]["gpt_score,judge"] == 9
    assert judging(again, "sound_QA")["settings"]["judge_model"] == "judge-2"


def test_all_asks_the_same_judge_everything_again(runs: Runs) -> None:
    out = runs.run("out")
    runs.server.script("judge", "9 9")
    assert runs.rejudge(out, "--all")["results"][f"{ALL}_speech_QA"]["gpt_score,judge"] == 9
    assert len(runs.judged()) == 10


def test_one_pass_instead_of_two_needs_no_call(runs: Runs) -> None:
    out = runs.run("out")
    lose_cache()
    again = runs.rejudge(out, "--metadata", '{"do_swap": false}')
    assert runs.server.calls("judge") == 0
    assert "position_gap,judge" not in again["results"][f"{ALL}_speech_QA"]


def test_an_answer_that_was_changed_by_hand_is_asked_again_and_no_other(runs: Runs) -> None:
    out = runs.run("out")
    lose_cache()
    rewrite(
        samples_file(out, "speech_QA"), lambda lines: [line.replace("answer to speech_QA 1", "no") for line in lines]
    )
    runs.rejudge(out)
    assert runs.judged() == [("speech_QA", 1)] * 2


def test_answers_of_a_predict_only_run_are_judged_for_the_first_time(runs: Runs) -> None:
    predicted = runs.run("predicted", "--predict_only")
    assert runs.server.calls("judge") == 0
    later = runs.rejudge(predicted)
    assert len(runs.judged()) == 10
    assert numbers(later) == numbers(results(runs.run("direct")))


def test_after_a_judge_that_failed_only_what_is_unjudged_is_asked(runs: Runs) -> None:
    def fails(asked: Asked) -> Any:
        first, _ = answers(asked)
        if question(asked) == ("speech_QA", 1) or (question(asked) == ("sound_QA", 0) and first.startswith("answer")):
            return refused(400, "filtered", code="content_filter")
        return scores(asked)

    runs.server.script("judge", fails)
    out = runs.run("out")
    assert judging(results(out), "speech_QA")["unjudged"] == {"content filter": 1}
    lose_cache()
    runs.server.script("judge", scores)
    again = runs.rejudge(out)
    assert runs.judged() == [("sound_QA", 0)] + [("speech_QA", 1)] * 2
    assert numbers(again) == numbers(results(runs.run("direct")))


def test_after_a_judge_that_died_only_what_is_unjudged_is_asked(runs: Runs) -> None:
    runs.server.script("judge", *[scores] * 5, DROP)
    out = runs.run("out", tasks=ALL, judge_max_retries=0, judge_concurrency=1)
    left = sum(sum(judging(results(out), name)["unjudged"].values()) for name in DOCS)
    assert left == 3
    lose_cache()
    runs.server.script("judge", scores)
    again = runs.rejudge(out)
    assert len(runs.judged()) == 6
    assert numbers(again) == numbers(results(runs.run("direct", tasks=ALL)))


# What belongs to a run and is kept


def test_a_limit_is_still_named(runs: Runs) -> None:
    again = runs.rejudge(runs.run("out", "--limit", "2"))
    assert again["config"]["limit"] == 2
    assert again["n-samples"][f"{ALL}_speech_QA"] == {"original": 2, "effective": 2}


def test_chosen_docs_stay_with_their_answers(runs: Runs) -> None:
    chosen = json.dumps({f"{ALL}_speech_QA": [2], f"{ALL}_sound_QA": [1]})
    again = runs.rejudge(runs.run("out", "--samples", chosen), "--all")
    assert again["results"][f"{ALL}_speech_QA"]["gpt_score,judge"] == 5
    assert again["results"][f"{ALL}_sound_QA"]["gpt_score,judge"] == 4


@pytest.mark.parametrize("extra", [(), ("--predict_only",)], ids=["judged", "predicted"])
def test_what_was_left_out_is_still_counted(runs: Runs, extra: tuple[str, ...]) -> None:
    (runs.root / "Chat" / "speech_QA_iemocap" / "clip 1.wav").unlink()
    again = runs.rejudge(runs.run("out", *extra))
    assert judging(again, "speech_QA")["left_out"] == {"missing": ["speech_QA_iemocap/clip 1.wav"]}
    assert judging(again, "sound_QA")["left_out"] == {}


def test_neither_the_audio_nor_the_answers_cache_is_touched(runs: Runs) -> None:
    out = runs.run("out", "--use_cache", str(runs.folder / "answers"))
    (cache,) = runs.folder.glob("answers*.db")
    before = cache.read_bytes(), cache.stat().st_mtime_ns
    shutil.rmtree(runs.root)
    assert numbers(runs.rejudge(out, "--all")) == numbers(results(out))
    assert (cache.read_bytes(), cache.stat().st_mtime_ns) == before


def test_of_two_runs_in_a_folder_the_newest_counts_unless_one_is_named(runs: Runs) -> None:
    runs.run("out", "--limit", "1")
    older = next((runs.folder / "out").rglob("results_*.json"))
    runs.run("out")
    newest = runs.rejudge(runs.folder / "out")
    assert newest["n-samples"][f"{ALL}_speech_QA"]["original"] == 3
    assert runs.rejudge(older)["n-samples"][f"{ALL}_speech_QA"]["original"] == 1


def test_without_an_output_path_the_results_go_beside_the_run(runs: Runs) -> None:
    out = runs.run("out", "--limit", "1")
    assert runs._start(["rejudge", "out/"]) == 0
    assert results(runs.folder / "out-rejudged")["results"] == results(out)["results"]


# Tasks of the user's own


@pytest.fixture
def own_tasks(tmp_path: Path) -> Path:
    """Two tasks that change ours, one of them judged in one pass, in a group with a plain task of another kind."""
    folder = tmp_path / "own-tasks"
    folder.mkdir()
    ours = INCLUDE_PATH / "airbench_chat" / "sound_QA.yaml"
    (folder / "a.yaml").write_text(
        f"include: {ours}\ntask: sound_in_short\ndoc_to_text: '{{{{question}}}} Be short.'\n"
    )
    once = "metadata:\n  version: 2.0\n  do_swap: false\n"
    (folder / "b.yaml").write_text(f"include: {ours}\ntask: sound_once\n{once}")
    rows = folder / "rows.jsonl"
    rows.write_text('{"q": "2+2?", "a": "4"}\n')
    plain = f"task: sums\ndataset_path: json\ndataset_kwargs:\n  data_files: {{test: {rows}}}\ntest_split: test\n"
    plain += "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n"
    plain += "generation_kwargs:\n  until: ['\\n']\nfilter_list:\n"
    for name in ("one", "two"):
        plain += f"  - name: {name}\n    filter:\n      - function: take_first\n"
    plain += "metric_list:\n  - metric: exact_match\n    aggregation: mean\n    higher_is_better: true\n"
    (folder / "c.yaml").write_text(plain)
    (folder / "d.yaml").write_text("group: mine\ntask: [sound_in_short, sound_once, sums]\n")
    return folder


def test_tasks_of_the_users_own_files_are_judged_again_and_those_of_others_left_alone(
    runs: Runs, own_tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(runs.folder / "datasets"))
    out = runs.run("out", "--include_path", str(own_tasks), tasks=f"mine,{ALL}_speech_QA")
    assert "Be short" in "".join(runs.server.texts("model"))
    lose_cache()
    again = runs.rejudge(out, "--include_path", str(own_tasks))
    assert runs.server.calls("judge") == 0
    before = {name: row for name, row in results(out)["results"].items() if name not in ("mine", "sums")}
    assert {name: row | {"alias": ""} for name, row in again["results"].items()} == {
        name: row | {"alias": ""} for name, row in before.items()
    }
    assert sorted(before) == [f"{ALL}_speech_QA", "sound_in_short", "sound_once"]
    assert "position_gap,judge" in before["sound_in_short"] and "position_gap,judge" not in before["sound_once"]


def test_a_task_of_the_users_own_takes_the_place_of_ours_of_the_same_name(runs: Runs, own_tasks: Path) -> None:
    (own_tasks / "a.yaml").write_text(
        (own_tasks / "a.yaml").read_text().replace("sound_in_short", f"{ALL}_sound_QA"), encoding="utf-8"
    )
    (own_tasks / "d.yaml").unlink()
    runs.run("out", "--include_path", str(own_tasks), tasks=f"{ALL}_sound_QA")
    assert all("Be short" in text for text in runs.server.texts("model"))


def test_tasks_whose_files_are_not_at_hand_are_named_in_one_line(
    runs: Runs, own_tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = runs.run("out", "--include_path", str(own_tasks), tasks="sound_once")
    capsys.readouterr()
    assert runs._start(["rejudge", str(out)]) == 2
    assert capsys.readouterr().err == (
        "lm-eval-tasks: sound_once: no such task in this pack. Name the folder of its YAML with --include_path.\n"
    )


def test_both_benchmarks_of_a_run_are_judged_again(runs: Runs) -> None:
    def judge(asked: Asked) -> Any:
        return scores(asked) if "Assistant 1" in asked.text else said("{}")

    runs.server.script("judge", judge)
    both = {"intima": {"local_path": "sample", "judge_max_tokens": 2048}}
    out = runs.run("out", "--limit", "2", tasks=f"{ALL},intima", **both)
    runs.server.forget()
    again = runs.rejudge(out)
    assert again["results"] == results(out)["results"]
    assert {question(asked)[0] for asked in runs.server.asked["judge"]} == {
        "trial"
    }  # INTIMA's, none of which is usable
    settings = again["configs"]["intima_assistant_traits"]["metadata"]["judging"]["settings"]
    assert settings["judge_max_tokens"] == 2048


# Answers kept aside by a run that did not end


def kept() -> list[Path]:
    return sorted((Path(os.environ["XDG_CACHE_HOME"]) / "lm-eval-tasks" / "answers").glob("*"))


def test_answers_of_a_run_killed_while_judging_are_judged_with_its_settings(runs: Runs) -> None:
    def slow_after_five(asked: Asked) -> Any:
        return said(scores(asked), delay=0 if runs.server.calls("judge") <= 5 else 60)

    runs.server.script("judge", slow_after_five)
    command = runs.command("out", tasks=ALL, logged=False, judge_concurrency=1, judge_temperature=0.5, judge_timeout=90)
    log = runs.folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-m", "lm_eval_tasks.cli", *command], stdout=file, stderr=file)
    deadline = time.monotonic() + 120
    while runs.server.calls("judge") < 6 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert runs.server.calls("judge") == 6, log.read_text(encoding="utf-8")
    (folder,) = kept()
    assert str(folder) in log.read_text(encoding="utf-8")

    runs.server.script("judge", scores)
    later = runs.rejudge(folder)
    assert runs.server.calls("model") == 0
    assert len(runs.judged()) == 6  # of ten: four were stored, one had been in flight, and there was a trial
    assert {asked.body["temperature"] for asked in runs.server.asked["judge"]} == {0.5}
    direct = results(runs.run("direct", tasks=ALL, judge_temperature=0.5))
    assert numbers(later) == numbers(direct)
    assert later["model_name"] == direct["model_name"] == "listener"


def test_answers_that_could_not_be_judged_are_kept_until_they_are(runs: Runs, caplog: pytest.LogCaptureFixture) -> None:
    runs.server.script("judge", *[scores] * 5, DROP)
    runs.run("out", logged=False, judge_max_retries=0, judge_concurrency=1)
    (folder,) = kept()
    assert f"or on {folder}" in caplog.text
    runs.server.script("judge", scores)
    later = runs.rejudge(folder)
    assert len(runs.judged()) == 6
    direct = results(runs.run("direct"))["results"]
    assert {name: later["results"][name]["gpt_score,judge"] for name in direct} == {
        name: row["gpt_score,judge"] for name, row in direct.items()
    }


def test_nothing_is_kept_of_a_run_that_is_judged_to_its_end(runs: Runs) -> None:
    runs.run("out", logged=False)
    assert kept() == []


# Folders that are refused


def without_line(lines: list[str]) -> list[str]:
    return lines[:-1]


def with_edited_doc(lines: list[str]) -> list[str]:
    return [line.replace("speech_QA reference 0", "speech_QA reference O") for line in lines]


def cut_short(lines: list[str]) -> list[str]:
    return [*lines[:-1], lines[-1][:100]]


def twice(lines: list[str]) -> list[str]:
    return [*lines, lines[-1]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (without_line, "docs do not match"),
        (with_edited_doc, "line 1: the doc does not match its doc_hash"),
        (cut_short, "line 3 is no whole sample"),
        (twice, "doc_id 2 more than once"),
        (None, "is missing, though the results name air_bench_chat_speech_QA"),
    ],
)
def test_a_folder_whose_docs_do_not_match_is_refused_in_one_line(
    runs: Runs, change: Callable[[list[str]], list[str]] | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.server.script(
        "judge", lambda asked: refused(400, "x", code="content_filter") if "QA q" in asked.text else "5 5"
    )
    out = runs.run("out")
    file = samples_file(out, "speech_QA")
    if change:
        rewrite(file, change)
    else:
        file.unlink()
    capsys.readouterr()
    assert runs._start(["rejudge", str(out)]) == 2
    printed, error = capsys.readouterr()
    assert (printed, error.count("\n")) == ("", 1)
    assert told in error and file.name in error
    assert runs.server.calls("judge") == 0


@pytest.mark.parametrize("logged", [False, True])
def test_a_folder_without_samples_or_with_damaged_results_is_refused_in_one_line(
    runs: Runs, logged: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    out = runs.run("out", logged=logged)
    if logged:
        file = next(out.rglob("results_*.json"))
        file.write_text(file.read_text(encoding="utf-8")[:-100], encoding="utf-8")
    capsys.readouterr()
    assert runs._start(["rejudge", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert ("is damaged" if logged else "only a run with --log_samples or --predict_only") in error


def test_settings_that_cannot_be_are_one_line_too(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    out = runs.run("out", "--limit", "1")
    capsys.readouterr()
    assert runs._start(["rejudge", str(out), "--metadata", '{"judge_temperature": 9}']) == 2
    error = capsys.readouterr().err.splitlines()
    assert "judge_temperature=9" in error[-1]
    assert not any("Traceback" in line for line in error)
