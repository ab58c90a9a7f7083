"""A report as Markdown, CSV, LaTeX or one table of it, and how the command is told which."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess

import pytest
from report_runs import make, write_run

from lm_eval_tasks.report import airbench, formats
from lm_eval_tasks.report.load import load_run, load_runs


def test_markdown_holds_the_tables_and_no_markup_of_a_run(tmp_path, capfd):
    folder = write_run(tmp_path / "run", "a|b <b>*x*</b>\n# y", air=80, intima=31)
    assert make(folder, "--format", "markdown") == 0
    printed = capfd.readouterr().out
    assert "| Qwen2-Audio (published) | 7.18 | 6.99 | 6.79 | 6.77 | 6.93 | gpt-4-0125-preview † |" in printed
    assert "a\\|b &lt;b&gt;\\*x\\*&lt;/b&gt; \\# y" in printed
    assert "<b>" not in printed


def test_csv_keeps_all_digits_and_is_no_formula(tmp_path):
    folder = write_run(tmp_path / "run", "=1+1", air=80, intima=31)
    assert make(folder, "--format", "csv", "-o", tmp_path / "table.csv") == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text(encoding="utf-8"))))
    run = load_run(folder)
    average = next(row for row in rows if row["table"] == "air_leaderboard" and row["column"] == "Average")
    assert average["row"] == "'=1+1"
    assert float(average["value"]) == run.results["air_bench_chat"]["gpt_score,judge"]
    assert float(average["stderr"]) == run.results["air_bench_chat"]["gpt_score_stderr,judge"]
    assert {row["table"] for row in rows} >= {"air_tasks", "intima_rates", "intima_summary", "judging", "settings"}


def test_every_table_has_as_many_cells_as_heads(tmp_path):
    one = write_run(tmp_path / "1", "a", air=16, intima=31)
    two = write_run(tmp_path / "2", "b", air=16)
    for table in formats.all_tables(load_runs([one, two])):
        assert {len(row.cells) for row in table.rows if row.kind != "section"} == {len(table.head) - 1}, table.key


@pytest.mark.parametrize(
    "arguments",
    [
        ("--format", "csv", "--embed-audio"),
        ("-o", "/dev/null/x.html"),
        ("-o", "x.csv", "--format", "latex"),
        ("--table", "judging", "-o", "x.html"),
    ],
)
def test_wrong_use_is_one_line(tmp_path, arguments):
    folder = write_run(tmp_path, air=1)
    with pytest.raises(ValueError, match=r"leave one|can't be written") as caught:
        make(folder, *arguments)
    assert "\n" not in str(caught.value)


def test_all_formats_show_one_unit(tmp_path):
    runs = load_runs([write_run(tmp_path, air=80)])
    table = airbench.task_table(runs[0])
    rate = next(row for row in table.rows if row.name == "Average").cells[2]
    value = 100 * runs[0].results["air_bench_chat"]["win_rate,judge"]
    assert (rate.value, rate.text) == (pytest.approx(value), f"{value:.1f}")
    rows = list(csv.DictReader(io.StringIO(formats.to_text("csv", runs, "categories"))))
    [line] = [row for row in rows if row["row"] == "Average" and row["column"] == "Win rate, %"]
    assert float(line["value"]) == pytest.approx(value)
    sheet = list(csv.reader(io.StringIO(formats.to_sheet(table))))
    average = next(line for line in sheet if line[0].startswith("Average"))
    assert float(average[sheet[0].index("Win rate, %")]) == pytest.approx(value)
    assert f"{value:.1f} $\\pm$" in formats.to_latex(table)


def test_latex_is_a_booktabs_table_in_which_text_is_only_text(tmp_path):
    runs = load_runs([write_run(tmp_path, "50%_of $x^2$ \\input{a} ~{#&}", air=80)])
    text = formats.to_text("latex", runs, "leaderboard")
    assert text.count("\\toprule") == text.count("\\bottomrule") == text.count("p{15em}rrrrrl}") == 1
    assert "50\\%\\_of \\$x\\textasciicircum{}2\\$ \\textbackslash{}input\\{a\\} \\textasciitilde{}\\{\\#\\&\\}" in text
    body = text[text.index("\\begin{tabular}") : text.index("\\bottomrule")]
    assert {line.count(" & ") for line in body.splitlines() if line.endswith("\\\\")} == {6}


@pytest.mark.parametrize(
    ("name", "start"), [("x.csv", "table,run"), ("x.md", "# listener-a"), ("x.tex", "% Needs"), ("x.html", "<!doctype")]
)
def test_the_name_of_the_output_chooses_the_format(tmp_path, name, start):
    assert make(write_run(tmp_path / "run", air=1), "-o", tmp_path / name) == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


@pytest.mark.parametrize("part", [part for part in formats.PARTS if part != "foundation"])
def test_one_part_can_be_written_alone(tmp_path, part, capfd):
    folders = [write_run(tmp_path / name, name, air=16, intima=31) for name in "ab"]
    assert make(*folders, "--table", part, "--format", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert {row["table"] for row in rows} == set(formats.PARTS[part])


def test_a_report_into_a_folder_that_does_not_exist_is_refused_before_anything_is_read(tmp_path):
    for kind in ("html", "csv"):
        with pytest.raises(ValueError, match=r"there is no folder .*nowhere; create it first") as caught:
            make(tmp_path / "no run", "-o", tmp_path / "nowhere" / "x", "--format", kind)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "nowhere").exists()


SPECIAL = '[a_b] & 50% # $x ~y ^z \\w {q} `r` "s" |u| <v> *w -- --- ?` é ± …'


@pytest.mark.parametrize("name", [SPECIAL, "*starred", "- [x] " * 9])
def test_latex_takes_no_text_for_the_option_of_a_line_break(tmp_path, name):
    """After a line break, even in the next line, "[" begins a length and "*" is swallowed."""
    runs = load_runs([write_run(tmp_path / "1", "b", air=16), write_run(tmp_path / "2", name, air=16, judge=name)])
    assert not re.search(r"\\\\\s*[\[*]", formats.to_text("latex", runs))


def test_latex_breaks_long_heads_and_leaves_no_more_tables_waiting_than_it_can_hold(tmp_path):
    folders = [write_run(tmp_path / str(n), f"model-{n} " * 9, air=16, intima=31, seed=n) for n in range(5)]
    text = formats.to_text("latex", load_runs(folders))
    waiting = [part.count("\\begin{table}") for part in text.split("\\clearpage")]
    assert sum(waiting) > 18 and max(waiting) <= 16
    heads = re.findall(r"\\shortstack\[.\]\{(.*?)\}\}(?: &| \\\\)", text)
    assert heads and all(len(line) <= 16 + 6 for head in heads for line in head.split("\\\\"))


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex here (Debian: apt install texlive-latex-extra)")
@pytest.mark.parametrize("part", [None, *formats.PARTS])
def test_latex_compiles(tmp_path, part):
    names = (SPECIAL, "*starred", "org/" + "very_long_name_without_spaces" * 4)
    content = {"air": 16, "intima": 31, "foundation": 13}
    runs = load_runs([write_run(tmp_path / str(n), name, judge=name, **content) for n, name in enumerate(names)])
    head = "\\documentclass{article}\\usepackage{booktabs,adjustbox,array}\\begin{document}\n"
    (tmp_path / "x.tex").write_text(head + formats.to_text("latex", runs, part) + "\\end{document}", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "x.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    said = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, "\n".join(line for line in said.splitlines() if line.startswith(("!", "l.")))
    assert not re.search("Overfull|Missing character|Float too large", said)
