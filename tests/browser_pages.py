"""Reports in a real browser (Debian's chromium and chromium-driver); for two files of tests."""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from report_runs import make, write_run

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
NEEDS_BROWSER = [
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER),
        reason="no chromium with chromedriver here (Debian: apt install chromium chromium-driver)",
    ),
    pytest.mark.xdist_group("browser"),
]
"""Marks of the files whose tests share one browser and its pages."""

WIDE, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """A browser with a profile of its own."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (pip install '.[test]')")
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


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that makes a report to look at, once: of one run, of several, of a hostile one, of many samples."""
    root = tmp_path_factory.mktemp("reports")
    usual = {"air": 80, "intima": 62, "foundation": 40, "audio": root / "clips"}

    @functools.cache
    def one() -> Path:
        run = write_run(root / "1", "listener-a", **usual)
        [results] = run.rglob("results_*.json")
        content = json.loads(results.read_text(encoding="utf-8"))
        template = "[{mark} ]{meta_info}|XQuestionX|{answer_1}|XAssistant2X"
        prompt = {"system": "Be fair.", "template": template, "re_ask": "x"}
        for config in content["configs"].values():
            config["metadata"].get("judging", {})["judge_prompt"] = prompt
        results.write_text(json.dumps(content), encoding="utf-8")
        return run

    @functools.cache
    def two() -> Path:
        return write_run(root / "2", "listener-b", seed=2, skill=8, **usual)

    @functools.cache
    def other(n: int) -> Path:
        return write_run(root / f"e{n}", f"listener-{n}", air=80, intima=62, seed=n, skill=4 + n / 2)

    def hostile() -> Path:
        return write_run(root / "3", "<svg onload=alert(1)>" + "x" * 90, air=20, intima=31, hostile=True)

    def twin(name: str) -> Path:
        return write_run(root / name, "demo-listener" * 3, air=16, date=f"2026-11-30T14-5{name}-10.1")

    arguments = {
        "twins": lambda: [twin("5"), twin("6")],
        "one": lambda: [one()],
        "two": lambda: [one(), two()],
        "hostile": lambda: [hostile(), two()],
        "embedded": lambda: [one(), "--embed-audio"],
        "many": lambda: [write_run(root / "4", "listener-c", air=2200, intima=368)],
        **{f"of {n}": lambda n=n: list(map(other, range(n))) for n in (3, 6, 8)},
    }

    @functools.cache
    def made(name: str) -> Path:
        (root / name).mkdir()  # which the clips are not in
        output = root / name / "page.html"
        assert make(*arguments[name](), "-o", output) == 0
        return output

    return made


@pytest.fixture
def show(browser, page_of: Callable[[str], Path]) -> Callable[..., None]:
    """Opens a page at a size and waits for its script."""

    def open_page(name: str, size: tuple[int, int] = WIDE) -> None:
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 700}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(page_of(name).as_uri())
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
