"""Reports in a real browser (Debian's chromium and chromium-driver); for two files of tests."""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from report_runs import write_run

from lm_eval_tasks import report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (pip install '.[test]')")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
)
WIDE, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """A browser with a profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(DRIVER, env={**os.environ, "HOME": str(tmp_path_factory.mktemp("home"))})
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_script_timeout(55)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports to look at: a single run, two runs, a hostile one, clips in the page, many samples."""
    root = tmp_path_factory.mktemp("reports")
    (root / "far").mkdir()
    one = write_run(root / "1", "listener-a", air=80, intima=62, foundation=40, audio=root / "clips")
    [results] = (root / "1").rglob("results_*.json")
    content = json.loads(results.read_text(encoding="utf-8"))
    prompt = {
        "system": "Be fair.",
        "template": "[{mark} ]{meta_info}|XQuestionX|{answer_1}|XAssistant2X",
        "re_ask": "x",
    }
    for config in content["configs"].values():
        config["metadata"].get("judging", {})["judge_prompt"] = prompt
    results.write_text(json.dumps(content), encoding="utf-8")
    two = write_run(root / "2", "listener-b", air=80, intima=62, foundation=40, seed=2, skill=8, audio=root / "clips")
    hostile = write_run(root / "3", "<svg onload=alert(1)>" + "x" * 90, air=20, intima=31, hostile=True)
    many = write_run(root / "4", "listener-c", air=2200, intima=368)
    others = [write_run(root / f"e{n}", f"listener-{n}", air=80, intima=62, seed=n, skill=4 + n / 2) for n in range(8)]
    twins = [write_run(root / name, "demo-listener" * 3, air=16, date=f"2026-11-30T14-5{name}-10.1") for name in "56"]
    return {
        "twins": _make(root / "twins.html", *twins),
        "one": _make(root / "one.html", one),
        "two": _make(root / "two.html", one, two),
        **{f"of {n}": _make(root / f"of{n}.html", *others[:n]) for n in (3, 6, 8)},
        "hostile": _make(root / "hostile.html", hostile, two),
        "embedded": _make(root / "far" / "embedded.html", one, "--embed-audio"),
        "many": _make(root / "many.html", many),
    }


def _make(output: Path, *arguments: object) -> Path:
    parser = argparse.ArgumentParser()
    report.add_arguments(parser)
    assert report.run(parser.parse_args([*map(str, arguments), "-o", str(output)])) == 0
    return output


@pytest.fixture
def show(browser, pages: dict[str, Path]) -> Callable[..., None]:
    """Opens a page at a size and waits for its script."""

    def open_page(name: str, size: tuple[int, int] = WIDE) -> None:
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 700}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(pages[name].as_uri())
        assert browser.execute_script("return document.documentElement.dataset.ready"), browser.get_log("browser")

    return open_page


def set_filter(browser, root: str, name: str, value: str) -> tuple[int, float]:
    """Sets a filter; returns how many samples are left and the milliseconds that took."""
    shown, took = browser.execute_script(
        """const root = document.getElementById(arguments[0]);
        const node = root.querySelector(`[data-filter="${arguments[1]}"]`);
        node.value = arguments[2];
        node.dispatchEvent(new Event("change"));
        return [root.dataset.shown, root.dataset.ms];""",
        root,
        name,
        value,
    )
    return int(shown), float(took)


def search_for(browser, root: str, words: str) -> int:
    """Types into the search field, waits for its pause to pass, and returns how many samples are left."""
    return int(
        browser.execute_async_script(
            """const [id, words, done] = arguments;
            const root = document.getElementById(id), field = root.querySelector("input[type=search]");
            field.value = words;
            field.dispatchEvent(new Event("input"));
            setTimeout(() => done(root.dataset.shown), 400);""",
            root,
            words,
        )
    )


def open_key(browser) -> str:
    """The key of the sample that is open."""
    chosen = "return document.querySelector('#browser-air [aria-selected=true]').id"
    return browser.execute_script(chosen).removeprefix("browser-air-")
