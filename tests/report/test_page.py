"""The page of HTML: its text, and what it does in a browser where there is one."""

from __future__ import annotations

import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from storage_conformance.report import page

_spec = importlib.util.spec_from_file_location("browser", Path(__file__).with_name("browser.py"))
chromium = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(chromium)

# The contrast of text and what lies behind it, as WCAG defines it, for every element that shows text.
CONTRAST = """
const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, n) => sum + v * [.2126, .7152, .0722][n], 0);
const behind = e => { for (; e; e = e.parentElement) {
  const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c; }
  return [255, 255, 255]; };
let worst = 99;
for (const e of document.querySelectorAll("body *")) {
  if (!e.getClientRects().length || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
  const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
  worst = Math.min(worst, (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
}
return worst;
"""

VISIBLE = """
const rows = [...document.querySelectorAll("tr[data-statuses]")];
return rows.filter(row => row.getClientRects().length).map(row => row.cells[0].id);
"""

CHOOSE = """
const select = document.getElementById(arguments[0]);
select.value = arguments[1];
select.dispatchEvent(new Event("change"));
"""


class Outline(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.attributes = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes


def test_requirements_go_down_and_backends_across(two):
    text = page.write(two)
    assert re.findall(r'<th scope="col">(.*?)</th>', text) == ["Requirement", "reference 1.2", "torchrl 1.2"]
    assert text.count('<th scope="row"') == len(two.requirements)
    assert text.count("<td><") == 2 * len(two.requirements)


def test_the_page_needs_nothing_from_elsewhere(two):
    outline = Outline(page.write(two))
    assert not {"link", "img", "iframe", "object"} & set(outline.tags)
    named = dict(outline.attributes)
    assert "src" not in named
    assert {value for name, value in outline.attributes if name == "href"} == {"#sheet"}
    assert not re.search(r"url\(|@import|https?:", page.write(two))


def test_nothing_of_a_backend_becomes_markup(one, hostile):
    outline = Outline(page.write(hostile))
    harmless = Outline(page.write(one("shelf", {"LEN-3": "fail", "CAP-1": "deviation"})))
    assert outline.tags == harmless.tags
    assert [name for name, _ in outline.attributes] == [name for name, _ in harmless.attributes]


@pytest.fixture(scope="module")
def browser():
    if why := chromium.missing():
        pytest.skip(why)
    with chromium.browser() as opened:
        yield opened


@pytest.fixture
def shown(browser, tmp_path):
    """Opens a report in the browser."""

    def show(report, **how):
        path = tmp_path / "r.html"
        path.write_bytes(page.write(report).encode("utf-8", "backslashreplace"))
        browser.complaints()
        browser.open(path, **how)
        return browser

    return show


def test_filters_by_chapter_and_status(shown, two):
    at = shown(two)
    assert len(at.js(VISIBLE)) == len(two.requirements)
    at.js(CHOOSE, "status", "fail")
    assert at.js(VISIBLE) == ["LEN-3"]
    assert at.js("return document.getElementById('count').textContent").startswith("1 of ")
    at.js(CHOOSE, "chapter", "CAP")
    assert at.js(VISIBLE) == []
    at.js(CHOOSE, "status", "")
    assert at.js(VISIBLE) == [r.id for r in two.requirements if r.chapter == "CAP"]
    at.click("button[type=reset]")
    at.until("return document.querySelectorAll('tr[data-statuses][hidden]').length === 0")
    assert at.complaints() == []


def test_a_click_shows_sentence_program_script_and_seed(shown, two):
    at = shown(two)
    at.click("#LEN-3 ~ td:last-child button")
    detail = at.js("return document.getElementById('detail').innerText")
    for said in (
        "LEN-3 on torchrl 1.2: fail",
        "A set that addresses only rows below W",
        "import torch\nassert False",
    ):
        assert said in detail
    assert "seed 0" in detail
    assert "storage = make(2)" in detail
    assert "it counts writes" in detail
    at.click("#close")
    assert not at.js("return document.getElementById('detail').open")


def test_all_of_it_by_keyboard(shown, two):
    at = shown(two)
    focused = "const e = document.activeElement; return e.getAttribute('aria-label') || e.id || e.textContent"
    at.press("Tab")
    assert at.js(focused) == "Skip to the table"
    at.press("Enter")
    at.press("Tab")
    assert at.js(focused) == "pass: ERR-1 on reference 1.2"
    at.press("Right", "Down")
    assert at.js(focused) == "pass: ERR-2 on torchrl 1.2"
    at.press("Left", "Up", "Up")
    assert at.js(focused) == "pass: ERR-1 on reference 1.2"
    at.press("Enter")
    assert at.js("return document.getElementById('detail').open")
    assert at.js("return document.getElementById('detail').contains(document.activeElement)")
    at.press("Escape")
    at.until("return !document.getElementById('detail').open")
    assert at.js(focused) == "pass: ERR-1 on reference 1.2"


def test_arrows_pass_over_what_did_not_run(shown, two):
    at = shown(two)
    at.js("document.querySelector('#LEN-3 ~ td:last-child button').focus()")
    at.press("Down")
    assert at.js("return document.activeElement.getAttribute('aria-label')") == "pass: LEN-5 on torchrl 1.2"


def test_what_a_screen_reader_is_told(shown, two):
    tree = shown(two).tree()
    for told in [
        ("heading", "Conformance with SPEC 1.0"),
        ("combobox", "Chapter"),
        ("combobox", "Status"),
        ("region", "Requirements by backend"),
        ("columnheader", "torchrl 1.2"),
        ("button", "fail: LEN-3 on torchrl 1.2"),
    ]:
        assert told in tree
    assert any(role == "rowheader" and name.startswith("LEN-3 MUST") for role, name in tree)
    assert any(role == "status" for role, _ in tree)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_is_legible_and_fits(shown, two, scheme, width):
    at = shown(two, width=width, scheme=scheme)
    assert at.js(CONTRAST) >= 4.5
    assert at.js("return document.documentElement.scrollWidth <= innerWidth")
    back = at.js("return getComputedStyle(document.body).backgroundColor")
    assert (back == "rgb(255, 255, 255)") == (scheme == "light")
    at.click("#LEN-3 ~ td:last-child button")
    assert at.js(CONTRAST) >= 4.5
    assert at.js("const d = document.getElementById('detail'); return d.scrollWidth <= d.clientWidth")


def test_a_hostile_backend_runs_nothing(shown, hostile):
    at = shown(hostile)
    at.click("#LEN-3 ~ td button")
    assert at.js("return document.getElementById('body').innerText.includes('onerror')")
    assert at.js("return document.title").startswith("Conformance with SPEC")
    assert at.js("return document.querySelectorAll('img').length") == 0
    assert at.complaints() == []
