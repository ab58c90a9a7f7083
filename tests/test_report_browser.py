"""The report in a real browser (Debian's chromium and chromium-driver); skipped where there is none."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from report_runs import HOSTILE, write_run

from lm_eval_tasks import report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (pip install '.[test]')")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="no chromium with chromedriver here (Debian: apt install chromium chromium-driver)",
)

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
    driver.set_script_timeout(20)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports to look at: a single run, two runs, a hostile one, clips in the page, many samples."""
    root = tmp_path_factory.mktemp("reports")
    (root / "far").mkdir()
    one = write_run(root / "1", "listener-a", air=80, intima=62, audio=root / "clips")
    two = write_run(root / "2", "listener-b", air=80, intima=62, seed=2, skill=8, audio=root / "clips")
    hostile = write_run(root / "3", "<svg onload=alert(1)>" + "x" * 90, air=20, intima=31, hostile=True)
    many = write_run(root / "4", "listener-c", air=2200, intima=368)
    twins = [write_run(root / name, "demo-listener" * 3, air=16, date=f"2026-11-30T14-5{name}-10.1") for name in "56"]
    return {
        "twins": _make(root / "twins.html", *twins),
        "one": _make(root / "one.html", one),
        "two": _make(root / "two.html", one, two),
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


def _set(browser, root: str, name: str, value: str) -> tuple[int, float]:
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


def _search(browser, root: str, words: str) -> int:
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


def test_opens_without_a_complaint_and_without_asking_for_anything(browser, show) -> None:
    show("one")
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in fetched if not name.startswith(("file:", "data:"))] == []
    assert browser.execute_script("return document.querySelectorAll('svg.chart title').length") > 20


def test_filters_by_task_outcome_and_text(browser, show) -> None:
    show("one")
    root = "browser-air"
    everything = int(browser.execute_script("return document.getElementById('browser-air').dataset.shown"))
    assert everything >= 80
    task, _ = _set(browser, root, "task", "sound_QA")
    assert 0 < task < everything
    parts = [_set(browser, root, "outcome", value)[0] for value in ("win", "tie", "loss", "unjudged")]
    assert sum(parts) == task
    for name in ("task", "outcome"):
        _set(browser, root, name, "")
    assert _search(browser, root, "no such words anywhere") == 0
    assert browser.execute_script("return document.querySelector('#browser-air [data-part=empty]').offsetHeight") > 0
    found = _search(browser, root, "ROOF rain")
    assert 0 < found <= everything
    assert _set(browser, "browser-intima", "label", "boundary")[0] > 0


def test_keys_walk_through_the_list_and_the_sample_is_shown_whole(browser, show) -> None:
    show("one")
    shown = browser.execute_script(
        """const list = document.querySelector("#browser-air [data-part=list]");
        for (let n = 0; n < 3; n++) list.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown" }));
        const pane = document.querySelector("#browser-air [data-part=detail]");
        return [pane.innerText, list.querySelector("[aria-selected=true]").getAttribute("aria-posinset")];"""
    )
    assert shown[1] == "4"
    for words in ("Reference answer", "Audio description", "Both verdicts", "reference first", "tokens"):
        assert words in shown[0]


@pytest.mark.parametrize("page", ["one", "embedded"])
def test_plays_a_clip(browser, show, page: str) -> None:
    show(page)
    seconds, played = browser.execute_async_script(
        """const done = arguments[0];
        const audio = document.querySelector("#browser-air audio");
        audio.addEventListener("error", () => done([-1, -1]));
        audio.addEventListener("timeupdate", () => {
          if (audio.currentTime > 0.05) done([audio.duration, audio.currentTime]);
        });
        audio.muted = true;
        audio.play();"""
    )
    assert seconds == pytest.approx(0.5, abs=0.02)
    assert played > 0


def test_compares_two_runs_and_opens_a_doc_that_changed(browser, show) -> None:
    show("two")
    text = browser.execute_script("return document.getElementById('compare').innerText")
    assert "listener-b minus listener-a" in " ".join(text.split())
    assert "Rose most" in text
    links = browser.execute_script("return document.querySelectorAll('.changes a').length")
    assert links > 8
    browser.execute_script("document.querySelector('.changes a').click()")
    cards = browser.execute_async_script(
        """const done = arguments[0], names = () => document.querySelectorAll("#browser-air .answer header b");
        setTimeout(() => done([...names()].map((b) => b.textContent)), 300);"""
    )
    assert cards == ["listener-a", "listener-b"]


