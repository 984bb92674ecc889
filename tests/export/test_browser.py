"""The page in a real browser: nothing runs, nothing calls home, everything can be reached, and it stays smooth."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from export.chromium import Browser, Trap, chromium
from export.infested import infested
from export.payloads import HOME, PAYLOADS, RUN
from export.sample import long_session, sample
from export.visit import complaints, opened, scripts_run, stir, until
from support.rpc_process import quick
from tau.export import Export
from tau.export.page import page

pytestmark = [pytest.mark.xdist_group("chromium"), pytest.mark.timeout(400)]

LONGEST_TASK = 200  # ms


@pytest.fixture(scope="module")
def trap() -> Iterator[Trap]:
    trap = Trap()
    yield trap
    trap.close()


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, trap: Trap) -> Iterator[Browser]:
    if chromium() is None:
        reason = "NO CHROMIUM HERE: the HTML export was not checked in a browser (Debian: apt-get install chromium)"
        capture = request.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():  # said aloud, not only counted
            print(f"\n*** {reason} ***", file=sys.stderr)
        pytest.skip(reason)
    browser = Browser(tmp_path_factory.mktemp("chromium"), trap)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name, export in (("sample", sample()), ("long", long_session(5000)), ("infested", infested(PAYLOADS))):
        _write(folder / f"{name}.html", export)
    return folder


def _write(path: Path, export: Export) -> Path:
    path.write_bytes(b"".join(page(export)))
    return path


def texts(browser: Browser, selector: str) -> list[str]:
    return list(
        browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((it) => it.textContent.trim())")
    )


def row(text: str) -> str:
    rows = "[...document.querySelectorAll('.row:not([hidden])')]"
    return f"{rows}.find((it) => it.textContent.includes({json.dumps(text)}))"


def is_shown(text: str) -> str:
    """A condition: this text is part of the conversation."""
    return f"document.getElementById('talk').textContent.includes({json.dumps(text)})"


# Nothing acts


def test_the_traps_work(browser: Browser, trap: Trap, tmp_path: Path) -> None:
    """The same texts in a page that is not careful run and call home; otherwise the next test would prove nothing."""
    careless = tmp_path / "careless.html"
    careless.write_text(f"<img src=x onerror={RUN}><img src=http:{HOME}i.png><script>{RUN}</script>")
    before = trap.visits
    browser.open(careless)
    assert browser.run("top.ran") == 1
    assert browser.requests() == [f"http:{HOME}i.png"]
    assert trap.visited.wait(10)
    assert trap.visits > before


@pytest.mark.promise("G10")
def test_no_payload_runs_or_calls_home(browser: Browser, trap: Trap, pages: Path) -> None:
    before = trap.visits
    opened(browser, pages / "infested.html")
    stir(browser)
    assert scripts_run(browser) == 0
    assert browser.requests() == []
    assert complaints(browser) == []
    assert trap.visits == before


def test_links_lead_into_the_web_or_nowhere(browser: Browser, pages: Path) -> None:
    opened(browser, pages / "infested.html")
    kinds = browser.run(
        """(() => {
          const all = [document, ...[...document.querySelectorAll("template")].map((it) => it.content)];
          const links = all.flatMap((part) => [...part.querySelectorAll("a[href], area, use, [src], [action]")]);
          return [...new Set(links.map((it) => it.tagName + " " + new URL(it.href ?? it.src, location.href).protocol))];
        })()"""
    )
    assert sorted(kinds) == ["A about:", "A file:", "A http:", "A https:", "IMG data:"]  # about: is that of templates


def test_the_page_can_be_read_without_its_script(browser: Browser, pages: Path) -> None:
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages / "sample.html")
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("document.getElementById('side').checkVisibility()") is False
    assert browser.run("document.getElementById('talk').innerText.includes('All 47 tests pass')") is True


# Everything can be reached


def test_a_branch_is_shown_when_it_is_chosen_in_the_list(browser: Browser, pages: Path) -> None:
    opened(browser, pages / "sample.html")
    assert browser.run(is_shown("Right. Forget it.")) is False
    browser.run(f"{row('Could we keep the rounding')}.click()")
    until(browser, is_shown("Right. Forget it."))
    assert browser.run(is_shown("Now draw the curve")) is False
    assert texts(browser, ".fork span") == ["branch 1 of 2"]
    assert browser.run(f"{row('Right. Forget it')}.classList.contains('on')") is True
    assert complaints(browser) == []


def test_one_can_step_from_branch_to_branch(browser: Browser, pages: Path) -> None:
    opened(browser, pages / "sample.html")
    before = texts(browser, "#talk article")
    assert texts(browser, ".fork span") == ["branch 2 of 2"]
    browser.run("document.querySelector('.fork button').click()")
    until(browser, is_shown("Right. Forget it."))
    browser.run("document.querySelector('.fork button:last-child').click()")
    until(browser, is_shown("Now draw the curve"))
    assert texts(browser, "#talk article") == before


def test_an_address_leads_to_an_entry_of_any_branch(browser: Browser, pages: Path) -> None:
    export = sample()
    entry: Any = next(it for it in export.entries if "Right. Forget it" in str(it))
    opened(browser, pages / "sample.html", f"#e-{entry.id}")
    until(browser, is_shown("Right. Forget it."))
    # The mark follows the scroll position, which moves while distant entries get their real height.
    until(browser, "document.querySelector('article.here') !== null")


def test_results_stand_with_their_calls_after_a_change_of_branch(browser: Browser, pages: Path) -> None:
    opened(browser, pages / "long.html")
    count = "document.querySelectorAll('#talk .slot > .result').length"
    before = browser.run(count)
    ends = browser.run(
        """JSON.parse(document.getElementById("rows").textContent).slice(1)
             .filter((row, at) => row[4] === at).map((row) => row[0]).filter((id, at) => at % 7 === 0)"""
    )
    leaf = browser.run("document.querySelector('#talk > section:last-child > article:last-child').id")
    for id in [*ends, leaf.removeprefix("e-")]:
        browser.run(f"location.hash = '#e-{id}'")
        until(browser, f"document.getElementById('e-{id}')?.closest('#talk')")
    until(browser, f"{count} === {before}")
    loose = browser.run("document.querySelectorAll('#talk > section > .result').length")
    assert (loose, complaints(browser)) == (0, [])


def test_search_finds_text_of_all_branches(browser: Browser, pages: Path) -> None:
    opened(browser, pages / "sample.html")
    browser.key("/", "/")
    assert browser.run("document.activeElement.id") == "search"
    browser.ask("Input.insertText", text="hide the mistake")
    until(browser, "document.getElementById('status').textContent.startsWith('1 of')")
    assert texts(browser, ".row:not([hidden]) .name") == [
        "We could, but it would only hide the mistake: with 6.94 m at night and 6.88 m by day it would print the lower…"
    ]
    browser.key("Enter")
    until(browser, is_shown("it would only hide the mistake"))
    browser.key("Escape")
    until(browser, "document.getElementById('status').textContent === '26 of 35 entries'")
    assert browser.run("document.getElementById('search').value + document.activeElement.id") == ""


def test_search_looks_into_outputs_and_unfolds_them(browser: Browser, pages: Path) -> None:
    opened(browser, pages / "sample.html")
    browser.run("document.getElementById('search').focus()")
    browser.ask("Input.insertText", text="troughs samples _rounded")
    until(browser, "document.getElementById('status').textContent === '2 of 35 entries match'")
    browser.key("Enter")
    until(browser, "document.querySelector('.result .more[open]')")


@pytest.mark.parametrize(
    ("name", "count"), [("default", 26), ("no-tools", 17), ("user", 5), ("labeled", 1), ("all", 35)]
)
def test_the_list_can_be_filtered(browser: Browser, pages: Path, name: str, count: int) -> None:
    opened(browser, pages / "sample.html")
    browser.run(f"document.querySelector('[data-filter={name}]').click()")
    until(browser, f"document.getElementById('status').textContent === '{count} of 35 entries'")
    assert browser.run("document.querySelector('article.quiet').checkVisibility()") is (name == "all")


def test_keys_go_from_message_to_message(browser: Browser, pages: Path) -> None:
    opened(browser, pages / "sample.html")
    here = "document.querySelector('article.here .body').textContent.trim().slice(0, 12)"
    seen = []
    for key in "jjjk":
        browser.key(key, key)
        seen.append(browser.run(here))
    assert seen == ["Model anthro", "tides brest ", "Thinking 04:", "tides brest "]


def test_thinking_and_outputs_unfold_at_a_key(browser: Browser, pages: Path) -> None:
    opened(browser, pages / "sample.html")
    for key, kind in (("t", "thinking"), ("o", "more")):
        browser.key(key, key)
        until(browser, f"document.querySelectorAll('#talk details.{kind}:not([open])').length === 0")
        browser.key(key, key)
        until(browser, f"document.querySelectorAll('#talk details.{kind}[open]').length === 0")


def test_light_and_dark(browser: Browser, pages: Path) -> None:
    opened(browser, pages / "sample.html")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(paper)
    browser.look(1280, 900, dark=True)
    dark = browser.run(paper)
    browser.run("document.getElementById('theme').click()")
    assert (browser.run(paper), light == dark) == (light, False)
    browser.run("document.getElementById('theme').click(); localStorage.clear()")
    assert browser.run(paper) == dark


@pytest.mark.parametrize("width", [320, 390, 700, 1000, 1280, 2200])
def test_nothing_is_wider_than_the_window(browser: Browser, pages: Path, width: int) -> None:
    opened(browser, pages / "sample.html", width=width)
    browser.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_on_a_phone_the_list_opens_and_closes(browser: Browser, pages: Path) -> None:
    opened(browser, pages / "sample.html", width=390)
    visible = "document.getElementById('side').checkVisibility({ visibilityProperty: true })"
    assert browser.run(visible) is False
    browser.run("document.getElementById('menu').click()")
    until(browser, visible)
    browser.run(f"{row('Yes, please')}.click()")
    until(browser, f"!{visible}")


def test_on_paper_there_is_the_conversation_only(browser: Browser, pages: Path) -> None:
    opened(browser, pages / "sample.html")
    browser.ask("Emulation.setEmulatedMedia", media="print")
    try:
        hidden = browser.run("['side', 'bar'].map((id) => document.getElementById(id).checkVisibility())")
        left = browser.run("document.querySelector('main').getBoundingClientRect().left")
    finally:
        browser.ask("Emulation.setEmulatedMedia", media="")
    assert (hidden, left) == ([False, False], 0)


# It stays smooth


def test_five_thousand_entries_scroll_without_a_long_task(browser: Browser, pages: Path) -> None:
    """Time of the thread, not of the clock: other programs on the machine are not the page's fault."""

    def longest() -> float:
        opened(browser, pages / "long.html")
        tasks = browser.traced(SCROLL)
        assert len(tasks) > 250
        return max(tasks)

    quick(longest, LONGEST_TASK)
    assert browser.run("document.getElementById('list').scrollTop") > 10_000


SCROLL = """new Promise((done) => {
          const list = document.getElementById("list");
          const step = () => {
            scrollBy(0, 5000);
            list.scrollTop += 1200;
            const rest = document.documentElement.scrollHeight - innerHeight - scrollY;
            rest > 5 ? requestAnimationFrame(step) : done();
          };
          step();
        })"""
