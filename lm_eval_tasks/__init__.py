"""Judged benchmarks for lm-evaluation-harness: AIR-Bench-Chat (audio) and INTIMA (attachment)."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"

INCLUDE_PATH = Path(__file__).parent
"""The folder to pass to ``lm_eval --include_path``."""
