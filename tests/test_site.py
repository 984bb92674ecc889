"""`make site`: the documents as pages whose links lead somewhere, and which a browser opens without a complaint."""

from __future__ import annotations

import os
import os.path
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from export.chromium import Browser, Trap, chromium

pytestmark = pytest.mark.xdist_group("chromium")  # the site is built once, and there is one browser at a time

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "scripts" / "build_site.py"
SHOWN = ["index.html", "docs/index.html", "docs/quickstart.html", "docs/protocol.html", "examples/minimal.py.html"]


class Addresses(HTMLParser):
    """What a page links to, and what in it can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name == "id" and value:
                self.ids.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "built"
    done = subprocess.run([sys.executable, PROGRAM, folder], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Addresses]:
    return {page: Addresses(page) for page in sorted(site.rglob("*.html"))}


def test_every_link_leads_somewhere(pages: dict[Path, Addresses]) -> None:
    wrong = []
    for page, addresses in pages.items():
        for link in addresses.links:
            url = urlsplit(link)
            if url.scheme:
                continue
            target = Path(os.path.normpath(page.parent / unquote(url.path))) if url.path else page
            if not target.is_file() or (url.fragment and unquote(url.fragment) not in pages[target].ids):
                wrong.append(f"{page.name}: {link}")
    assert wrong == []


def test_no_address_on_a_page_is_taken_twice(pages: dict[Path, Addresses]) -> None:
    twice = {page.name: sorted({id for id in a.ids if a.ids.count(id) > 1}) for page, a in pages.items()}
    assert {name: ids for name, ids in twice.items() if ids} == {}


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    assert re.findall("<script[^>]*>", (site / "index.html").read_text()) == ['<script src="./site.js">']
    assert "http" not in (site / "site.css").read_text() + (site / "site.js").read_text()
    assert [page.name for page in site.rglob("*.html") if 'src="http' in page.read_text()] == []


def test_every_document_is_a_page_and_in_the_list(site: Path) -> None:
    """Decisions and media are reached from pages that are in it."""
    names = {path.stem for path in (ROOT / "docs").glob("*.md") if not path.name.endswith(".in.md")} - {"README"}
    assert {name for name in names if not (site / "docs" / f"{name}.html").is_file()} == set()
    listed = Addresses(site / "docs" / "index.html").links
    assert {name for name in names if f"{name}.html" not in listed} == set()


def test_a_page_has_the_title_of_its_navigation_entry() -> None:
    contents = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    entries = re.findall(r"^- \[(.+?)\]\((.+?\.md)\)", contents, re.MULTILINE)
    titles = {}
    for _, link in entries:
        heading = re.search(r"^# (.+)$", (ROOT / "docs" / link).read_text(encoding="utf-8"), re.MULTILINE)
        titles[link] = heading[1] if heading else ""
    assert {link: title for title, link in entries} == titles


def test_a_link_to_a_page_names_the_page_and_not_its_file(site: Path) -> None:
    named = re.compile(r'<a href="[^"]*\.html[^"]*">([a-z-]+\.md)</a>')
    found = {page.name: named.findall(page.read_text()) for page in site.glob("docs/*.html")}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_a_page_leads_to_the_previous_and_the_next_page_of_the_list(site: Path) -> None:
    page = (site / "docs" / "quickstart.html").read_text()
    assert re.findall(r'<a rel="(\w+)" href="(.+?)"', page) == [("prev", "../index.html"), ("next", "media/demo.html")]


def test_code_is_highlighted_and_sources_are_pages(site: Path) -> None:
    assert '<span class="k">' in (site / "docs" / "sdk.html").read_text()
    assert "tau.open" in (site / "examples" / "minimal.py.html").read_text()


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "docs").mkdir()
    for name in ("build_site.py", "build_site.css", "build_site.js"):
        (tmp_path / "scripts" / name).write_text((PROGRAM.parent / name).read_text())
    (tmp_path / "README.md").write_text("# one\n\n[two](docs/two.md), [away](../away.md), [web](https://example.com)\n")
    (tmp_path / "docs" / "README.md").write_text("# all\n\n## list\n\n- [one](../README.md)\n")
    command = [sys.executable, str(tmp_path / "scripts" / "build_site.py"), str(tmp_path / "site")]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}  # for docgen
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [
            "this link leads nowhere: README.md: docs/two.md",
            "this link leads nowhere: README.md: ../away.md",
        ],
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("NO CHROMIUM HERE: the site was not looked at in a browser (Debian: apt-get install chromium)")
    trap = Trap()
    browser = Browser(tmp_path_factory.mktemp("chromium"), trap)
    yield browser
    browser.close()
    trap.close()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desktop"])
@pytest.mark.parametrize("name", SHOWN)
def test_a_browser_opens_a_page_without_complaints(browser: Browser, site: Path, name: str, width: int) -> None:
    browser.look(width, 900)
    browser.open(site / name)
    assert browser.run(
        "getComputedStyle(document.querySelector('nav')).fontFamily.includes('Inter')"
    )  # it has its style
    assert browser.run("document.documentElement.scrollWidth") <= width
    told = [event for event in browser.events if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
    assert told == []


@pytest.mark.timeout(400)
@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desktop"])
@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("structured output", "docs/structured-output.html"),
        ("abort", "docs/protocol.html#abort"),
        ("session", "docs/sessions.html"),
    ],
)
def test_the_search_finds_a_page_without_a_server(
    browser: Browser, site: Path, words: str, first: str, width: int
) -> None:
    browser.look(width, 900)
    browser.open(site / "docs" / "cli.html")
    browser.run(f"""
        document.querySelector('#search').value = {words!r};
        document.querySelector('#search').dispatchEvent(new Event('input'));
    """)
    wait_for(browser, "!document.querySelector('#found').hidden")
    found = browser.run("[...document.querySelectorAll('#found a')].map(link => link.href)")
    assert found[0] == f"{site.as_uri()}/{first}"
    assert browser.run("document.querySelector('#found').getBoundingClientRect().left") >= 0
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("document.querySelector('#search').value = 'nosuchword'")
    browser.run("document.querySelector('#search').dispatchEvent(new Event('input'))")
    wait_for(browser, "document.querySelector('#found').textContent.startsWith('Nothing found')")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desktop"])
@pytest.mark.parametrize("name", ["index.html", "docs/quickstart.html", "docs/sdk.html", "docs/protocol.html"])
def test_no_code_is_clipped_and_every_block_has_a_copy_button(
    browser: Browser, site: Path, name: str, width: int
) -> None:
    browser.look(width, 900)
    browser.open(site / name)
    clipped = "[...document.querySelectorAll('main pre')].filter(block => block.scrollWidth > block.clientWidth).length"
    assert browser.run(clipped) == 0
    blocks = browser.run("document.querySelectorAll('main pre').length")
    assert blocks > 0
    assert browser.run("document.querySelectorAll('main .code > .copy').length") == blocks


@pytest.mark.timeout(400)
def test_a_copy_button_reports_that_it_has_copied(browser: Browser, site: Path) -> None:
    browser.look(1280, 900)
    browser.open(site / "docs" / "quickstart.html")
    browser.run("document.querySelector('.copy').click()")
    wait_for(browser, "document.querySelector('.copy').textContent === 'copied'")


def wait_for(browser: Browser, condition: str) -> None:
    """Wait until an expression is true in the page."""
    waiting = f"""
        await new Promise((resolve, reject) => {{
            const until = Date.now() + 60000;
            const look = () => {{
                if ({condition}) resolve();
                else if (Date.now() > until) reject(new Error('timed out'));
                else setTimeout(look, 10);
            }};
            look();
        }})
    """
    browser.run(f"(async () => {{ {waiting} }})()")
