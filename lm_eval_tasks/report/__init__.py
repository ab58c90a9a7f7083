"""The report of finished runs: one HTML file to look at, or its tables as Markdown, LaTeX or CSV."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

_SUFFIXES = {".html": "html", ".htm": "html", ".md": "markdown", ".tex": "latex", ".csv": "csv"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the `report` command."""
    parser.add_argument(
        "run_dirs",
        metavar="RUN_DIR",
        nargs="+",
        type=Path,
        help="folder given to lm_eval as --output_path, or the model's folder in it, of which the newest results are "
        "read; or one results_<date>.json file, for results that are not the newest. "
        "With several, each further run is compared with the first",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="file to write, in a folder that exists; its name may choose the format (.html, .md, .tex, .csv) "
        "(default: report.html; other formats and single tables go to the standard output)",
    )
    parser.add_argument(
        "--format",
        choices=("html", "markdown", "latex", "csv"),
        help="what to write (default: by the name of -o, else html)",
    )
    parser.add_argument(
        "--table",
        choices=("leaderboard", "categories", "foundation", "differences", "intima", "judging"),
        help="write this part alone, as Markdown unless --format or -o says otherwise",
    )
    parser.add_argument(
        "--language",
        choices=("en", "zh"),
        default="en",
        help="of the tables, and the one that the page opens in; it holds both (default: %(default)s)",
    )
    parser.add_argument(
        "--embed-audio",
        metavar="MB",
        nargs="?",
        type=float,
        const=100,
        help="store the clips in the HTML file, so that it can be passed on alone: up to so many megabytes (default: "
        "100), beyond that those of the lowest, highest, most different and unjudged samples",
    )
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Writes the report that the options ask for; returns the status to exit with.

    Raises:
        ValueError: a folder is not a finished run, or the options do not fit together; one line with the remedy.
    """
    # What draws is imported when it is needed, so that the other commands start at once.
    from lm_eval_tasks.report.load import load_runs

    kind, output = _format(args), args.output
    if output is None and kind == "html":
        output = Path("report.html")
    if output is not None and not output.parent.is_dir():
        raise ValueError(
            f"the report can't be written to {output}: there is no folder {output.parent}; create it first"
        )
    runs = load_runs(args.run_dirs)
    for loaded in runs:
        for remark in [*loaded.notes, *loaded.damaged[:5]]:
            print(f"{loaded.label}: {remark}", file=sys.stderr)
        if len(loaded.damaged) > 5:
            print(f"{loaded.label}: {len(loaded.damaged)} lines could not be used", file=sys.stderr)
    if kind == "html":
        from lm_eval_tasks.report.page import to_html

        content, clips = to_html(runs, output, int((args.embed_audio or 0) * 2**20), args.language)
        for reason, count in clips.failed.items():
            print(f"{count} samples have no player: {reason}", file=sys.stderr)
    else:
        from lm_eval_tasks.report import formats, texts

        with texts.language(args.language):
            content = formats.to_text(kind, runs, args.table)
    data = content.encode("utf-8")
    if output is None or str(output) == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return 0
    try:
        output.write_bytes(data)
    except OSError as error:
        raise ValueError(
            f"the report can't be written to {output} ({error.strerror}): name another file with -o"
        ) from error
    print(f"Report written to {output}" + (f" ({len(data) / 2**20:.1f} MB)" if kind == "html" else ""))
    return 0


def _format(args: argparse.Namespace) -> str:
    """The format to write, and refuses options that do not fit together."""
    named = _SUFFIXES.get(args.output.suffix.lower()) if args.output else None
    if args.format and named and args.format != named:
        raise ValueError(f"--format {args.format} does not fit the name {args.output}: leave one of the two out")
    kind = args.format or named or ("markdown" if args.table else "html")
    if args.table and kind == "html":
        raise ValueError("--table is written as markdown, latex or csv, not as html: leave one of the two out")
    if args.embed_audio is not None and kind != "html":
        raise ValueError(f"--embed-audio fits --format html only, not {kind}: leave one of the two out")
    if args.embed_audio is not None and not 0 < args.embed_audio <= 350:
        raise ValueError("--embed-audio takes megabytes above 0 and up to 350, which is what browsers open")
    return kind
