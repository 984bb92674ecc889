"""Make the pictures of README.md from a real run: `make pictures`.

    python scripts/make_pictures.py [--check]

A scripted model repairs a small program with the real tools; docs/media/terminal.svg shows the commands and what they
printed, docs/media/export.png the exported session in Chromium. --check compares terminal.svg and writes nothing.
Without Chromium only terminal.svg is made.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import NamedTuple

MEDIA = Path(__file__).parents[1] / "docs" / "media"
SCRIPTS = Path(sys.executable).parent

PROGRAM = '''\
def next_high_tide(hour: float) -> float:
    """The hour of the next high tide; they are 12.4 hours apart."""
    return (hour + 12.4) % 12
'''
TEST = """\
from tides import next_high_tide

assert next_high_tide(6.0) == 18.4, f"expected 18.4, got {next_high_tide(6.0):.1f}"
print("passed")
"""
ANSWER = """\
The test passes now. `next_high_tide` wrapped at 12 hours instead of 24, so 6.0
gave 6.4 instead of 18.4. I changed one line in `tides.py`."""
RUN_TEST = {"tool": "bash", "arguments": {"command": "python3 test_tides.py"}}
CHANGE = {"path": "tides.py", "oldText": "(hour + 12.4) % 12", "newText": "(hour + 12.4) % 24"}
MODEL = {
    "answers": [
        {"blocks": [{"text": "I run the test to see how it fails."}, RUN_TEST]},
        {"blocks": [{"tool": "read", "arguments": {"path": "tides.py"}}]},
        {
            "blocks": [
                {"thinking": "6.0 + 12.4 is 18.4, but % 12 makes 6.4 of it. A day has 24 hours."},
                {"text": "The result wraps at 12, but a day has 24 hours."},
                {"tool": "edit", "arguments": CHANGE},
            ]
        },
        {"blocks": [RUN_TEST]},
        {"text": ANSWER},
    ]
}
PROMPT = "The test fails. Find out why and fix it."
COMMANDS = (
    "python3 test_tides.py 2>&1 | tail -1",
    f'pi -p --model scripted --script fix.json "{PROMPT}"',
    "git diff --unified=0 | tail -2",
    "python3 test_tides.py",
)


class Shown(NamedTuple):
    command: str
    output: str


def prepare(folder: Path) -> dict[str, str]:
    """Write the project, and return the environment for the commands."""
    work = folder / "tides"
    work.mkdir()
    for name, text in (("tides.py", PROGRAM), ("test_tides.py", TEST), ("fix.json", json.dumps(MODEL))):
        (work / name).write_text(text)
    env = {
        "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
        "HOME": str(folder),
        "PI_CODING_AGENT_DIR": str(folder / "agent"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    who = ["-c", "user.name=tau", "-c", "user.email=tau@example.com"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "tides"]):
        subprocess.run(["git", *words], cwd=work, env=env, check=True)
    return env


def run(folder: Path, env: dict[str, str]) -> list[Shown]:
    shown = []
    for command in COMMANDS:
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder / "tides", env=env, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=120,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{command}: {done.stdout}{done.stderr}")
        shown.append(Shown(command, done.stdout))
    return shown


# The terminal

CELL, LINE, MARGIN, BAR = 8.4, 20, 20, 36
COLOURS = {"$ ": "#9cc78d", "+  ": "#9cc78d", "-  ": "#e58a7d", "AssertionError": "#e58a7d"}  # by the start of a line
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"


def svg(shown: list[Shown]) -> str:
    lines = [line for one in shown for line in (f"$ {one.command}", *one.output.rstrip("\n").split("\n"), "")][:-1]
    width = MARGIN * 2 + round(max(map(len, lines)) * CELL)
    height = BAR + MARGIN + len(lines) * LINE
    dots = "".join(
        f'<circle cx="{MARGIN + 18 * at}" cy="18" r="6" fill="{colour}"/>'
        for at, colour in enumerate(("#e58a7d", "#d9b27a", "#9cc78d"))
    )
    rows = "\n".join(_row(line, BAR + 14 + LINE * at) for at, line in enumerate(lines) if line)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>tau repairs a failing test in a terminal</title>
<rect width="{width}" height="{height}" rx="10" fill="#1d1b18"/>
{dots}
<g font-family="{FONT}" font-size="14" fill="#dedad1">
{rows}
</g>
</svg>
"""


def _row(line: str, y: int) -> str:
    fill = "".join(f' fill="{colour}"' for start, colour in COLOURS.items() if line.startswith(start))
    bold = ' font-weight="600"' if line.startswith("$ ") else ""
    return f'<text x="{MARGIN}" y="{y}"{fill}{bold} xml:space="preserve">{escape(line)}</text>'


def screenshot(folder: Path, env: dict[str, str]) -> bool:
    """Export the session and take a picture of it; False without Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        return False
    (session,) = (folder / "agent").rglob("*.jsonl")
    page = folder / "session.html"
    subprocess.run(["pi", "--export", session, page], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb"]
    places = [f"--user-data-dir={folder / 'chromium'}", f"--screenshot={MEDIA / 'export.png'}"]
    command = [chromium, *flags, *places, "--window-size=1280,1420", page.as_uri()]
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=120)
    return True


def main(words: list[str]) -> int:
    target = MEDIA / "terminal.svg"
    with tempfile.TemporaryDirectory(prefix="tau-") as name:
        folder = Path(name)
        env = prepare(folder)
        picture = svg(run(folder, env))
        if words == ["--check"]:
            same = target.read_text(encoding="utf-8") == picture
            print("" if same else f"{target} is out of date: make pictures", end="", file=sys.stderr)
            return 0 if same else 1
        target.write_text(picture, encoding="utf-8")
        if not screenshot(folder, env):
            print("Chromium was not found: docs/media/export.png was not made", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
