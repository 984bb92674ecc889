"""Check the page of `tau serve` with axe-core: accessibility rules on every view, light and dark, narrow and wide.

    python scripts/page_axe.py [--axe axe.min.js] [--verbose]

Needs Chromium. axe-core comes from npm (`npm pack axe-core`) unless a file is given. Exit code 1 if a rule is violated.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from export.chromium import Browser, chromium
from export.sample import sample
from page.served_page import ServedPage, Tab
from support.served import Json
from tau.records.base import encode, replace

WIDTHS = (1280, 390)
ID = "019a7c52-8d1e-7b3a-9f40-3c5e2a7d1b66"
STREAMS: Json = {
    "blocks": [
        {"thinking": "Let me look at the files first."},
        {"text": "# A heading\n\n`Code`, a [link](https://example.com), **bold**.\n\n```python\nx = 1\n```\n"},
        {"tool": "bash", "arguments": {"command": "python -m pytest"}},
    ],
}
RUN = """
(async () => {
  const result = await axe.run(document, {resultTypes: ["violations", "incomplete"]});
  const short = (rules) => rules.map(({id, impact, help, nodes}) => ({id, impact, help,
    nodes: nodes.map((node) => `${node.target.join(" ")}: ${node.failureSummary}`)}));
  return {violations: short(result.violations), passes: result.passes.length,
          incomplete: result.incomplete.map(({id, nodes}) => `${id} (${nodes.length})`)};
})()
"""


class View(NamedTuple):
    name: str
    show: Callable[[Tab], None]


def views(session: str) -> list[View]:
    def show_session(tab: Tab) -> None:
        tab.run(f"location.hash = '#s={session}'")
        tab.until(f"document.documentElement.dataset.session === {json.dumps(session)}")
        tab.until("document.querySelector('#log article')")
        tab.until("document.querySelector('.ask')")
        tab.run("for (const one of document.querySelectorAll('#log details')) one.open = true")

    def list_sessions(tab: Tab) -> None:
        show_session(tab)
        if tab.run("document.getElementById('menu-button').checkVisibility()"):
            tab.click("#menu-button")
        tab.until("document.querySelector('a.session').checkVisibility()")

    def top(tab: Tab) -> None:
        show_session(tab)
        tab.run("document.getElementById('main').scrollTop = 0")

    def new_session(tab: Tab) -> None:
        show_session(tab)
        if tab.run("document.getElementById('menu-button').checkVisibility()"):
            tab.click("#menu-button")
        tab.click("#new-session")
        tab.until("document.getElementById('dialog').open")

    def branches(tab: Tab) -> None:
        show_session(tab)
        tab.click("#branches")
        tab.until("document.querySelector('#dialog .branches')")

    def suggestions(tab: Tab) -> None:
        show_session(tab)
        tab.run("document.getElementById('prompt').focus()")
        tab.type("/")
        tab.until("!document.getElementById('menu').hidden")

    def actions(tab: Tab) -> None:
        show_session(tab)
        tab.click("#more")

    return [
        View("session list", list_sessions),
        View("transcript, with a question", show_session),
        View("transcript, first entries", top),
        View("dialog: new session", new_session),
        View("dialog: branches", branches),
        View("suggestions", suggestions),
        View("actions", actions),
    ]


def write_sample(folder: Path) -> None:
    """The sample session of the export: tools, diffs, pictures, branches, a compaction, a failure."""
    export = sample()
    (folder / "sessions").mkdir(parents=True)
    (folder / "work").mkdir()
    header = replace(export.header, id=ID, cwd=str(folder / "work"))
    lines = [encode(header), *(encode(entry) for entry in export.entries)]
    (folder / "sessions" / f"2026_{ID}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def fetch_axe(folder: Path) -> Path | None:
    if shutil.which("npm") is None:
        return None
    subprocess.run(["npm", "pack", "--silent", "axe-core"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(next(folder.glob("axe-core-*.tgz"))) as archive:
        archive.extract("package/axe.min.js", folder, filter="data")
    return folder / "package" / "axe.min.js"


def check(tab: Tab, axe: str) -> Any:
    tab.run(f"{axe}; 1")
    return tab.run(RUN)


def start_activity(host: ServedPage) -> None:
    """A run with a question in the sample session, and other sessions in the list."""
    host.open(name="Another session")
    host.open(session=ID)
    host.command(ID, "prompt", message="Run the tests again.")


def run_all(folder: Path, axe: str, *, verbose: bool) -> int:
    write_sample(folder / "host")
    browser = Browser(folder)
    total = 0
    try:
        # A question that is not answered in time is followed by the same one.
        with ServedPage(folder / "host", STREAMS, permissions="ask", answer_timeout_s=600.0) as host:
            total += report("login", 1280, False, check_login(browser, host, axe), verbose=verbose)
            start_activity(host)
            for dark in (False, True):
                for width in WIDTHS:
                    for view in views(ID):
                        tab = Tab(browser, own_storage=True)
                        tab.ask("Page.setBypassCSP", enabled=True)  # axe adds styles
                        tab.look(width, 844, dark=dark)
                        tab.visit(host.login_url())
                        tab.until("document.documentElement.dataset.connection === 'online'")
                        view.show(tab)
                        total += report(view.name, width, dark, check(tab, axe), verbose=verbose)
                        tab.close()
    finally:
        browser.close()
    return total


def check_login(browser: Browser, host: ServedPage, axe: str) -> Any:
    tab = Tab(browser, own_storage=True)
    tab.ask("Page.setBypassCSP", enabled=True)
    tab.visit(host.url)
    tab.until("!document.getElementById('login').hidden")
    result = check(tab, axe)
    tab.close()
    return result


def report(name: str, width: int, dark: bool, result: Any, *, verbose: bool) -> int:
    found = result["violations"]
    theme = "dark" if dark else "light"
    unclear = f", not decided: {', '.join(result['incomplete'])}" if result["incomplete"] and verbose else ""
    print(f"{name}, {width} px, {theme}: {len(found)} violations, {result['passes']} rules passed{unclear}")
    for rule in found:
        print(f"  {rule['id']} ({rule['impact']}): {rule['help']}")
        for node in rule["nodes"][:5]:
            print(f"    {node}".replace("\n", "\n      "))
    return len(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axe", type=Path)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    if chromium() is None:
        print("skipped: there is no Chromium here")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        axe = given.axe or fetch_axe(folder)
        if axe is None:
            print("skipped: there is no npm here, and no file was given with --axe")
            return 0
        total = run_all(folder, axe.read_text(), verbose=given.verbose)
    print(f"{total} violations")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
