"""Puts the report together: one HTML file in every language, which needs neither network nor server.

The page forbids itself the network by its Content-Security-Policy, runs the one script whose digest the policy names,
and shows text from runs only through Jinja's autoescape or the DOM's textContent.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from lm_eval_tasks import __version__
from lm_eval_tasks.report import airbench, caveats, charts, compare, facts, formats, intima, samples, texts
from lm_eval_tasks.report.clips import Clips
from lm_eval_tasks.report.records import Run
from lm_eval_tasks.report.table import Table
from lm_eval_tasks.runs.plain import text

_HERE = Path(__file__).parent
_SCRIPTS = ("core.js", "share.js", "browser.js", "views.js")
_STYLES = ("report.css", "browser.css")

# Everything is escaped, and a name that is not given is an error.
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_HERE / "templates", encoding="utf-8"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {"breakable": lambda name: Markup("_<wbr>").join(name.split("_")), "words": text}
_TEMPLATES.globals |= {"t": texts.t, "hue": charts.hue}


def to_html(runs: list[Run], report: Path, room: int = 0, language: str = "en") -> tuple[str, Clips]:
    """The page, and what became of the clips.

    Args:
        runs: in the order in which they get their colours; later ones are compared with the first.
        report: the file that the page will be, from which links to clips start.
        room: bytes that clips may take in the page; 0 stores none.
        language: the one that the page opens in.
    """
    clips = Clips(report, room)
    script = "\n".join(['"use strict";', "(() => {", *(_static(name) for name in _SCRIPTS), "})();"])
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    data = _data(runs, clips)
    data["words"] = {english: other for english, other in texts.chinese().items() if len(english) <= 80}
    bodies = {}
    for name in dict.fromkeys([language, *texts.LANGUAGES]):
        with texts.language(name):
            bodies[name] = Markup(_TEMPLATES.get_template("body.html.j2").render(_context(runs, clips, data)))
    page = _TEMPLATES.get_template("page.html.j2").render(
        bodies=bodies,
        title=" · ".join(run.label for run in runs) if len(runs) < 3 else f"{len(runs)} runs",
        benchmarks=[title for name, title in facts.TITLES.items() if any(run.has(name) for run in runs)],
        data=samples.script_json(data),
        clips=samples.script_json(clips.embedded) if clips.embedded else None,
        script=Markup(script),
        digest=digest,
        style=Markup("\n".join(map(_static, _STYLES))),
    )
    return page, clips


def _static(name: str) -> str:
    return (_HERE / "static" / name).read_text(encoding="utf-8")


def _data(runs: list[Run], clips: Clips) -> dict[str, Any]:
    """What the page's script reads: the samples of each benchmark."""
    out: dict[str, Any] = {"flags": facts.FLAGS, "places": facts.INTIMA_PLACES}
    out["names"] = [facts.METRIC_TITLES[metric] for metric in facts.INTIMA_METRICS]
    for name in facts.TITLES:
        there = [(place, run) for place, run in enumerate(runs) if run.has(name)]
        legend = [{"label": run.label, "series": place, "prompt": samples.prompt_of(run, name)} for place, run in there]
        out[facts.SHORT[name]] = {"runs": legend, "docs": samples.docs(name, [run for _, run in there], clips)}
    return out


def _context(runs: list[Run], clips: Clips, data: dict[str, Any]) -> dict[str, Any]:
    """What the body prints, in the language of now."""
    tables = defaultdict(list)
    for table in formats.all_tables(runs):
        tables[table.key].append(table)
    hero, ours = None, [row.cells for board in tables["air_leaderboard"] for row in board.rows if row.kind == "ours"]
    if len(ours) == 1 and any(cell.value is not None for cell in ours[0]):
        *others, average = zip(map(texts.t, facts.LEADERBOARD), ours[0][:-1], strict=True)
        hero = [average, *others]
    merged: dict[str, list[str]] = {}
    for label, sentence in caveats.warnings(runs):
        merged.setdefault(sentence, []).append(label)
    there = [name for name in facts.TITLES if any(run.has(name) for run in runs)]
    docs = {name: data[facts.SHORT[name]]["docs"] for name in facts.TITLES}
    return {
        "runs": runs,
        "tables": tables,
        "warnings": merged,
        "titles": {name: facts.TITLES[name] for name in there},
        "official_judge": facts.OFFICIAL_JUDGE,
        "hero": hero,
        "category_chart": airbench.category_chart(runs),
        "spreads": airbench.spreads(runs),
        "comparisons": compare.comparisons(runs),
        "samples": {name: len(docs) for name, docs in docs.items()},
        "class_charts": intima.class_charts(runs),
        "trait_chart": intima.trait_chart(runs),
        "labels": intima.label_bars(runs),
        "label_names": facts.INTIMA_LABELS,
        "clips": clips,
        "clips_linked": sum(doc.get("a", "")[:1] not in ("", "#") for found in docs.values() for doc in found),
        "copies": _copies,
        "version": __version__,
        "today": datetime.now(timezone.utc).date().isoformat(),
        "bibtex": "\n".join(dict.fromkeys(filter(None, map(_bibtex, there)))),
    }


def _copies(table: Table) -> Markup:
    """A table in the forms that its buttons copy."""
    forms = (("Markdown", formats.to_markdown), ("LaTeX", formats.to_latex), ("CSV", formats.to_sheet))
    return samples.script_json({name: form(table) for name, form in forms})


def _bibtex(benchmark: str) -> str:
    """The citation of a benchmark, from the README beside its tasks."""
    readme = _HERE.parent / benchmark.replace("air_bench_chat", "airbench_chat") / "README.md"
    try:
        found = re.search(r"```(?:bibtex)?\n(@.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    except OSError:
        return ""
    return found[1] if found else ""
