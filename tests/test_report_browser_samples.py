"""The samples of a report in a real browser; skipped where there is none."""

from __future__ import annotations

import pytest
from browser_pages import NEEDS_BROWSER, PHONE, open_key, search_for, set_filter
from report_samples import HOSTILE

pytestmark = NEEDS_BROWSER


def test_filters_by_task_outcome_and_text(browser, show):
    show("one")
    root = "browser-air"
    everything = int(browser.execute_script("return document.getElementById('browser-air').dataset.shown"))
    assert everything >= 80
    task, _ = set_filter(browser, root, "task", "sound_QA")
    assert 0 < task < everything
    parts = [set_filter(browser, root, "outcome", value)[0] for value in ("win", "tie", "loss", "unjudged")]
    assert sum(parts) == task
    for name in ("task", "outcome"):
        set_filter(browser, root, name, "")
    assert search_for(browser, root, "no such words anywhere") == 0
    assert browser.execute_script("return document.querySelector('#browser-air [data-part=empty]').offsetHeight") > 0
    assert browser.execute_script("return document.querySelector('#browser-air article').children.length") == 0
    found = search_for(browser, root, "ROOF rain")
    assert 0 < found <= everything
    assert set_filter(browser, "browser-intima", "label", "boundary")[0] > 0


def test_keys_walk_through_the_list_and_the_sample_is_shown_whole(browser, show):
    show("one")
    shown = browser.execute_script(
        """const list = document.querySelector("#browser-air [data-part=list]");
        const press = () => list.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
        for (let n = 0; n < 3; n++) press();
        const pane = document.querySelector("#browser-air [data-part=detail]");
        return [pane.innerText, list.querySelector("[aria-selected=true]").getAttribute("aria-posinset")];"""
    )
    assert shown[1] == "4"
    assert browser.execute_script("return location.hash") == f"#air-doc-{open_key(browser)}"
    for words in ("Reference answer", "Audio description", "Both verdicts", "reference first", "tokens"):
        assert words in shown[0]


@pytest.mark.parametrize("page", ["one", "embedded"])
def test_plays_a_clip(browser, show, page):
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


def test_a_hostile_sample_stays_text(browser, show):
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


def test_on_a_phone_a_sample_opens_as_a_sheet_and_closes_again(browser, show):
    show("one", PHONE)
    state = """const pane = document.querySelector("#browser-air .pane").getBoundingClientRect();
               return [pane.width, pane.height];"""
    assert browser.execute_script(state) == [0, 0]
    browser.execute_script("document.querySelector('#browser-air .row').click()")
    assert browser.execute_script(state) == [PHONE[0], PHONE[1]]
    browser.execute_script("document.querySelector('#browser-air [data-part=back]').click()")
    assert browser.execute_script(state) == [0, 0]


def test_on_a_phone_buttons_and_escape_lead_from_sample_to_sample_and_back(browser, show):
    show("one", PHONE)
    browser.execute_script("document.querySelector('#browser-air .row').click()")
    first = open_key(browser)
    browser.execute_script("document.querySelector('#browser-air [data-part=next]').click()")
    assert open_key(browser) != first
    browser.execute_script("document.querySelector('#browser-air [data-part=previous]').click()")
    assert open_key(browser) == first
    assert browser.execute_script("return location.hash") == f"#air-doc-{first}"
    press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}));"
    browser.execute_script(press)
    assert browser.execute_script("return document.querySelector('#browser-air .pane').offsetHeight") == 0
    assert browser.execute_script("return location.hash") == ""


def test_an_address_opens_its_sample(browser, show, page_of):
    show("many")
    browser.execute_script("document.querySelectorAll('#browser-air .row')[5].click()")
    key = open_key(browser)
    browser.get("about:blank")
    browser.get(f"{page_of('many').as_uri()}#air-doc-{key}")
    assert open_key(browser) == key


def test_win_tie_and_loss_are_told_without_colour_and_the_mean_follows_the_filter(browser, show):
    show("one")
    for value, mark in (("win", "▲"), ("tie", "="), ("loss", "▼")):
        set_filter(browser, "browser-air", "outcome", value)
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


def test_a_long_answer_is_shown_whole_on_demand(browser, show):
    show("hostile")
    heights = browser.execute_script(
        """document.querySelector("#browser-air .row").click();
        const button = document.querySelector("#browser-air .more"), text = button.previousElementSibling;
        const before = text.clientHeight;
        button.click();
        return [before, text.clientHeight, text.scrollHeight];"""
    )
    assert heights[0] < heights[1] == heights[2]


def test_the_judges_whole_prompt_is_there_on_demand(browser, show):
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


def test_answers_to_a_choice_are_shown_beside_the_choices(browser, show):
    show("two")
    root = "browser-foundation"
    answers = ("unanswered", "no letter", "wrong", "right")
    shown = {value: set_filter(browser, root, "outcome", value)[0] for value in answers}
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
    set_filter(browser, root, "outcome", "unanswered")
    pane = browser.execute_script("return document.querySelector('#browser-foundation article').textContent")
    assert "Unanswered; excluded from every score: empty answer" in pane


def test_thousands_of_samples_are_usable_in_two_seconds_and_filter_in_a_tenth(browser, show):
    show("many")
    assert float(browser.execute_script("return document.documentElement.dataset.ready")) < 2000
    assert browser.execute_script("return document.querySelectorAll('#browser-air .row').length") < 40
    root = "browser-air"
    for name, value in (("task", "music_QA"), ("outcome", "loss"), ("task", ""), ("sort", "1"), ("outcome", "")):
        shown, took = set_filter(browser, root, name, value)
        assert shown > 0
        assert took < 100
    assert 0 < search_for(browser, root, "waltz engine") < 2200
    assert float(browser.execute_script("return document.getElementById('browser-air').dataset.ms")) < 100
