"""Puts the report together: one HTML file that needs neither network nor server.

The page forbids itself the network by its Content-Security-Policy, runs the one script whose digest the policy names,
and shows text from runs only through Jinja's autoescape or the DOM's textContent.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from lm_eval_tasks.report import airbench, banner, compare, facts, foundation, intima, judging, payload
from lm_eval_tasks.report.audio import Clips
from lm_eval_tasks.report.records import Run
from lm_eval_tasks.report.table import Cell, Row

_HERE = Path(__file__).parent
_SCRIPTS = ("core.js", "browser.js", "views.js")
_STYLES = ("report.css", "browser.css")


def to_html(runs: list[Run], report: Path, embed_audio: bool = False) -> tuple[str, Clips]:
    """Returns the page, and what became of the clips.

    Args:
        runs: in the order in which they get their colours; later ones are compared with the first.
        report: the file that the page will be, from which links to clips start.
        embed_audio: whether the clips are stored in the page.
    """
    clips = Clips(report, embed_audio)
    script = "\n".join(['"use strict";', "(() => {", *(_static(name) for name in _SCRIPTS), "})();"])
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    context = _context(runs, clips)
    page = (
        environment()
        .get_template("page.html.j2")
        .render(**context, script=Markup(script), digest=digest, style=Markup("\n".join(map(_static, _STYLES))))
    )
    return page, clips


def environment() -> jinja2.Environment:
    """Returns the templates: everything is escaped, and a name that is not given is an error."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates", encoding="utf-8"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["breakable"] = _breakable
    return templates


def _static(name: str) -> str:
    return (_HERE / "static" / name).read_text(encoding="utf-8")


def _context(runs: list[Run], clips: Clips) -> dict[str, Any]:
    """Returns what the templates print."""
    has_air = any(run.has(facts.AIR) for run in runs)
    has_intima = any(run.has(facts.INTIMA) for run in runs)
    legend = {
        name: [{"label": run.label, "series": index} for index, run in enumerate(runs) if run.has(name)]
        for name in (facts.AIR, facts.INTIMA)
    }
    air_docs = payload.air_docs([run for run in runs if run.has(facts.AIR)], clips)
    intima_docs = payload.intima_docs([run for run in runs if run.has(facts.INTIMA)])
    data = {
        "air": {"runs": legend[facts.AIR], "docs": air_docs},
        "intima": {
            "runs": legend[facts.INTIMA],
            "docs": intima_docs,
            "names": [facts.metric_title(metric) for metric in facts.INTIMA_METRICS],
            "places": facts.INTIMA_PLACES,
        },
    }
    has_foundation = any(run.has(foundation.FOUNDATION) for run in runs)
    shown = (("AIR-Bench-Chat", has_air), (foundation.TITLE, has_foundation), ("INTIMA", has_intima))
    names = [title for title, there in shown if there]
    return {
        "title": " and ".join(run.label for run in runs) if len(runs) < 3 else f"{len(runs)} runs",
        "benchmarks": names,
        "runs": runs,
        "air_legend": legend[facts.AIR],
        "intima_legend": legend[facts.INTIMA],
        "official_judge": facts.OFFICIAL_JUDGE,
        "warnings": _merged(banner.warnings(runs)),
        "air": _air(runs, air_docs) if has_air else None,
        "intima": _intima(runs, intima_docs) if has_intima else None,
        "foundation": foundation.tables(runs),
        "comparisons": compare.comparisons(runs),
        "judging": judging.judging_table(runs),
        "settings": judging.settings_table(runs),
        "clips_failed": clips.failed,
        "data": payload.script_json(data),
        "clips": payload.script_json(clips.embedded) if clips.embedded else None,
    }


def _air(runs: list[Run], docs: list[dict[str, Any]]) -> dict[str, Any]:
    board = airbench.leaderboard(runs)
    ours = [row for row in board.rows if row.kind == "ours"]
    return {
        "leaderboard": board,
        "hero": _hero(board.head, ours[0]) if len(ours) == 1 and _any_number(ours[0]) else None,
        "chart": airbench.category_chart(runs),
        "spreads": airbench.spreads(runs),
        "tables": [airbench.task_table(run) for run in runs if run.judged_at_all(facts.AIR)],
        "samples": len(docs),
    }


def _merged(warnings: list[tuple[str, str]]) -> list[tuple[list[str], str]]:
    """Says once what is said of several runs; returns (runs, sentence)."""
    labels: dict[str, list[str]] = {}
    for label, sentence in warnings:
        labels.setdefault(sentence, []).append(label)
    return [(names, sentence) for sentence, names in labels.items()]


def _hero(head: tuple[str, ...], row: Row) -> list[tuple[str, Cell]]:
    """Returns the figures of a single run for the head of the page: the average first."""
    figures = list(zip(head[1:-1], row.cells[:-1], strict=True))
    return [figures[-1], *figures[:-1]]


def _any_number(row: Row) -> bool:
    return any(cell.value is not None for cell in row.cells)


def _breakable(name: str) -> Markup:
    """Lets a long name of a task break after its underscores."""
    return Markup("_<wbr>").join(name.split("_"))


def _intima(runs: list[Run], docs: list[dict[str, Any]]) -> dict[str, Any]:
    intervals = [intima.all_intervals(run) for run in runs]
    judged = [run for run in runs if run.judged_at_all(facts.INTIMA)]
    return {
        "judged": bool(judged),
        "summary": intima.summary(runs),
        "classes": [
            (title, intima.bars(runs, intervals, [metric], by_category=True))
            for metric, title in facts.INTIMA_CLASSES.items()
            if judged
        ],
        "traits": intima.bars(runs, intervals, list(facts.INTIMA_TRAITS), by_category=False) if judged else "",
        "tables": [intima.heat_table(run, found) for run, found in zip(runs, intervals, strict=True) if run in judged],
        "labels": intima.label_bars(runs),
        "label_names": list(facts.INTIMA_LABELS.values()),
        "samples": len(docs),
    }
