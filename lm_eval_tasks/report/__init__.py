"""The report of finished runs: one HTML file to look at, or its tables as Markdown or CSV."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


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
        help="file to write, in a folder that exists "
        "(default: report.html; Markdown and CSV go to the standard output)",
    )
    parser.add_argument(
        "--format", choices=("html", "markdown", "csv"), default="html", help="what to write (default: %(default)s)"
    )
    parser.add_argument(
        "--embed-audio", action="store_true", help="store the clips in the HTML file, so that it can be passed on alone"
    )


def run(args: argparse.Namespace) -> int:
    """Writes the report that the options ask for; returns the status to exit with.

    Raises:
        ValueError: a folder is not a finished run, or the options do not fit together; one line with the remedy.
    """
    # What draws is imported when it is needed, so that the other commands start at once.
    from lm_eval_tasks.report.load import load_runs

    if args.embed_audio and args.format != "html":
        raise ValueError(f"--embed-audio fits --format html only, not {args.format}: leave one of the two out")
    output = args.output or (Path("report.html") if args.format == "html" else None)
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
    if args.format == "html":
        _write_html(runs, output, args.embed_audio)
        return 0
    from lm_eval_tasks.report.tables import to_csv, to_markdown

    content = to_markdown(runs) if args.format == "markdown" else to_csv(runs)
    if output is None or str(output) == "-":
        sys.stdout.buffer.write(content.encode("utf-8"))
        sys.stdout.flush()
    else:
        _write(output, content)
        print(f"Report written to {output}")
    return 0


def _write_html(runs: list[Any], output: Path, embed_audio: bool) -> None:
    from lm_eval_tasks.report.render import to_html

    page, clips = to_html(runs, output, embed_audio)
    for reason, count in clips.failed.items():
        print(f"{count} samples have no player: {reason}", file=sys.stderr)
    size = _write(output, page)
    print(f"Report written to {output} ({size / 2**20:.1f} MB)")


def _write(file: Path, content: str) -> int:
    """Writes a file as UTF-8 and returns its size in bytes."""
    data = content.encode("utf-8")
    try:
        file.write_bytes(data)
    except OSError as error:
        raise ValueError(
            f"the report can't be written to {file} ({error.strerror}): name another file with -o"
        ) from error
    return len(data)
