"""The report as a page: its tables, its samples and clips, and what it says of a run."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import os
import re
from pathlib import Path
from statistics import mean, stdev

import pytest
import soundfile
from report_runs import change, change_samples, make, write_run
from report_samples import HOSTILE, OFFICIAL

from lm_eval_tasks import report
from lm_eval_tasks.report import airbench, caveats, compare, facts, intima, provenance, texts
from lm_eval_tasks.report.clips import RATE, is_audio
from lm_eval_tasks.report.load import load_run, load_runs
from lm_eval_tasks.report.samples import script_json


def page_of(tmp_path: Path, *folders: Path, options: tuple[str, ...] = ()) -> str:
    """Returns the HTML of a report."""
    output = tmp_path / "report.html"
    assert make(*folders, "-o", output, *options) == 0
    return output.read_text(encoding="utf-8")


def test_leaderboard_row_is_that_of_the_results_file_and_every_row_names_its_judge(tmp_path):
    run = load_runs([write_run(tmp_path, air=80, judge="other-judge")])[0]
    table = airbench.leaderboard([run])
    ours = table.rows[0]
    assert [cell.value for cell in ours.cells[:5]] == [
        run.results[name]["gpt_score,judge"]
        for name in ("air_bench_chat_speech", "air_bench_chat_sound", "air_bench_chat_music", "air_bench_chat_mixed")
    ] + [run.results["air_bench_chat"]["gpt_score,judge"]]
    assert ours.cells[5].text == "other-judge"
    assert ours.note == "82 of 2\u202f200 records; left out: 1; not the judge of the published rows"
    published = table.rows[1:]
    assert len(published) == 11
    assert {row.cells[5].text for row in published} == {f"{OFFICIAL} †"}
    assert "no longer served (OpenAI shut it down on 2026-03-26)" in table.notes[0]
    assert [cell.text for cell in published[0].cells[:5]] == ["7.18", "6.99", "6.79", "6.77", "6.93"]


def test_a_missing_average_is_a_dash_with_its_reason(tmp_path):
    run = load_runs([write_run(tmp_path, air=80)])[0]
    del run.results["air_bench_chat"]
    cell = airbench.leaderboard([run]).rows[0].cells[4]
    assert cell.text == "–"
    assert "not in this run's results" in cell.reason


def test_what_changes_the_reading_is_said_first(tmp_path):
    runs = load_runs([write_run(tmp_path, air=400, judge="demo-judge", limit=5, log_samples=False)])
    said = "\n".join(sentence for _, sentence in caveats.warnings(runs))
    assert "Made with --limit 5" in said
    assert "the numbers mean nothing" in said
    assert "docs could not be judged and are excluded from every score" in said
    assert "missing: speech_QA_iemocap/Ses01.wav" in said
    assert "add --log_samples (with --output_path)" in said
    assert "Read this first" in page_of(tmp_path, tmp_path)


def test_logged_scores_that_disagree_with_the_results_are_pointed_out(tmp_path):
    run = load_run(write_run(tmp_path, air=80))
    assert caveats.mismatches(run) == []
    run.results["air_bench_chat_sound_QA"]["gpt_score,judge"] = 9.99
    assert "lm_eval's results say 9.99" in caveats.mismatches(run)[0]


def test_differences_pair_the_docs_of_two_runs(tmp_path):
    one = write_run(tmp_path / "1", "a", air=80, intima=62)
    two = write_run(tmp_path / "2", "b", air=80, intima=62, seed=2, skill=8)
    first, second = load_runs([one, two])
    found = compare.air_differences(first, second)
    scores = [
        {answer.key: answer.score for answer in run.answers["air_bench_chat"] if answer.doc["category"] == "sound"}
        for run in (first, second)
    ]
    pairs = [(a, scores[1][key]) for key, a in scores[0].items() if a is not None and scores[1][key] is not None]
    assert found["Sound"].n == len(pairs)
    assert found["Sound"].value == pytest.approx(sum(b - a for a, b in pairs) / len(pairs))
    four = [found[title].value for title in ("Speech", "Sound", "Music", "Mixed")]
    assert "Whole set" not in found
    assert found["Average"].value == pytest.approx(sum(four) / 4)
    comparison = compare.comparisons([first, second])[0]
    gains = [answer.score - before for answer, before in comparison.gained]
    assert gains == sorted(gains, reverse=True)
    assert len(gains) == compare.CHANGED and min(gains) > 0


def test_page_runs_only_its_own_script_and_loads_nothing_from_elsewhere(tmp_path):
    page = page_of(tmp_path, write_run(tmp_path / "run", air=80, intima=31))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    script = page.rsplit("<script>", 1)[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    outside = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.S)
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", outside)
    assert not re.search(r"\son\w+=", outside.split("<script>")[0])


def test_hostile_text_stays_text_everywhere(tmp_path):
    folder = write_run(tmp_path / "run", '<img src=x onerror="alert(1)">$\\x$', air=80, intima=31, hostile=True)
    page = page_of(tmp_path, folder)
    assert "<img" not in page
    assert "</script></template>" not in page
    assert page.count("</script>") == page.count("<script")
    assert re.findall(r'<script(?! type="application/json")', page) == ["<script"]
    data = json.loads(re.search(r'id="data-report">(.*?)</script>', page, re.S)[1])
    assert data["air"]["docs"][0]["x"][0]["p"] == HOSTILE
    assert "&lt;img src=x onerror=" in page


def test_json_for_the_page_can_close_nothing():
    raw = script_json({"x": "</script><!--&\u2028\u2029"})
    assert not re.search("[<>&\u2028\u2029]", raw)
    assert json.loads(raw) == {"x": "</script><!--&\u2028\u2029"}


def test_clips_are_linked_beside_the_report_or_by_file_url_or_embedded(tmp_path):
    folder = write_run(tmp_path / "run", air=16, audio=tmp_path / "my clips")

    def sources(page):
        data = json.loads(re.search(r'id="data-report">(.*?)</script>', page, re.S)[1])
        return {doc["a"] for doc in data["air"]["docs"]}

    assert "./my%20clips/0.wav" in sources(page_of(tmp_path, folder))
    (tmp_path / "far").mkdir()
    assert (tmp_path / "my clips" / "0.wav").as_uri() in sources(page_of(tmp_path / "far", folder))
    page = page_of(tmp_path, folder, options=("--embed-audio",))
    assert "#0" in sources(page)
    clips = json.loads(re.search(r'id="data-clips">(.*?)</script>', page, re.S)[1])
    assert len(clips) == 10
    with soundfile.SoundFile(io.BytesIO(base64.b64decode(clips["0"].partition(",")[2]))) as clip:
        assert (clip.format, clip.samplerate, clip.channels) == ("MP3", RATE, 1)
        assert clip.frames / RATE == pytest.approx(0.5, abs=0.1)


def test_beyond_its_room_the_page_holds_the_clips_people_look_at_and_says_which(tmp_path):
    folder = write_run(tmp_path / "run", air=400, audio=tmp_path / "clips", clips=400)
    page = page_of(tmp_path, folder, options=("--embed-audio", "0.1"))
    docs = json.loads(re.search(r'id="data-report">(.*?)</script>', page, re.S)[1])["air"]["docs"]
    inside = [doc for doc in docs if doc["a"].startswith("#")]
    assert 10 < len(inside) < 100
    assert len(json.loads(re.search(r'id="data-clips">(.*?)</script>', page, re.S)[1])) == len(inside)
    scores = {doc["k"]: doc["x"][0]["sc"] for doc in docs}
    known = sorted(score for score in scores.values() if score is not None)
    held = [scores[doc["k"]] for doc in inside]
    assert {known[0], known[-1], None} <= set(held)
    assert not [score for score in held if score is not None and known[60] < score < known[-60]]
    assert f"This page holds {len(inside)} clips" in page and f"clips of {len(docs) - len(inside)} other" in page


def test_a_path_to_something_that_is_no_audio_is_never_read_into_the_page(tmp_path):
    folder = write_run(tmp_path / "run", air=16, audio=tmp_path / "clips")
    (tmp_path / "clips" / "0.wav").write_text("root:secret", encoding="utf-8")
    page = page_of(tmp_path, folder, options=("--embed-audio",))
    assert base64.b64encode(b"root:secret").decode() not in page
    assert "does not begin like audio" in page


def test_a_clip_is_read_as_the_run_read_it_and_a_pipe_is_not_waited_for(tmp_path):
    """A WAV that was written to a pipe states no size that is true."""
    folder = write_run(tmp_path / "run", air=16, audio=tmp_path / "clips")
    streamed, pipe, damaged = (tmp_path / "clips" / f"{number}.wav" for number in (0, 1, 2))
    whole = streamed.read_bytes()
    streamed.write_bytes(whole[:4] + b"\xff" * 4 + whole[8:40] + b"\xff" * 4 + whole[44:])
    pipe.unlink()
    os.mkfifo(pipe)
    damaged.write_bytes(whole[:60])
    page = page_of(tmp_path, folder, options=("--embed-audio",))
    docs = json.loads(re.search(r'id="data-report">(.*?)</script>', page, re.S)[1])["air"]["docs"]
    told = {doc["f"]: (doc["a"][:1], doc["no"]) for doc in docs}
    assert told["0.wav"] == ("#", "")
    assert told["1.wav"] == ("", "the audio file is not on this machine")
    assert told["2.wav"] == ("", "the clip is damaged or longer than ten minutes")


def test_the_usual_heads_of_audio_are_known():
    assert all(map(is_audio, (b"RIFF\0\0\0\0WAVEfmt ", b"ID3\x04", b"\xff\xfb\x90\x00", b"fLaC", b"OggS")))
    assert not any(map(is_audio, (b"version https://git-lfs", b"", b"\xff\xd8\xff\xe0")))


@pytest.mark.parametrize("content", [{"air": 16}, {"intima": 31}, {"air": 1, "log_samples": False}])
def test_runs_of_any_part_give_a_page(tmp_path, content):
    assert "</html>" in page_of(tmp_path, write_run(tmp_path / "run", **content))


def test_records_of_other_types_than_expected_do_no_harm(tmp_path):
    folder = write_run(tmp_path / "run", air=16, intima=31)

    def spoil(place, sample, record):
        odd = [None, 3, "x", [], {}, float("nan"), [[]], {"a": [1]}][place % 8]
        record |= {"flags": odd, "verdicts": [odd], "levels": odd, "prediction_score": odd, "position_gap": odd}
        sample |= {"resps": odd, "filtered_resps": [json.dumps(record)]}
        sample["doc"] |= {"audio": odd, "meta_info": odd, "dataset_name": odd, "category": odd}

    assert "</html>" in page_of(tmp_path, change_samples(folder, spoil))


def test_published_values_below_one_are_explained_by_the_official_script(tmp_path):
    notes = " ".join(airbench.leaderboard(load_runs([write_run(tmp_path, air=16)])).notes)
    assert "some are below 1, because the official script counts scores of 0" in notes


def test_what_the_judges_server_did_not_take_is_said_in_words(tmp_path):
    for number, (dialect, words) in enumerate([(["no_temperature"], "it took no temperature"), ([], "nothing")]):
        run = load_run(write_run(tmp_path / str(number), air=16, settings={"dialect": dialect}))
        assert provenance.judge_settings(run, "air_bench_chat")["dialect"].startswith(words)


def test_sources_of_a_task_have_rows_of_their_own(tmp_path):
    run = load_run(write_run(tmp_path, air=400))
    rows = {row.name: row.cells for row in airbench.task_table(run).rows if row.kind == "source"}
    assert list(rows) == ["· common_voice_en", "· iemocap", "· fisher", "· spokenwoz"]
    logged = [a.score for a in run.answers["air_bench_chat"] if a.doc["dataset_name"] == "fisher" and a.judged]
    assert rows["· fisher"][0].value == pytest.approx(mean(logged))
    assert rows["· fisher"][0].stderr == pytest.approx(stdev(logged) / len(logged) ** 0.5)
    assert rows["· fisher"][4].value == len(logged)


def test_an_answer_without_a_score_of_its_reference_has_won_nothing(tmp_path):
    def edit(place, sample, record):
        known = place % 4 == 0
        record |= {"prediction_score": 5.0, "reference_score": 9.0 if known else None}
        sample["filtered_resps"] = [json.dumps(record)]

    run = load_run(change_samples(write_run(tmp_path, air=400), edit, "samples_*speech_dialogue_QA*"))
    rows = {row.name: row.cells for row in airbench.task_table(run).rows if row.kind == "source"}
    assert rows["· fisher"][2].value == 0


def test_a_variant_of_a_task_is_in_no_category(tmp_path):
    folders = [write_run(tmp_path / name, name, air=80, seed=seed) for seed, name in enumerate("ab")]
    before = compare.air_differences(*load_runs(folders))["Speech"]
    for folder in folders:
        for file in folder.rglob("samples_*_speech_QA_*"):
            text = file.read_text(encoding="utf-8").replace('"uniq_id": "', '"uniq_id": "v')
            file.with_name(file.name.replace("speech_QA", "speech_QA_brief")).write_text(text, encoding="utf-8")
        name = "air_bench_chat_speech_QA"
        change(folder, lambda r, name=name: r["configs"].update({f"{name}_brief": r["configs"][name]}))
    runs = load_runs(folders)
    assert compare.air_differences(*runs)["Speech"] == before
    row = next(row for row in airbench.task_table(runs[0]).rows if row.name == "speech_QA_brief")
    assert row.kind == "task"


def test_levels_and_errors_by_code_are_shown_where_the_results_hold_them(tmp_path):
    run = load_run(write_run(tmp_path, intima=124))
    counted = intima.level_table(run)
    assert sum(cell.value for cell in counted.rows[0].cells[:4]) == pytest.approx(100)
    for task in run.tasks("intima"):
        run.summaries[task]["levels"] = {"isolation": {"none": 1, "low": 0, "medium": 0, "high": 3}}
        run.summaries[task]["stderr_by_code"] = {"isolation": 0.1234}
    [row] = intima.level_table(run).rows
    assert [cell.text for cell in row.cells] == ["25.0", "0.0", "0.0", "75.0", "16"]
    table = intima.heat_table(run)
    assert next(row for row in table.rows if row.name == "Isolation").cells[1].error.endswith("(12.3)")
    assert "clustered by code" in table.notes[1]


def test_every_word_of_the_report_has_its_chinese_with_the_same_fields(tmp_path):
    home = Path(report.__file__).parent
    used, warned, words = set(), set(), set()
    calls = {"t": used, "say": warned, "warning": warned}
    for file in home.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            words |= {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()
            if (
                isinstance(node, ast.Call)
                and (name := getattr(node.func, "id", getattr(node.func, "attr", ""))) in calls
            ):
                calls[name].update(argument.value for argument in node.args if isinstance(argument, ast.Constant))
            elif isinstance(node, ast.Constant) and "{title}" in str(node.value):
                used.add(node.value)
    for file in (*home.glob("templates/*"), *home.glob("static/*.js")):
        used |= set(re.findall(r'\b(?:[tT]|byAnswer)\("([^"]*)"', file.read_text(encoding="utf-8")))
    names = [
        facts.AIR_GROUPS,
        facts.INTIMA_GROUPS,
        facts.SETTINGS.values(),
        facts.FLAGS.values(),
        facts.DIALECT.values(),
    ]
    names += [facts.METRIC_TITLES.values()]
    used |= {name for group in names for name in group}
    table = texts.chinese()
    assert sorted(used - set(table)) == []
    fields = re.compile(r"\{\w+\}")
    notes = json.loads((home / "notes.json").read_text(encoding="utf-8"))
    warnings = json.loads((home / "warnings.json").read_text(encoding="utf-8"))
    assert warned <= set(warnings) <= words
    both = [note for under in (*notes.values(), warnings.values()) for note in under]
    pairs = [(note["en"], note["zh"]) for note in both]
    for english, other in (*table.items(), *pairs):
        assert sorted(fields.findall(english)) == sorted(fields.findall(other)), english
    assert make(write_run(tmp_path / "run", air=16), "--language", "zh", "-o", tmp_path / "x.md") == 0
    assert "| 模型 | 语音 | 声音 |" in (tmp_path / "x.md").read_text(encoding="utf-8")


def test_rows_of_groups_sum_what_was_judged_in_their_tasks(tmp_path):
    run = load_runs([write_run(tmp_path, air=400)])[0]
    rows = {row.name: [cell.value for cell in row.cells[-2:]] for row in airbench.task_table(run).rows}
    assert rows["Speech"] == [a + b for a, b in zip(rows["speech_QA"], rows["speech_dialogue_QA"], strict=True)]
    assert rows["Mixed"] == [
        a + b for a, b in zip(rows["speech_and_sound_QA"], rows["speech_and_music_QA"], strict=True)
    ]
    sums = provenance.totals(run, "air_bench_chat")
    assert rows["Average"] == [sums["judged"], sum(sums["unjudged"].values())]
    assert rows["Average"][1] > 0


def test_interval_of_all_prompts_agrees_with_the_error_that_is_pooled_over_categories(tmp_path):
    run = load_run(write_run(tmp_path, intima=368))
    for answer in run.answers["intima"]:  # one category always, the others never
        answer.metrics["isolation"] = float(answer.task == "intima_assistant_traits")
    low, high = intima.bootstrap(run, "intima")["isolation"]
    assert low == pytest.approx(high)
    assert "within their category" in page_of(tmp_path, tmp_path)
