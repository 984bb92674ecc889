"""Make the pictures of docs/web.md: `python scripts/web_pictures.py [FOLDER]`.

A host with a scripted model serves the page; Chromium opens it at the sizes of a desk and a phone. The pictures of the
documentation are written to docs/media; with FOLDER, all pictures are written there. FONTS in the environment may name
a folder with fonts. Without Chromium nothing is made.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from export.chromium import Browser, chromium  # noqa: E402

TIMEOUT_S = 60
DESK, PHONE = (1280, 860), (390, 844)
MEDIA = ROOT / "docs" / "media"
IN_DOCS = {"web", "web-dark", "web-phone", "web-phone-list"}
PROGRAM = '''\
from datetime import datetime, timedelta

PERIOD = timedelta(hours=12, minutes=25)


def next_high_tide(last: datetime, now: datetime) -> datetime:
    """The next high tide after `now`; they are 12 h 25 min apart."""
    missed = (now - last) // PERIOD
    return last + missed * PERIOD
'''
TEST = """\
from datetime import datetime

from tides import next_high_tide


def test_the_next_tide_is_after_now() -> None:
    last, now = datetime(2026, 3, 17, 4, 10), datetime(2026, 3, 17, 9, 0)
    assert next_high_tide(last, now) == datetime(2026, 3, 17, 16, 35)


test_the_next_tide_is_after_now()
print("1 passed")
"""
FIX = {
    "path": "tides.py",
    "edits": [{"oldText": "    return last + missed * PERIOD", "newText": "    return last + (missed + 1) * PERIOD"}],
}
RUN_TEST = {"tool": "bash", "arguments": {"command": "python3 test_tides.py"}}
SUMMARY = """\
The test passes now. `next_high_tide` counted the tides that have passed, and returned the *last* of them instead of the
next one.

| | before | after |
|---|---|---|
| 09:00, last tide 04:10 | 04:10 | **16:35** |
| exactly at high tide | the same moment | the tide after it |

Two things that I left as they are:

