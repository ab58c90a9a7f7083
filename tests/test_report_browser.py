"""The report in a real browser (Debian's chromium and chromium-driver); skipped where there is none."""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
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


def _key(browser) -> str:
    """The key of the sample that is open."""
    chosen = "return document.querySelector('#browser-air [aria-selected=true]').id"
    return browser.execute_script(chosen).removeprefix("browser-air-")


def test_opens_without_a_complaint_and_without_asking_for_anything(browser, show) -> None:
    show("one")
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in fetched if not name.startswith(("file:", "data:"))] == []
    assert browser.execute_script("return document.querySelectorAll('svg.chart title').length") > 20
    assert browser.execute_script("return document.querySelector('#page main .warnings') !== null")


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
    assert browser.execute_script("return document.querySelector('#browser-air article').children.length") == 0
    found = _search(browser, root, "ROOF rain")
    assert 0 < found <= everything
    assert _set(browser, "browser-intima", "label", "boundary")[0] > 0


def test_keys_walk_through_the_list_and_the_sample_is_shown_whole(browser, show) -> None:
    show("one")
    shown = browser.execute_script(
        """const list = document.querySelector("#browser-air [data-part=list]");
        const press = () => list.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
        for (let n = 0; n < 3; n++) press();
        const pane = document.querySelector("#browser-air [data-part=detail]");
        return [pane.innerText, list.querySelector("[aria-selected=true]").getAttribute("aria-posinset")];"""
    )
    assert shown[1] == "4"
    assert browser.execute_script("return location.hash") == f"#air-doc-{_key(browser)}"
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
    assert "Largest gains" in text
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
                 new KeyboardEvent("keydown", { key: arguments[0], bubbles: true }));""",
            key,
        )
    assert browser.execute_script("return window.asked") == 0
    assert [entry["message"] for entry in browser.get_log("browser") if entry["source"] == "security"] == []


@pytest.mark.parametrize("page", ["one", "two", "of 3", "of 6", "of 8", "hostile", "many"])
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
        for (const row of document.querySelectorAll(".row")) {
          const box = row.getBoundingClientRect(), question = row.querySelector(".q").getBoundingClientRect();
          if (box.width && question.width < 60) out.push("no room for the question");
          for (const chip of row.querySelectorAll(".scores > *")) {
            const own = chip.getBoundingClientRect();
            const outside = own.right > box.right || own.bottom > box.bottom || own.top < box.top;
            if (outside) out.push("a chip leaves its row");
          }
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


def test_on_a_phone_buttons_and_escape_lead_from_sample_to_sample_and_back(browser, show) -> None:
    show("one", PHONE)
    browser.execute_script("document.querySelector('#browser-air .row').click()")
    first = _key(browser)
    browser.execute_script("document.querySelector('#browser-air [data-part=next]').click()")
    assert _key(browser) != first
    browser.execute_script("document.querySelector('#browser-air [data-part=previous]').click()")
    assert _key(browser) == first
    assert browser.execute_script("return location.hash") == f"#air-doc-{first}"
    press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}));"
    browser.execute_script(press)
    assert browser.execute_script("return document.querySelector('#browser-air .pane').offsetHeight") == 0
    assert browser.execute_script("return location.hash") == ""


def test_an_address_opens_its_sample(browser, show, pages) -> None:
    show("many")
    browser.execute_script("document.querySelectorAll('#browser-air .row')[5].click()")
    key = _key(browser)
    browser.get("about:blank")
    browser.get(f"{pages['many'].as_uri()}#air-doc-{key}")
    assert _key(browser) == key


def test_win_tie_and_loss_are_told_without_colour_and_the_mean_follows_the_filter(browser, show) -> None:
    show("one")
    for value, mark in (("win", "▲"), ("tie", "="), ("loss", "▼")):
        _set(browser, "browser-air", "outcome", value)
        chips = browser.execute_script(
            "return [...document.querySelectorAll('#browser-air .score')].map((x) => x.textContent)"
        )
        assert chips
        assert all(chip.endswith(mark) for chip in chips)
        scores = browser.execute_script(
            """return JSON.parse(document.getElementById("data-report").textContent).air.docs.map((doc) => doc.x[0])
                 .filter((x) => x.sc !== null && Math.sign(x.sc - x.rf) === arguments[0]).map((x) => x.sc);""",
            {"win": 1, "tie": 0, "loss": -1}[value],
        )
        told = browser.execute_script("return document.querySelector('#browser-air [data-part=mean]').textContent")
        assert told == f"mean {sum(scores) / len(scores):.2f} of {len(scores)} judged"


def test_a_long_answer_is_shown_whole_on_demand(browser, show) -> None:
    show("hostile")
    heights = browser.execute_script(
        """document.querySelector("#browser-air .row").click();
        const button = document.querySelector("#browser-air .more"), text = button.previousElementSibling;
        const before = text.clientHeight;
        button.click();
        return [before, text.clientHeight, text.scrollHeight];"""
    )
    assert heights[0] < heights[1] == heights[2]


def test_the_judges_whole_prompt_is_there_on_demand(browser, show) -> None:
    show("one")
    prompts = browser.execute_async_script(
        """const done = arguments[0];
        document.querySelectorAll("#browser-air .row")[1].click();
        for (const node of document.querySelectorAll("#browser-air .verdicts .verdicts")) node.open = true;
        setTimeout(() => done([...document.querySelectorAll("#browser-air .verdicts .verdicts pre")].map((pre) =>
          pre.textContent)), 200);"""
    )
    doc = browser.execute_script(
        """const key = document.querySelector("#browser-air [aria-selected=true]").id.split("-").pop();
        const { docs } = JSON.parse(document.getElementById("data-report").textContent).air;
        return docs.find((doc) => doc.k === key);"""
    )
    answer, reference = doc["x"][0]["p"], doc["r"]
    head = f"Be fair.\n\n[ ]{doc['m']}|{doc['q']}|"
    assert prompts == [f"{head}{reference}|{answer}", f"{head}{answer}|{reference}"]


def test_the_switch_shows_all_in_chinese_and_back(browser, show) -> None:
    show("two")
    state = "return [document.documentElement.lang, document.querySelector('h2').innerText, _];"
    press = "document.getElementById('language').click();"
    everything = "document.querySelector('#page').innerText"
    assert browser.execute_script(press + state.replace("_", "1"))[:2] == ["zh", "请先阅读"]
    browser.execute_script("document.querySelector('#browser-air .row').click()")
    text = browser.execute_script(f"return {everything}")
    for english in ("Leaderboard", "Save as", "Search", "Reset", "Reference answer", "Companionship", "verdict,"):
        assert english not in text
    assert browser.execute_script("return document.querySelectorAll('#browser-air audio').length") == 1
    assert browser.execute_script(press + state.replace("_", "1"))[:2] == ["en", "Read this first"]
    assert "Reference answer" in browser.execute_script(f"return {everything}")
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def test_tables_are_copied_and_charts_saved(browser, show) -> None:
    show("two")
    copied, svg, png = browser.execute_async_script(
        """const done = arguments[0], saved = [];
        const text = [];
        navigator.clipboard.writeText = async (value) => { text.push(value); };
        URL.createObjectURL = (blob) => { saved.push(blob); return "data:,"; };
        HTMLAnchorElement.prototype.click = () => {};
        for (const form of ["Markdown", "LaTeX", "CSV"]) {
          document.querySelector(`#leaderboard [data-copy=${form}]`).click();
        }
        for (const kind of ["SVG", "PNG"]) document.querySelector(`#air [data-save=${kind}]`).click();
        setTimeout(async () => {
          const [svg, png] = saved;
          const head = new Uint8Array(await png.slice(0, 8).arrayBuffer());
          done([text, await svg.text(), [png.type, png.size, [...head]]]);
        }, 1500);"""
    )
    assert copied[0].startswith("## Leaderboard")
    assert "\\toprule" in copied[1]
    assert copied[2].startswith('Model,Speech,"Speech, SE"')
    assert "var(" not in svg
    assert re.search(r"<circle[^>]*fill: rgb\(42, 93, 176\)", svg)
    assert png[0] == "image/png"
    assert png[1] > 10_000
    assert bytes(png[2]) == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("page", ["one", "two", "of 8"])
def test_on_paper_all_tables_are_open_light_and_inside_the_page(browser, show, page: str) -> None:
    show(page)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    sheet = {"width": 703, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sheet)
    told = browser.execute_script(
        """document.documentElement.dataset.theme = "dark";
        dispatchEvent(new Event("beforeprint"));
        const limit = document.documentElement.clientWidth, shown = (node) => node.getClientRects().length > 0;
        const out = [...document.querySelectorAll("main *")].filter((node) => shown(node) && !node.closest("svg")
          && node.getBoundingClientRect().right > limit + 1).map((node) => node.tagName + "." + node.className);
        const empty = [...document.querySelectorAll("main h2, main h3")].filter((node) => shown(node)
          && !shown(node.nextElementSibling)).map((node) => node.textContent);
        const closed = [...document.querySelectorAll("main .tabular")].filter((node) => !shown(node)).length;
        const paint = getComputedStyle(document.querySelector("svg .block, svg .dot"));
        const told = [getComputedStyle(document.body).backgroundColor, paint.fill, out, empty, closed,
          shown(document.querySelector("svg.wide")), shown(document.querySelector("svg.narrow"))];
        dispatchEvent(new Event("afterprint"));
        delete document.documentElement.dataset.theme;
        return told;"""
    )
    folded = "return document.querySelectorAll('main details.fold:not([open])').length"
    assert browser.execute_script(folded) > 0
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert told == ["rgb(255, 255, 255)", "rgb(42, 93, 176)", [], [], 0, True, False]
    paper = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    pdf = base64.b64decode(paper["data"])
    [width, height] = re.search(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", pdf).groups()
    assert (float(width), float(height)) == pytest.approx((595, 842), abs=1)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) < {"one": 9, "two": 13, "of 8": 45}[page]


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, installed by npm from the project's own list."""
    home = Path(__file__).parent
    file = home / "node_modules" / "axe-core" / "axe.min.js"
    if not file.exists():
        npm = shutil.which("npm")
        command = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
        done = npm and subprocess.run(command, cwd=home, capture_output=True, check=False, timeout=300).returncode == 0
        if not done:
            absent = "axe-core could not be installed: node and npm are missing, or there is no package registry"
            (pytest.fail if os.environ.get("CI") else pytest.skip)(absent)
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["one", "two"])
def test_axe_finds_nothing_that_keeps_people_from_reading(browser, show, axe: str, page: str, scheme: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    show(page)
    browser.execute_script(axe)
    browser.execute_script("for (const node of document.querySelectorAll('main details')) node.open = true;")
    found = browser.execute_async_script(
        """const done = arguments[0];
        axe.run(document).then(({ violations }) => done(violations.map((one) => [one.id, one.nodes.length,
          one.nodes[0].target.join(" "), one.nodes[0].any[0]?.message ?? ""])));"""
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert found == []


def test_answers_to_a_choice_are_shown_beside_the_choices(browser, show) -> None:
    show("two")
    root = "browser-foundation"
    shown = {value: _set(browser, root, "outcome", value)[0] for value in ("unanswered", "no letter", "wrong", "right")}
    assert shown["unanswered"] == 3 and all(shown.values()) and sum(shown.values()) == 40
    chips, key, said, players = browser.execute_script(
        """const root = document.getElementById(arguments[0]), text = (node) => node.textContent;
        return [[...root.querySelectorAll(".row .score:first-child")].map(text),
          text(root.querySelector(".choices .key")),
          [...root.querySelectorAll(".answer")].map(text), root.querySelectorAll("audio").length];""",
        root,
    )
    assert all(chip.endswith("✓") for chip in chips)
    assert key[0] in "ABCD" and key.endswith("the answer") and players == 1
    assert "right" in said[0] and len(said) == 2
    _set(browser, root, "outcome", "unanswered")
    pane = browser.execute_script("return document.querySelector('#browser-foundation article').textContent")
    assert "Unanswered; excluded from every score: empty answer" in pane


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
