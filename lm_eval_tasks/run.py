"""``lm_eval run`` with this pack's tasks and models at hand."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lm_eval_tasks import INCLUDE_PATH


def main(argv: Sequence[str]) -> int:
    """Run the stock command line; returns 0, or raises what lm_eval raises."""
    from lm_eval.__main__ import cli_evaluate

    import lm_eval_tasks.replay  # noqa: F401 - registers its model

    sys.argv = ["lm_eval", "run", *argv, "--include_path", str(INCLUDE_PATH)]
    cli_evaluate()
    return 0
