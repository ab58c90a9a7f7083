"""What is packed and what is declared: every file of the package, and every package that it imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from lm_eval_tasks import INCLUDE_PATH

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = INCLUDE_PATH.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NO_SOURCE = {"__pycache__", "build", "dist", "out"}
"""Folders of a checkout that are no sources."""

IF_THERE = {"torch"}
"""Used where a user has it; the import stands in a ``try``."""

pytestmark = pytest.mark.xdist_group("packaging")  # one process builds


def declared(requirements: list[str]) -> set[str]:
    """The modules that some requirements bring; a distribution's name is its module's, but for dashes, case and two."""
    names = {Requirement(text).name.lower().replace("-", "_") for text in requirements}
    return {{"pyyaml": "yaml", "scikit_learn": "sklearn"}.get(name, name) for name in names}


def imported() -> dict[str, set[str]]:
    """Top-level module that is not Python's own -> the files that import it."""
    found: dict[str, set[str]] = {}
    for path in INCLUDE_PATH.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {INCLUDE_PATH.name}:
                found.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    return found


def test_every_imported_package_is_declared():
    extras = [declared(found) for extra, found in PROJECT["optional-dependencies"].items() if extra != "test"]
    known = declared(PROJECT["dependencies"]) | IF_THERE.union(*extras)
    assert {name: files for name, files in imported().items() if name not in known} == {}


def test_every_declared_package_is_imported():
    assert declared(PROJECT["dependencies"]) <= set(imported())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``dist`` (an sdist and the wheel made from it) and ``direct`` (a wheel made from the sources).

    The sources are a copy without git's folder and without what a build left behind.
    """
    folder = tmp_path_factory.mktemp("packed")
    _copy(ROOT, folder / "source")
    build = [sys.executable, "-m", "build", "--no-isolation", str(folder / "source"), "--outdir"]  # without a network
    for command in ([*build, str(folder / "dist")], [*build, str(folder / "direct"), "--wheel"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder


def _copy(source: Path, target: Path) -> None:
    for path in sorted(source.iterdir()):
        if path.name in NO_SOURCE or path.name.endswith(".egg-info") or (path.name[0] == "." and path.name != ".ci"):
            continue
        if path.is_dir():
            _copy(path, target / path.name)
        else:
            target.mkdir(parents=True, exist_ok=True)
            (target / path.name).write_bytes(path.read_bytes())


def content(wheel: Path) -> dict[str, bytes]:
    """Name -> bytes of the package's files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.startswith(f"{INCLUDE_PATH.name}/")}


def test_a_wheel_holds_every_file_of_the_package(built):
    (wheel,) = (built / "direct").glob("*.whl")
    package = built / "source" / INCLUDE_PATH.name
    expected = {p.relative_to(built / "source").as_posix(): p.read_bytes() for p in package.rglob("*") if p.is_file()}
    assert content(wheel) == expected
    assert f"{INCLUDE_PATH.name}/airbench_chat/_group_template_yaml" in expected


def test_the_wheel_made_from_the_sdist_is_the_same(built):
    (direct,), (from_sdist,) = (built / "direct").glob("*.whl"), (built / "dist").glob("*.whl")
    assert content(direct) == content(from_sdist)


def test_the_sdist_holds_what_its_own_tests_need(built):
    (sdist,) = (built / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tests = {f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py")}
    assert tests | {"Makefile", ".ci/run", "README.zh-CN.md", "scripts/install_system_packages.sh"} <= names


def test_the_index_page_has_no_links_that_lead_nowhere():
    """A package index shows README.md alone: what it links to must be absolute, or a heading of the page itself."""
    text = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", text)
    relative = [target for target in targets if not re.match("https?://|#", target)]
    assert relative == ["README.zh-CN.md", "docs/report.png"]  # the other language and the picture: for a checkout


def test_an_lm_eval_that_does_not_fit_is_told_which_one_does():
    code = "import lm_eval.utils as utils; del utils.info_once; import lm_eval_tasks.harness.compat"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    needed = next(one for one in map(Requirement, PROJECT["dependencies"]) if one.name == "lm-eval")
    told = done.stderr.splitlines()[-1]
    assert done.returncode and told.startswith("ImportError: lm-eval-tasks works with lm-eval>=")
    for bound in needed.specifier:
        assert str(bound) in told
