"""Every hostile text in every field of the live page: no script runs and no request leaves.

    python tests/long/page_payloads.py

Needs Chromium. The tests do the same with fewer texts in the fields that are drawn once for each text.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from export.chromium import Browser, Trap, chromium
from export.payloads import PAYLOADS
from page.infested_page import ID, STIR, WATCH_POLICY, Infestation, ran, write_files, write_session
from page.served_page import ServedPage, Tab

PORTION = 40


def check(folder: Path, browser: Browser, payloads: Sequence[str] = PAYLOADS) -> list[str]:
    write_session(folder, payloads)
    write_files(folder, payloads)
    found: list[str] = []
    with ServedPage(folder, {"text": "ok"}) as host:
        tab = Tab(browser, own_storage=True)
        tab.ask("Page.addScriptToEvaluateOnNewDocument", source=WATCH_POLICY)
        host.open(session=ID)
        tab.visit(host.login_url())
        tab.until("document.documentElement.dataset.connection === 'online'")
        tab.run(f"location.hash = '#s={ID}'")
        tab.until("document.querySelector('#log article')")
        for start in range(0, len(payloads), PORTION):
            texts = payloads[start : start + PORTION]
            Infestation(host, ID).infest(texts, texts)
            tab.run(STIR)
            found += ran(tab)
    return found


def main() -> int:
    if chromium() is None:
        print("skipped: there is no Chromium here")
        return 0
    trap = Trap()
    rules = f"MAP *.example 127.0.0.1:{trap.port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        browser = Browser(folder, hosts=rules)
        try:
            found = check(folder / "host", browser)
        finally:
            browser.close()
    print(f"{len(PAYLOADS)} payloads in every field, {len(found)} that acted, {trap.visits} requests to elsewhere")
    print("\n".join(found[:10]))
    trap.close()
    return 1 if found or trap.visits else 0


if __name__ == "__main__":
    sys.exit(main())
