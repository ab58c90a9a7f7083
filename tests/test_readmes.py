"""The two READMEs stay in step with each other, with the settings and with the commands."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lm_eval._cli.harness import HarnessCLI

from lm_eval_tasks import cli
from lm_eval_tasks.server.keys import judge_api_key
from lm_eval_tasks.settings import ENV_PREFIX, AirBenchSettings, IntimaSettings, JudgeSettings, read_settings

ROOT = Path(__file__).parent.parent
ENGLISH, CHINESE = "README.md", "README.zh-CN.md"
DEFAULT_HEADERS = {ENGLISH: ["key", "default"], CHINESE: ["键", "默认值"]}
IN_CHINESE = {"none": "无", "all": "全部", "the pack's": "任务包自带"}
"""Defaults that are words."""

NO_VALUE = ("none", "all", "the pack's", "`JUDGE_API_KEY`, else `OPENAI_API_KEY`")
"""How the English tables write a default of None."""

OF_OTHER_PROGRAMS = {"--port", "--allowed-local-media-path"}
"""vLLM's flags that the prose mentions."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Section:
    """What stands below one heading: its level, its text without code blocks, and its tables as rows of cells."""

    level: int
    text: str

    @property
    def tables(self) -> list[list[list[str]]]:
        """Every table, header first, without the line that rules it off."""
        found = re.findall(r"^(?:\|.*\|\n)+", self.text + "\n", re.MULTILINE)
        return [[_cells(line) for n, line in enumerate(table.splitlines()) if n != 1] for table in found]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[tuple[str, str]]:
    """Language and code of each block, comments removed."""
    return [(tag, re.sub(r"(?m)(^|[ \t]+)#.*$", "", code)) for tag, code in FENCE.findall(read(name))]


def sections(name: str) -> list[Section]:
    parts = re.split(r"^(#+) .*\n", FENCE.sub("", read(name)), flags=re.MULTILINE)
    return [Section(len(marks), text) for marks, text in zip(parts[1::2], parts[2::2], strict=True)]


def pairs() -> list[tuple[Section, Section]]:
    return list(zip(sections(ENGLISH), sections(CHINESE), strict=True))


def tables(name: str) -> list[list[list[str]]]:
    return [table for section in sections(name) for table in section.tables]


def option_tables(name: str) -> list[dict[str, str]]:
    """Key -> default as written, for each table of options."""
    chosen = [table for table in tables(name) if table[0][:2] == DEFAULT_HEADERS[name]]
    return [{CODE.fullmatch(row[0])[1]: row[1] for row in table[1:]} for table in chosen]


def links(name: str) -> list[str]:
    """Where each link and picture leads, except from one README to the other."""
    return [target for target in re.findall(r"\]\(([^)]+)\)", read(name)) if target not in (ENGLISH, CHINESE)]


def mentioned(name: str) -> list[str]:
    """Every code span, and every line of the shell's blocks with its continuations joined."""
    shell = [code.replace("\\\n", " ") for tag, code in blocks(name) if tag == "bash"]
    return CODE.findall(FENCE.sub("", read(name))) + [line for code in shell for line in code.splitlines() if line]


def default_as_value(text: str) -> Any:
    """The value that a cell of the English default columns stands for."""
    if text in NO_VALUE:
        return None
    code = CODE.fullmatch(text)
    return code[1] if code else json.loads(text)


def test_headings_have_the_same_levels_in_the_same_order():
    assert [section.level for section in sections(CHINESE)] == [section.level for section in sections(ENGLISH)]


def test_code_blocks_are_the_same_but_for_comments():
    assert blocks(CHINESE) == blocks(ENGLISH)


def test_each_readme_links_to_the_other_at_its_top():
    assert read(ENGLISH).splitlines()[2] == f"English | [简体中文]({CHINESE})"
    assert read(CHINESE).splitlines()[2] == f"[English]({ENGLISH}) | 简体中文"


def test_links_lead_to_the_same_places():
    assert links(CHINESE) == links(ENGLISH)


def test_tables_have_the_same_shape_and_name_the_same_things():
    for english, chinese in pairs():
        assert [[len(row) for row in t] for t in chinese.tables] == [[len(row) for row in t] for t in english.tables]
        for ours, theirs in zip(english.tables, chinese.tables, strict=True):
            assert [CODE.findall(row[0]) for row in theirs] == [CODE.findall(row[0]) for row in ours]


def test_option_tables_have_the_same_keys_and_defaults():
    assert len(option_tables(ENGLISH)) == 4
    for ours, theirs in zip(option_tables(ENGLISH), option_tables(CHINESE), strict=True):
        assert list(theirs) == list(ours)
        for key, default in ours.items():
            if CODE.sub("", default).strip(" ") and "`" in default:  # code with words around it
                assert CODE.findall(theirs[key]) == CODE.findall(default), key
            else:
                assert theirs[key] == IN_CHINESE.get(default, default), key


def test_each_section_names_the_same_code():
    for english, chinese in pairs():
        assert set(CODE.findall(chinese.text)) == set(CODE.findall(english.text))


