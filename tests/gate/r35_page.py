"""R35: nothing of a conversation runs in the live page of a host, and the page asks nobody else, in a browser."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from export.chromium import Browser, Trap, chromium
from export.payloads import PAYLOADS
from gate.figure import Figure
from gate.portion import portion
from long.page_payloads import check

SECONDS = 1800.0


def measure(scale: float, seed: int) -> list[Figure]:
    if chromium() is None:
        print("*** R35: NO CHROMIUM HERE: the page was not tried in a browser ***", file=sys.stderr)
        return [Figure("R35", "payloads tried in the live page: there is no browser here", 0, 0, 0)]
    payloads = portion(PAYLOADS, min(scale, 1), seed)
    trap = Trap()
    rules = f"MAP *.example 127.0.0.1:{trap.port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
    with tempfile.TemporaryDirectory(prefix="tau-gate-", ignore_cleanup_errors=True) as name:
        browser = Browser(Path(name), hosts=rules)
        try:
            found = check(Path(name) / "host", browser, payloads)
        finally:
            browser.close()
            trap.close()
    for text in found[:20]:
        print(f"R35: {text}", file=sys.stderr)
    return [
        Figure("R35", "payloads in a field of the live page that act", len(payloads), len(found), 0),
        Figure("R35", "requests of the live page to elsewhere", len(payloads), trap.visits, 0),
    ]
