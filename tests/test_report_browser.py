"""The page of a report in a real browser; skipped where there is none."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from browser_pages import NEEDS_BROWSER, PHONE, WIDE

pytestmark = NEEDS_BROWSER


def test_opens_without_a_complaint_and_without_asking_for_anything(browser, show):
    show("one")
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in fetched if not name.startswith(("file:", "data:"))] == []
    assert browser.execute_script("return document.querySelectorAll('svg.chart title').length") > 20
    assert browser.execute_script("return document.querySelector('#page main .warnings') !== null")


def test_compares_two_runs_and_opens_a_doc_that_changed(browser, show):
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


@pytest.mark.parametrize("page", ["one", "two", "of 3", "of 6", "of 8", "hostile", "many"])
@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["phone", "wide"])
def test_nothing_overflows(browser, show, page, size):
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
        for (const chart of document.querySelectorAll("svg.chart")) {
          const box = chart.getBoundingClientRect();
          for (const text of box.width ? chart.querySelectorAll("text") : []) {
            const own = text.getBoundingClientRect();
            if (own.right > box.right + 3 || own.left < box.left - 3) out.push("leaves its chart: " + text.textContent);
          }
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


def test_on_a_phone_the_word_between_two_runs_stays_whole(browser, show):
    show("twins", PHONE)
    lines = browser.execute_script(
        """const range = document.createRange();
        range.selectNodeContents(document.querySelector("h1 .versus"));
        return range.getClientRects().length;"""
    )
    assert lines == 1


def test_the_switch_shows_all_in_chinese_and_back(browser, show):
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


def test_tables_are_copied_and_charts_saved(browser, show):
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
        const ready = setInterval(async () => {
          if (saved.length < 2) return;
          clearInterval(ready);
          const [svg, png] = saved;
          const head = new Uint8Array(await png.slice(0, 8).arrayBuffer());
          done([text, await svg.text(), [png.type, png.size, [...head]]]);
        }, 20);"""
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
def test_on_paper_all_tables_are_open_light_and_inside_the_page(browser, show, page):
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
def test_axe_finds_nothing_that_keeps_people_from_reading(browser, show, axe, page, scheme):
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


def test_colours_follow_the_button(browser, show):
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