def test_each_number_of_a_section_stands_in_the_translation_as_well():
    number = re.compile(r"\d[\d,.]*(?<![,.])")
    for english, chinese in pairs():
        assert set(number.findall(english.text)) <= set(number.findall(chinese.text))


@pytest.mark.parametrize(("place", "settings"), [(1, AirBenchSettings), (2, IntimaSettings)])
def test_the_option_tables_hold_every_setting_with_its_real_default(place, settings):
    written = option_tables(ENGLISH)[0] | option_tables(ENGLISH)[place]
    assert set(written) == set(settings.model_fields)
    for key, text in written.items():
        value, real = default_as_value(text), settings.model_fields[key].default
        assert (value, isinstance(value, bool)) == (real, isinstance(real, bool)), key


def test_the_table_of_foundation_holds_what_no_other_benchmark_takes():
    """The others are those of both tracks, which AIR-Bench-Chat's tables have."""
    from lm_eval_tasks.settings import AirBenchFoundationSettings

    own, fields = option_tables(ENGLISH)[3], AirBenchFoundationSettings.model_fields
    assert set(own) == set(fields) - set(AirBenchSettings.model_fields)
    assert set(AirBenchSettings.model_fields) - set(JudgeSettings.model_fields) - set(fields) == {"do_swap"}
    assert {key: default_as_value(text) for key, text in own.items()} == {key: fields[key].default for key in own}


def test_options_of_the_first_table_are_those_of_both_benchmarks():
    assert set(option_tables(ENGLISH)[0]) == set(AirBenchSettings.model_fields) & set(IntimaSettings.model_fields)


def test_every_value_that_a_setting_can_take_is_named_in_its_row():
    from lm_eval_tasks.settings import AirBenchFoundationSettings

    for settings in (AirBenchSettings, AirBenchFoundationSettings, IntimaSettings):
        choices = {key: getattr(field.annotation, "__args__", ()) for key, field in settings.model_fields.items()}
        rows = {" ".join(CODE.findall(row[0])): " ".join(row[1:]) for table in tables(ENGLISH) for row in table}
        for key, values in choices.items():
            missing = [value for value in values if isinstance(value, str) and f"`{value}`" not in rows[key]]
            assert not missing, f"{key}: {missing}"


@pytest.mark.parametrize("name", [ENGLISH, CHINESE])
def test_every_environment_variable_exists(name, monkeypatch):
    found = {word for text in mentioned(name) for word in re.findall(r"\b[A-Z]+_[A-Z_]+\b", text)}
    assert {"JUDGE_API_KEY", "OPENAI_API_KEY"} < found
    for variable in found:
        if variable.startswith(ENV_PREFIX):
            key = variable.removeprefix(ENV_PREFIX).lower()
            assert key in ("", *AirBenchSettings.model_fields, *IntimaSettings.model_fields), variable
        elif variable == "OPENAI_BASE_URL":
            with monkeypatch.context() as environment:
                environment.setenv(variable, "http://127.0.0.1:8001/v1")
                assert read_settings("intima", {}).judge_base_url == "http://127.0.0.1:8001/v1"
        else:
            with monkeypatch.context() as environment:
                for other in found:
                    environment.delenv(other, raising=False)
                environment.setenv(variable, "the-key")
                assert judge_api_key(JudgeSettings()) == "the-key", variable


@pytest.mark.parametrize("name", [ENGLISH, CHINESE])
def test_every_command_line_can_be_parsed(name):
    ours, stock = [], []
    for text in mentioned(name):
        ours += re.findall(r"(?:^|\$\()lm-eval-tasks ([^)\n]+)", text)
        stock += re.findall(r"^lm_eval (run (?!\.\.\.).+)", text)
    runs = [command for command in ours if command.startswith("run --model")]
    assert len(ours) >= 8 and len(stock) == 1 and len(runs) == 3
    for command in ours:
        words = shlex.split(command)
        if words[0] == "run":
            continue
        if len(words) == 1:
            assert words[0] in _sub_commands(), command
        else:
            cli._parser().parse_args(words)
    for command in [*stock, *runs]:
        HarnessCLI()._parser.parse_args(shlex.split(command))


@pytest.mark.parametrize("name", [ENGLISH, CHINESE])
def test_every_flag_in_the_prose_exists(name):
    prose = CODE.findall(FENCE.sub("", read(name)))
    flags = {flag for text in prose for flag in re.findall(r"(?<!\S)--[a-z][\w-]*", text)}
    run = _sub_commands(HarnessCLI()._parser)["run"]
    known = set(run._option_string_actions)
    known.update(*(command._option_string_actions for command in _sub_commands().values()))
    assert "--metadata" in flags
    assert flags <= known | OF_OTHER_PROGRAMS | {"--serve", "--serve_timeout"}


def _sub_commands(parser: Any = None) -> dict[str, Any]:
    return (parser or cli._parser())._subparsers._group_actions[0].choices