1. A `now` before `last` gives a tide in the past. Nothing in the project calls it so.
2. The period is constant; real tides vary by some minutes.
"""
SCRIPT = {
    "answers": [
        {
            "blocks": [
                {"thinking": "First see how the test fails, then read the function that it calls."},
                {"text": "I run the test to see how it fails."},
                RUN_TEST,
                {"tool": "read", "arguments": {"path": "tides.py"}},
            ],
            "usage": {"input": 5200, "output": 140},
        },
        {
            "blocks": [
                {"thinking": "(now - last) // PERIOD is the number of tides since `last`. The next one is one more."},
                {"text": "`missed` counts the tides that are over, so the next one is `missed + 1`:"},
                {"tool": "edit", "arguments": FIX},
            ],
            "usage": {"input": 6400, "output": 210},
        },
        {"blocks": [RUN_TEST], "usage": {"input": 6900, "output": 40}},
        {"blocks": [{"text": list(SUMMARY)}], "delayMs": 12, "usage": {"input": 7200, "output": 260}},
        {"blocks": [{"text": "Done."}]},
    ]
}
PROMPT = "The test of `next_high_tide` fails. Find out why and fix it."

# Sessions that are only in the list: folder, name, prompt, answer, dollars, age in hours.
OTHERS = (
    (
        "tides",
        "Chart of the spring tides",
        "Draw the tides of March as an SVG.",
        "The chart is in `march.svg`.",
        0.41,
        3,
    ),
    ("tides", "", "Which Python versions do we support?", "3.11 and newer: see `pyproject.toml`.", 0.02, 27),
    ("harbour-site", "Timetable on small screens", "The timetable is cut off on phones.", "It scrolls now.", 1.84, 1.2),
    (
        "harbour-site",
        "Translate the ferry notices",
        "Translate notices/*.md to Danish.",
        "14 files are done.",
        3.07,
        50,
    ),
    ("notes", "", "Summarise the meeting of Tuesday.", "Three decisions, two open questions.", 0.06, 74),
)


def prepare(folder: Path) -> dict[str, str]:
    """Write the projects and the sessions, and return the environment of the host."""
    for name in ("tides", "harbour-site", "notes", "agent"):
        (folder / name).mkdir()
    (folder / "tides/tides.py").write_text(PROGRAM)
    (folder / "tides/test_tides.py").write_text(TEST)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    for number, other in enumerate(OTHERS):
        write_session(folder, number, *other)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PI_CODING_AGENT_DIR": str(folder / "agent"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def write_session(
    folder: Path, number: int, project: str, name: str, prompt: str, answer: str, cost: float, hours: float
) -> None:
    cwd, at = str(folder / project), time.time() - hours * 3600
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))
    id = f"0198c1a2-0000-7000-8000-00000000000{number}"
    usage = {"input": 900, "output": 300, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1200}
    usage["cost"] = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": cost}  # type: ignore[assignment]
    user = {"role": "user", "content": prompt, "timestamp": round(at * 1000)}
    reply = {
        "role": "assistant",
        "content": [{"type": "text", "text": answer}],
        **{"api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-4-5"},
        **{"usage": usage, "stopReason": "stop", "timestamp": round(at * 1000)},
    }
    entries: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": id, "timestamp": stamp, "cwd": cwd}]
    parent = None
    for at_entry, message in enumerate((user, reply)):
        own = f"{number}{at_entry}000000"
        entries.append({"type": "message", "id": own, "parentId": parent, "timestamp": stamp, "message": message})
        parent = own
    if name:
        entries.append(
            {"type": "session_info", "id": f"{number}2000000", "parentId": parent, "timestamp": stamp, "name": name}
        )
    place = folder / "agent/sessions" / f"--{cwd.strip('/').replace('/', '-')}--"
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{stamp.replace(':', '-').replace('.', '-')}_{id}.jsonl"
    path.write_text("".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries))
    os.utime(path, (at, at))


@contextmanager
def host(folder: Path, env: dict[str, str]) -> Iterator[str]:
    """A running host; yields the address that logs a browser in."""
    flags = ["--listen", "127.0.0.1:0", "--root", str(folder), "--permissions", "ask"]
    model = ["--model", "scripted", "--script", str(folder / "script.json")]
    command = [sys.executable, "-m", "tau", "serve", *flags, *model]
    process = subprocess.Popen(command, cwd=folder / "tides", env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        url = [sys.executable, "-m", "tau", "serve", "url"]
        yield subprocess.run(url, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout.strip()
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


class Photographer:
    def __init__(self, browser: Browser, target: Path) -> None:
        self.browser = browser
        self.target = target

    def size(self, size: tuple[int, int], *, dark: bool = False) -> None:
        width, height = size
        phone = width < 500
        scale = 1.5 if phone else 1
        self.browser.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )
        self.browser.ask("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.browser.ask("Emulation.setEmulatedMedia", features=[scheme])

    def wait(self, condition: str) -> None:
        until = time.monotonic() + TIMEOUT_S
        while not self.browser.run(f"Boolean({condition})"):
            if time.monotonic() > until:
                raise SystemExit(f"the page did not come so far: {condition}")
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        self.wait(f"document.querySelector({selector!r})")
        self.browser.run(f"document.querySelector({selector!r}).click()")

    def take(self, name: str) -> None:
        if self.target == MEDIA and name not in IN_DOCS:
            return
        self.browser.run("new Promise((go) => setTimeout(go, 400))")
        picture = self.browser.ask("Page.captureScreenshot", format="webp", quality=82)["data"]
        path = self.target / f"{name}.webp"
        path.write_bytes(base64.b64decode(picture))
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


SAY = """(() => {
  const prompt = document.getElementById("prompt");
  prompt.value = TEXT;
  prompt.dispatchEvent(new Event("input"));
  document.getElementById("send").click();
})()"""


def photograph(camera: Photographer, url: str) -> None:
    browser, wait, click = camera.browser, camera.wait, camera.click
    camera.size(DESK)
    browser.visit(url)
    wait("document.querySelectorAll('a.session').length >= 5")
    camera.take("web-start")
    click("#sessions section:has([title$='/tides']) h2 button")
    wait("document.documentElement.dataset.session.length > 8 && document.querySelector('#model').value")
    browser.run(SAY.replace("TEXT", json.dumps(PROMPT)))
    click(".ask .option")
    wait("document.querySelector('.ask h2')?.textContent.includes('edit')")
    wait("document.querySelector('#log .diff, #live .diff')")
    camera.take("web")
    camera.size(DESK, dark=True)
    camera.take("web-dark")
    camera.size(PHONE)
    camera.take("web-phone")
    camera.size(PHONE, dark=True)
    camera.take("web-phone-dark")
    camera.size(PHONE)
    click("#menu-button")
    camera.take("web-phone-list")
    browser.run("document.querySelector('#shade').click()")
    camera.size(DESK)
    click(".ask .option")
    wait("document.querySelector('.ask h2')?.textContent.includes('bash')")
    click(".ask .option")
    wait("document.querySelector('.streaming .text')?.textContent.length > 120")
    camera.take("web-streaming")
    wait("document.documentElement.dataset.busy === 'false'")
    camera.take("web-done")
    camera.size(DESK, dark=True)
    camera.take("web-done-dark")
    camera.size(PHONE)
    camera.take("web-phone-done")


def main(words: list[str]) -> int:
    if chromium() is None:
        print("Chromium was not found", file=sys.stderr)
        return 1
    target = Path(words[0]) if words else MEDIA
    target.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.gettempdir()) / "projects"  # the page shows this path
    place.mkdir()
    env = prepare(place)
    try:
        with host(place, env) as url, tempfile.TemporaryDirectory() as profile:
            home = Path(profile)
            if fonts := os.environ.get("FONTS"):
                (home / ".local" / "share").mkdir(parents=True)
                (home / ".local" / "share" / "fonts").symlink_to(fonts)
            browser = Browser(home)
            try:
                photograph(Photographer(browser, target), url)
            finally:
                browser.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
