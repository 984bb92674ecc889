"""A visit to one of our pages, as a curious person makes it: everything is opened, searched and poked."""

from __future__ import annotations

import json
from pathlib import Path

from export.chromium import Browser


def opened(browser: Browser, path: Path, fragment: str = "", *, width: int = 1280) -> Browser:
    browser.look(width, 900)
    browser.open(path, fragment)
    until(browser, "'ready' in document.documentElement.dataset")
    return browser


def until(browser: Browser, condition: str) -> None:
    """Wait for something in the page, but not longer than 20 seconds."""
    ask = f"({condition}) ? done(true) : performance.now() > end ? done(false) : setTimeout(ask, 10)"
    assert browser.run(
        f"new Promise((done) => {{ const end = performance.now() + 20000, ask = () => {ask}; ask(); }})"
    ), condition


def complaints(browser: Browser) -> list[str]:
    """Exceptions of our script, and whatever the policy had to stop."""
    told = [event for event in browser.events if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
    return [json.dumps(event["params"])[:500] for event in told]


def scripts_run(browser: Browser) -> int:
    """How many of the payloads did what they want: set `top.ran`, or opened a dialog."""
    dialogs = [event for event in browser.events if event.get("method") == "Page.javascriptDialogOpening"]
    return len(dialogs) + int(browser.run("Number(top.ran ?? 0)"))


def stir(browser: Browser) -> None:
    """Show many branches, unfold everything, search for payloads, and poke all that can be poked."""
    browser.run(
        """(async () => {
          const wait = (ms) => new Promise((done) => setTimeout(done, ms));
          const rows = JSON.parse(document.getElementById("rows").textContent).slice(1);
          document.querySelector("[data-filter=all]").click();
          const ends = rows.filter((row, at) => row[4] === at);
          for (let at = 0; at < ends.length; at += Math.ceil(ends.length / 40)) {
            const row = ends[at];
            location.hash = "#e-" + encodeURIComponent(row[0]);
            await wait(60);
          }
          document.getElementById("toggle-thinking").click();
          document.getElementById("toggle-output").click();
          for (const fold of document.querySelectorAll("details")) fold.open = true;
          for (const text of ["<script>", "onerror", "javascript:", "' onload='"]) {
            document.getElementById("search").value = text;
            document.getElementById("search").dispatchEvent(new Event("input"));
            await wait(400);
          }
          for (const it of document.querySelectorAll("#talk *, .row")) {
            for (const kind of ["mouseover", "focus", "load", "error", "toggle", "animationstart"])
              it.dispatchEvent(new Event(kind));
          }
          for (const it of document.querySelectorAll("#talk button, #talk img, .row")) it.click();
          scrollTo(0, document.documentElement.scrollHeight);
          await wait(300);
        })()"""
    )
