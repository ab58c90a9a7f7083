"""The package's layers: imports point down, none goes round, and lm-eval's private names stay in one file."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import inspect
import textwrap
from collections.abc import Iterator

import grimp
import pytest

from lm_eval_tasks import INCLUDE_PATH

PACKAGE = "lm_eval_tasks"

LAYERS = [
    {"cli"},
    {"commands"},
    {"report", "demo", "models"},
    {"utils"},  # the hooks that YAML files name; no module imports it
    {"air_bench_foundation", "airbench_chat", "intima"},
    {"harness"},
    {"runs"},
    {"judge"},
    {"server"},
    {"data"},
    {"audio"},
    {"settings"},
    {"option_names"},
    {"errors", "files"},
    {"harness.compat"},  # imports lm-eval alone, so that every layer may use it
    {""},  # the package itself: its version and its folder
]
"""From the top down. A module imports what stands below its layer, or in its own room."""

EXTENSION_POINTS = {
    "lm_eval": {"simple_evaluate"},
    "lm_eval.api.group": {"Group"},
    "lm_eval.api.instance": {"Instance"},
    "lm_eval.api.model": {"LM"},
    "lm_eval.api.registry": {"get_model", "model_registry", "register_model"},
    "lm_eval.api.task": {"ConfigurableTask", "Task"},
    "lm_eval.models": set(),
    "lm_eval.models.huggingface": {"HFLM"},
    "lm_eval.models.openai_completions": {"LocalChatCompletion"},
    "lm_eval.tasks": {"TaskManager"},
}
"""What lm-eval is extended with; all else of it is imported by ``harness/compat.py`` alone."""

EXTENDED = [
    "lm_eval.api.group.Group",
    "lm_eval.api.model.LM",
    "lm_eval.api.task.ConfigurableTask",
    "lm_eval.models.openai_completions.LocalChatCompletion",
]
"""The classes whose private attributes nobody else may use."""

COMPAT = INCLUDE_PATH / "harness" / "compat.py"
OTHERS = sorted(path for path in INCLUDE_PATH.rglob("*.py") if path != COMPAT)


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """Module -> the package's modules that it imports, also those that only a type checker sees."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def room(module: str) -> str:
    """The layer's name of a module: a file or folder below the package, "" for the package itself."""
    name = module.removeprefix(PACKAGE).removeprefix(".")
    return name if name == "harness.compat" else name.split(".")[0]


def test_every_module_has_a_layer_and_imports_point_down(imports):
    assert {room(module) for module in imports} <= set().union(*LAYERS)
    depth = {name: number for number, rooms in enumerate(LAYERS) for name in rooms}
    pairs = [(importer, imported) for importer, found in imports.items() for imported in found]
    across = [(one, other) for one, other in pairs if room(one) != room(other)]
    assert [f"{one} -> {other}" for one, other in across if depth[room(one)] >= depth[room(other)]] == []
    assert not [module for module, found in imports.items() if f"{PACKAGE}.utils" in found]  # YAML files name it alone
    assert imports[f"{PACKAGE}.harness.compat"] == set()


def test_no_import_goes_round(imports):
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@functools.cache
def private_names() -> set[str]:
    """Every attribute with a leading underscore that lm-eval's classes set, define or read on themselves."""
    found = set()
    for path in EXTENDED:
        module, _, name = path.rpartition(".")
        for cls in getattr(importlib.import_module(module), name).__mro__:
            if cls.__module__.startswith("lm_eval."):
                tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
                found |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} | set(vars(cls))
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def used(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that is private to lm-eval, or imported from where it may change."""
    private = private_names()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            bad = [alias.name for alias in node.names if is_lm_eval(alias.name) and alias.name not in EXTENSION_POINTS]
        elif isinstance(node, ast.ImportFrom) and is_lm_eval(node.module or ""):
            allowed = EXTENSION_POINTS.get(node.module, set())
            bad = [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in allowed]
        elif isinstance(node, ast.Attribute):
            bad = [node.attr] if node.attr in private else []
        elif isinstance(node, ast.Constant):  # getattr(task, "_instances")
            bad = [node.value] if isinstance(node.value, str) and node.value in private else []
        elif isinstance(node, ast.FunctionDef):
            bad = [node.name] if node.name in private else []
        elif isinstance(node, ast.keyword):
            bad = [node.arg] if node.arg in private else []
        else:
            continue
        yield from ((getattr(node, "lineno", 0), name) for name in bad)


def is_lm_eval(module: str) -> bool:
    return module.split(".")[0] == "lm_eval"


def test_private_names_are_found_in_each_of_their_forms():
    assert {"_instances", "_filters", "_metric_fn_list", "_config", "_concurrent", "_create_payload"} < private_names()
    code = """
from lm_eval._cli import HarnessCLI
from lm_eval.utils import make_table
from lm_eval.tasks import TaskManager
import lm_eval.loggers
self._instances = getattr(task, "_filters")
Group(_config=1)
def _create_payload(self): pass
"""
    names = {name for _, name in used(ast.parse(code))}
    assert names == {
        *("lm_eval._cli.HarnessCLI", "lm_eval.utils.make_table", "lm_eval.loggers"),
        *("_instances", "_filters", "_config", "_create_payload"),
    }


def test_lm_evals_private_names_stay_in_compat():
    found = {path.name: list(used(ast.parse(path.read_text(encoding="utf-8")))) for path in OTHERS}
    assert {name: names for name, names in found.items() if names} == {}
