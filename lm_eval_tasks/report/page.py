"""Puts the report together: one HTML file in every language, which needs neither network nor server.

The page forbids itself the network by its Content-Security-Policy, runs the one script whose digest the policy names,
and shows text from runs only through Jinja's autoescape or the DOM's textContent.
"""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from lm_eval_tasks import __version__
from lm_eval_tasks.report import (
    agreement,
    airbench,
    caveats,
    charts,
    compare,
    facts,
    formats,
    foundation,
    intima,
    provenance,
    samples,
    texts,
)
from lm_eval_tasks.report.clips import Clips
from lm_eval_tasks.report.records import Run
from lm_eval_tasks.report.table import Table

_HERE = Path(__file__).parent
_SCRIPTS = ("core.js", "share.js", "browser.js", "views.js")
_STYLES = ("report.css", "browser.css")


def to_html(runs: list[Run], report: Path, room: int = 0, language: str = "en") -> tuple[str, Clips]:
    """Returns the page, and what became of the clips.

    Args:
        runs: in the order in which they get their colours; later ones are compared with the first.
        report: the file that the page will be, from which links to clips start.
        room: bytes that clips may take in the page; 0 stores none.
        language: the one that the page opens in.
    """
    clips, env = Clips(report, room), _environment()
    script = "\n".join(['"use strict";', "(() => {", *(_static(name) for name in _SCRIPTS), "})();"])
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    data = _data(runs, clips)
    data["words"] = {english: other for english, other in texts.chinese().items() if len(english) <= 80}
    intervals = [intima.all_intervals(run) for run in runs]
    bodies = {}
    for name in dict.fromkeys([language, *texts.LANGUAGES]):
        with texts.language(name):
            bodies[name] = Markup(env.get_template("body.html.j2").render(_context(runs, clips, intervals, data)))
    page = env.get_template("page.html.j2").render(
        bodies=bodies,
        title=" · ".join(run.label for run in runs) if len(runs) < 3 else f"{len(runs)} runs",
        benchmarks=[
            title
            for name, title in (*facts.TITLES.items(), (foundation.FOUNDATION, foundation.TITLE))
            if any(run.has(name) for run in runs)
        ],
        data=samples.script_json(data),
        clips=samples.script_json(clips.embedded) if clips.embedded else None,
        script=Markup(script),
        digest=digest,
        style=Markup("\n".join(map(_static, _STYLES))),
    )
    return page, clips


def _environment() -> jinja2.Environment:
    """Returns the templates: everything is escaped, and a name that is not given is an error."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates", encoding="utf-8"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["breakable"] = lambda name: Markup("_<wbr>").join(name.split("_"))
    templates.globals |= {"t": texts.t, "hue": charts.hue, "languages": texts.LANGUAGES}
    return templates


def _static(name: str) -> str:
    return (_HERE / "static" / name).read_text(encoding="utf-8")


def _data(runs: list[Run], clips: Clips) -> dict[str, Any]:
    """Returns what the page's script reads: the samples of both benchmarks."""
    there = {name: [run for run in runs if run.has(name)] for name in facts.TITLES}
    docs = {
        facts.AIR: samples.air_docs(there[facts.AIR], clips),
        facts.INTIMA: samples.intima_docs(there[facts.INTIMA]),
    }
    legend = {
        name: [{"label": run.label, "series": runs.index(run), "prompt": samples.prompt_of(run, name)} for run in found]
        for name, found in there.items()
    }
    names = [facts.metric_title(metric) for metric in facts.INTIMA_METRICS]
    return {
        "air": {"runs": legend[facts.AIR], "docs": docs[facts.AIR], "flags": facts.FLAGS},
        "intima": {
            "runs": legend[facts.INTIMA],
            "docs": docs[facts.INTIMA],
            "flags": facts.FLAGS,
            "names": names,
            "places": facts.INTIMA_PLACES,
        },
    }


def _context(runs: list[Run], clips: Clips, intervals: list[Any], data: dict[str, Any]) -> dict[str, Any]:
    """Returns what the body prints, in the language of now."""
    t = texts.t
    air, prompts = ([run for run in runs if run.judged_at_all(name)] for name in facts.TITLES)
    board = airbench.leaderboard(runs) if any(run.has(facts.AIR) for run in runs) else None
    ours = [row for row in board.rows if row.kind == "ours"] if board else []
    hero = None
    if len(ours) == 1 and any(cell.value is not None for cell in ours[0].cells) and board:
        figures = list(zip(board.head[1:-1], ours[0].cells[:-1], strict=True))
        hero = [figures[-1], *figures[:-1]]
    merged: dict[str, list[str]] = {}
    for label, sentence in caveats.warnings(runs):
        merged.setdefault(sentence, []).append(label)
    merged_tables = [intima.level_table(run) for run in prompts]
    with_intervals = [(run, found) for run, found in zip(runs, intervals, strict=True) if run in prompts]
    classes = facts.INTIMA_CLASSES.items() if prompts else ()
    return {
        "runs": runs,
        "warnings": [(names, sentence) for sentence, names in merged.items()],
        "has": {name: any(run.has(name) for run in runs) for name in facts.TITLES},
        "titles": facts.TITLES,
        "official_judge": facts.OFFICIAL_JUDGE,
        "board": board,
        "foundation": foundation.tables(runs),
        "hero": hero,
        "category_chart": airbench.category_chart(runs),
        "air_tables": [airbench.task_table(run) for run in air],
        "spreads": airbench.spreads(runs),
        "agreement": agreement.tables(runs),
        "comparisons": compare.comparisons(runs),
        "air_samples": len(data["air"]["docs"]),
        "intima_samples": len(data["intima"]["docs"]),
        "intima_summary": intima.summary(runs),
        "class_charts": [(t(title), intima.bars(runs, intervals, [name], by_category=True)) for name, title in classes],
        "trait_chart": intima.bars(runs, intervals, list(facts.INTIMA_TRAITS), by_category=False) if prompts else "",
        "rate_tables": [intima.heat_table(run, found) for run, found in with_intervals],
        "level_tables": [table for table in merged_tables if table],
        "labels": intima.label_bars(runs),
        "label_names": [(name.replace("_", "-"), t(title)) for name, title in facts.INTIMA_LABELS.items()],
        "judging": provenance.judging_table(runs),
        "settings": provenance.settings_table(runs),
        "clips_failed": clips.failed,
        "clips_embedded": len(clips.embedded),
        "clips_linked": sum(doc["a"][:1] not in ("", "#") for doc in data["air"]["docs"]),
        "copies": _copies,
        "version": __version__,
        "today": datetime.now(timezone.utc).date().isoformat(),
        "bibtex": "\n".join(_bibtex(name) for name in facts.TITLES if any(run.has(name) for run in runs)),
    }


def _copies(table: Table) -> Markup:
    """Returns a table in the forms that its buttons copy."""
    forms = (("Markdown", formats.to_markdown), ("LaTeX", formats.to_latex), ("CSV", formats.to_sheet))
    return samples.script_json({name: form(table) for name, form in forms})


def _bibtex(benchmark: str) -> str:
    """Returns the citation of a benchmark, from the README beside its tasks."""
    readme = _HERE.parent / benchmark.replace("air_bench", "airbench") / "README.md"
    try:
        found = re.search(r"```(?:bibtex)?\n(@.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    except OSError:
        return ""
    return found[1] if found else ""
