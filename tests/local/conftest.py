"""Tiny checkpoints, made once. These tests need torch: ``make test-local`` runs them, ``make test`` skips them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
collect_ignore_glob = [] if HAS_TORCH else ["test_*.py"]

if HAS_TORCH:
    import torch

    from lm_eval_tasks.models.local import HFAudio
    from local import checkpoints


@pytest.fixture(scope="session", autouse=True)
def no_hub() -> Iterator[None]:
    """Nothing may be looked for on a hub."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        torch.set_num_threads(1)  # several get in each other's way on models this small
        yield


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function from a family, and what is special about it, to the folder of its checkpoint."""
    made: dict[Any, Path] = {}

    def find(family: str = "qwen2_audio", **special: Any) -> Path:
        key = family, *sorted(special.items())
        if key not in made:
            folder = tmp_path_factory.mktemp(family) / "checkpoint"
            made[key] = checkpoints.make(folder, family, **special)
        return made[key]

    return find


@pytest.fixture
def load(checkpoint: Callable[..., Path]) -> Callable[..., HFAudio]:
    """A function that loads a tiny checkpoint on the CPU, by family or by path."""

    def load(family: str | Path = "qwen2_audio", *, special: dict[str, Any] | None = None, **options: Any) -> HFAudio:
        path = family if isinstance(family, Path) else checkpoint(family, **(special or {}))
        return HFAudio(str(path), **{"device": "cpu", "dtype": "float32", **options})

    return load
