"""R21: in a real browser, no payload in an exported session runs or calls home.

Every payload stands in every place of the conversation where a text can be: what
people, models and tools say, names of sessions, tools, models and files, data and
types of images, addresses, entries of extensions.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from export.chromium import Browser, Trap, chromium
from export.infested import infested
from export.payloads import HOME, PAYLOADS, RUN
from export.visit import complaints, opened, scripts_run, stir
from gate.figure import Figure
from gate.portion import portion
from tau.export.page import page

PAGE = 24  # payloads on one page
CARELESS = f"<img src=x onerror={RUN}><img src=http:{HOME}i.png><script>{RUN}</script>"


def measure(scale: float, seed: int) -> list[Figure]:
    if chromium() is None:
        print("*** R21: NO CHROMIUM HERE: the export was not tried in a browser ***", file=sys.stderr)
        return [Figure("R21", "payloads tried in a browser: there is none here", 0, 0, 0)]
    payloads = portion(PAYLOADS, scale, seed)
    trap = Trap()
    with tempfile.TemporaryDirectory(prefix="tau-gate-", ignore_cleanup_errors=True) as folder:
        browser = Browser(Path(folder), trap)
        try:
            _must_be_seen(browser, trap, Path(folder))
            ran, sent, stopped = _visits(browser, trap, payloads, Path(folder))
        finally:
            browser.close()
            trap.close()
    return [
        Figure("R21", "scripts run by an export in a browser", len(payloads), ran, 0),
        Figure("R21", "network requests of an export in a browser", len(payloads), sent, 0),
        Figure("R21", "complaints of a browser, such as what the policy stopped", len(payloads), stopped, 0),
    ]


def _must_be_seen(browser: Browser, trap: Trap, folder: Path) -> None:
    """The same in a page that is not careful runs and calls home; otherwise the figures would be worth nothing."""
    careless = folder / "careless.html"
    careless.write_text(CARELESS)
    browser.open(careless)
    assert scripts_run(browser) and browser.requests() and trap.visited.wait(10), "the browser does not run anything"


def _visits(browser: Browser, trap: Trap, payloads: list[str], folder: Path) -> tuple[int, int, int]:
    ran = sent = stopped = 0
    before = trap.visits
    for at in range(0, len(payloads), PAGE):
        file = folder / f"{at}.html"
        file.write_bytes(b"".join(page(infested(payloads[at : at + PAGE]))))
        opened(browser, file)
        stir(browser)
        ran += scripts_run(browser)
        sent += len(browser.requests())
        stopped += len(complaints(browser))
    return ran, sent + trap.visits - before, stopped