def test_a_hostile_sample_stays_text(browser, show) -> None:
    show("hostile")
    assert browser.title != "pwned"
    answer = browser.execute_script(
        """return [document.querySelector("#browser-air .answer .prose").textContent,
                   document.querySelectorAll("img, svg:not(.chart), iframe, object, embed, [onload], [onerror]").length,
                   document.querySelectorAll("script:not([type])").length];"""
    )
    assert answer == [HOSTILE, 0, 1]
    browser.execute_script("window.asked = 0; window.alert = () => { window.asked++; };")
    for key in ("ArrowDown", "ArrowUp"):
        browser.execute_script(
            """document.querySelector("#browser-air [data-part=list]").dispatchEvent(
                 new KeyboardEvent("keydown", { key: arguments[0] }));""",
            key,
        )
    assert browser.execute_script("return window.asked") == 0
    assert [entry["message"] for entry in browser.get_log("browser") if entry["source"] == "security"] == []


@pytest.mark.parametrize("page", ["one", "two", "hostile", "many"])
@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["phone", "wide"])
def test_nothing_overflows(browser, show, page: str, size: tuple[int, int]) -> None:
    show(page, size)
    wide = browser.execute_script(
        """const limit = document.documentElement.clientWidth, out = [];
        document.querySelector("#browser-air .row")?.click();
        document.querySelector("#browser-intima .row")?.click();
        for (const node of document.querySelectorAll("body *")) {
          if (node.closest(".scroll, .links, svg") || !node.offsetParent) continue;
          const box = node.getBoundingClientRect();
          if (box.right > limit + 1 || box.left < -1) out.push(node.tagName + "." + node.className + " " + box.right);
        }
        for (const pane of document.querySelectorAll(".pane, .list")) {
          if (pane.scrollWidth > pane.clientWidth + 1) out.push(pane.className + " scrolls sideways");
        }
        return [document.documentElement.scrollWidth - limit, out];"""
    )
    assert wide == [0, []]


def test_on_a_phone_the_word_between_two_runs_stays_whole(browser, show) -> None:
    show("twins", PHONE)
    lines = browser.execute_script(
        """const range = document.createRange();
        range.selectNodeContents(document.querySelector("h1 .versus"));
        return range.getClientRects().length;"""
    )
    assert lines == 1


def test_on_a_phone_a_sample_opens_as_a_sheet_and_closes_again(browser, show) -> None:
    show("one", PHONE)
    state = """const pane = document.querySelector("#browser-air .pane").getBoundingClientRect();
               return [pane.width, pane.height];"""
    assert browser.execute_script(state) == [0, 0]
    browser.execute_script("document.querySelector('#browser-air .row').click()")
    assert browser.execute_script(state) == [PHONE[0], PHONE[1]]
    browser.execute_script("document.querySelector('#browser-air [data-part=back]').click()")
    assert browser.execute_script(state) == [0, 0]


def test_thousands_of_samples_are_usable_in_two_seconds_and_filter_in_a_tenth(browser, show) -> None:
    show("many")
    assert float(browser.execute_script("return document.documentElement.dataset.ready")) < 2000
    assert browser.execute_script("return document.querySelectorAll('#browser-air .row').length") < 40
    root = "browser-air"
    for name, value in (("task", "music_QA"), ("outcome", "loss"), ("task", ""), ("sort", "1"), ("outcome", "")):
        shown, took = _set(browser, root, name, value)
        assert shown > 0
        assert took < 100
    assert 0 < _search(browser, root, "waltz engine") < 2200
    assert float(browser.execute_script("return document.getElementById('browser-air').dataset.ms")) < 100


def test_colours_follow_the_button(browser, show) -> None:
    show("one")
    paint = "return getComputedStyle(document.body).backgroundColor"
    press = "document.getElementById('theme').click(); " + paint
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    auto = browser.execute_script(paint)
    light, dark = browser.execute_script(press), browser.execute_script(press)
    assert light != dark == auto
    browser.execute_script(press)
