"""Record a real run of the terminal interface as an animated SVG: `make recording`.

    python scripts/record_terminal.py [FILE]

A shell runs in a pseudo terminal; a scripted model repairs the small program of make_pictures.py with the real tools,
while a person types. What the program writes goes through a terminal emulator (pyte); every state of the screen is one
picture of a strip, which CSS moves. FILE is docs/media/recording.svg if not given.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]

from make_pictures import CHANGE, FONT, PROMPT, RUN_TEST, prepare  # noqa: E402

from support.terminal import Terminal  # noqa: E402

ROWS, COLUMNS = 28, 92
KEY_S = 0.045  # between two keys
MIN_FRAME_S = 0.06  # states that are shown for a shorter time are left out
MAX_PAUSE_S = 1.6
LAST_S = 4.0
MAX_BYTES = 300_000

STEERING = "Also test that midnight works."
OLD = "they are 12.4 hours apart."
NEW = "they are 12.4 hours apart. After 23.0 comes 11.4."


def words(text: str) -> list[str]:
    return [word + " " for word in text.split(" ")]


MODEL = {
    "answers": [
        {"blocks": [{"text": words("I run the test to see how it fails.")}, RUN_TEST], "delayMs": 60},
        {"blocks": [{"tool": "read", "arguments": {"path": "tides.py"}}]},
        {
            "blocks": [
                {"thinking": words("6.0 + 12.4 is 18.4, but % 12 makes 6.4 of it. A day has 24 hours.")},
                {"text": words("The result wraps at 12, but a day has 24 hours.")},
                {"tool": "edit", "arguments": CHANGE},
            ],
            "delayMs": 90,
        },
        {"blocks": [RUN_TEST], "delayMs": 60},
        {
            "blocks": [
                {
                    "tool": "edit",
                    "arguments": {
                        "path": "test_tides.py",
                        "oldText": 'print("passed")',
                        "newText": 'assert abs(next_high_tide(23.0) - 11.4) < 1e-9\nprint("passed")',
                    },
                },
                RUN_TEST,
            ],
            "delayMs": 60,
        },
        {
            "blocks": [
                {
                    "text": words(
                        "Both tests pass now:\n\n"
                        "| file | change |\n|---|---|\n"
                        "| `tides.py` | a day has 24 hours, not 12 |\n"
                        "| `test_tides.py` | a tide after midnight |\n\n"
                        "`next_high_tide(6.0)` gave **6.4** instead of **18.4**."
                    )
                }
            ],
            "delayMs": 45,
        },
        {
            "blocks": [
                {"text": words("I add an example to the docstring.")},
                {
                    "tool": "edit",
                    "arguments": {
                        "path": "tides.py",
                        "oldText": OLD,
                        "newText": NEW,
                    },
                },
            ],
            "delayMs": 60,
        },
        {"blocks": [{"text": words("The docstring of `next_high_tide` has an example now.")}], "delayMs": 45},
    ]
}


class Cell(NamedTuple):
    fill: str
    background: str
    bold: bool
    italic: bool
    underlined: bool


class Picture(NamedTuple):
    """A state of the screen: its rows as SVG, and the place of the cursor or None."""

    at: float
    rows: tuple[str, ...]
    cursor: tuple[int, int] | None


# Recording


class Recording(Terminal):
    """A terminal that keeps every state of its screen."""

    def __init__(self, *arguments: Any, **how: Any) -> None:
        self.pictures: list[Picture] = []
        self._started = time.monotonic()
        super().__init__(*arguments, rows=ROWS, cols=COLUMNS, **how)
        feed = self._emulator.feed

        def recorded(data: bytes, answer: Any) -> None:
            feed(data.replace(b"\x1b[2m", b"\x1b[90m"), answer)  # pyte does not know dim text
            self._take()

        self._emulator.feed = recorded  # type: ignore[method-assign]

    def _take(self) -> None:
        screen = self._emulator.screen
        rows = tuple(row_svg([screen.buffer[y][x] for x in range(COLUMNS)]) for y in range(ROWS))
        hidden = screen.cursor.hidden
        cursor = None if hidden else (screen.cursor.y, min(screen.cursor.x, COLUMNS - 1))
        self.pictures.append(Picture(time.monotonic() - self._started, rows, cursor))

    def slowly(self, text: str) -> None:
        for character in text:
            self.type(character)
            self.pause(KEY_S)

    def pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._pump(left)


def record(folder: Path) -> list[Picture]:
    env = prepare(folder)
    who = ["-c", "user.name=tau", "-c", "user.email=tau@example.com"]
    for arguments in (["rm", "-q", "fix.json"], [*who, "commit", "-q", "--amend", "-m", "tides"]):
        subprocess.run(["git", *arguments], cwd=folder / "tides", env=env, check=True)
    (folder / "model.json").write_text(json.dumps(MODEL))
    shell = folder / "rc"
    shell.write_text(f"PS1='$ '\nalias tau='tau --model scripted --script {folder}/model.json'\n")
    settings = folder / "agent" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"quietStartup": False}))
    env |= {"COLORTERM": "truecolor", "SSH_CONNECTION": "", "TMUX": "", "HISTFILE": ""}
    command = ["bash", "--noprofile", "--rcfile", str(shell), "-i"]
    with Recording(command, env=env, cwd=str(folder / "tides")) as terminal:
        terminal.wait("$")
        play(terminal)
        return terminal.pictures


def play(terminal: Recording) -> None:
    """What the person does."""
    terminal.pause(0.6)
    terminal.slowly("tau\r")
    terminal.wait("──")
    terminal.pause(1.0)
    terminal.slowly(PROMPT)
    terminal.pause(0.4)
    terminal.slowly("\r")
    terminal.wait("I run the test")
    terminal.slowly(STEERING + "\r")
    terminal.wait("instead of 18.4")
    terminal.wait(lambda shown: "Working" not in shown)
    terminal.pause(2.0)
    terminal.slowly("!git diff --stat\r")
    terminal.wait("2 files changed")
    terminal.pause(1.5)
    answer_a_question(terminal)
    look_around(terminal)
    terminal.press("ctrl+d")
    terminal.wait("Continue:")
    terminal.pause(1.5)
    resume(terminal)


def answer_a_question(terminal: Recording) -> None:
    """From now on, tau asks before it changes something."""
    terminal.slowly("/permissions ask\r")
    terminal.wait("Permissions: ask")
    terminal.pause(1.0)
    terminal.slowly("Put an example into the docstring.\r")
    terminal.wait("Deny")
    terminal.pause(2.5)
    terminal.press("up")
    terminal.pause(0.6)
    terminal.press("up")
    terminal.pause(0.8)
    terminal.press("enter")
    terminal.wait("an example now.")
    terminal.wait(lambda shown: "Working" not in shown)
    terminal.pause(1.5)


def look_around(terminal: Recording) -> None:
    """The tree of the session, the whole transcript, and the models."""
    terminal.slowly("/tree\r")
    terminal.wait("Tree:")
    terminal.pause(1.2)
    for _ in range(3):
        terminal.press("up")
        terminal.pause(0.35)
    terminal.pause(0.8)
    terminal.type("\x1b[27u")
    terminal.wait(lambda shown: "Tree:" not in shown)
    terminal.pause(0.6)
    terminal.type("\x1bo")
    terminal.wait("q leaves")
    terminal.pause(1.2)
    for _ in range(2):
        terminal.press("pageUp")
        terminal.pause(1.0)
    terminal.slowly("q")
    terminal.wait(lambda shown: "q leaves" not in shown)
    terminal.pause(0.8)
    terminal.slowly("/")
    terminal.wait("settings")
    terminal.pause(1.0)
    terminal.slowly("set")
    terminal.pause(1.0)
    terminal.slowly("\r")
    terminal.wait("Settings · yours")
    terminal.pause(0.8)
    terminal.slowly("theme")
    terminal.pause(1.5)
    terminal.type("\x1b[27u")
    terminal.pause(0.3)
    terminal.type("\x1b[27u")
    terminal.wait(lambda shown: "Settings" not in shown)
    terminal.pause(0.8)


def resume(terminal: Recording) -> None:
    """Another day."""
    terminal.slowly("tau --resume\r")
    terminal.wait("Sessions")
    terminal.pause(1.5)
    terminal.slowly("\r")
    terminal.wait("an example now.")
    terminal.pause(2.0)
    terminal.press("ctrl+d")
    terminal.wait("$")
    terminal.wait_quiet()


# Drawing

CELL, LINE, MARGIN, BAR = 8.4, 19, 16, 34
FOREGROUND, BACKGROUND = "#dedad1", "#1d1b18"
NAMED = {
    "black": "#4a463f", "red": "#e58a7d", "green": "#9cc78d", "brown": "#d9b27a", "blue": "#8fb1d9",
    "magenta": "#c9a0d0", "cyan": "#8cc5c0", "white": "#dedad1",
    "brightblack": "#8b867b", "brightred": "#e58a7d", "brightgreen": "#9cc78d", "brightbrown": "#d9b27a",
    "brightblue": "#8fb1d9", "brightmagenta": "#c9a0d0", "brightcyan": "#8cc5c0", "brightwhite": "#ffffff",
}  # fmt: skip


def style(cell: Any) -> Cell:
    fill, background = colour(cell.fg, FOREGROUND), colour(cell.bg, "")
    if cell.reverse:
        fill, background = background or BACKGROUND, fill
    return Cell(fill, background, cell.bold, cell.italics, cell.underscore)


def colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return NAMED.get(name) or f"#{name}"


def row_svg(cells: Sequence[Any]) -> str:
    """The text of a row, each part where its cells are, on their background."""
    parts, backgrounds = [], []
    for at, text, look in spans(cells):
        if look.background:
            backgrounds.append(
                f'<rect x="{at * CELL:g}" width="{len(text) * CELL:g}" height="{LINE}" fill="{look.background}"/>'
            )
        if text.strip():
            marks = "".join(
                word
                for word, wanted in (
                    (f' fill="{look.fill}"', look.fill != FOREGROUND),
                    (' font-weight="700"', look.bold),
                    (' font-style="italic"', look.italic),
                    (' text-decoration="underline"', look.underlined),
                )
                if wanted
            )
            parts.append(f'<tspan x="{at * CELL:g}"{marks}>{escape(text.rstrip(), quote=False)}</tspan>')
    return "".join(backgrounds) + (f'<text y="14">{"".join(parts)}</text>' if parts else "")


def spans(cells: Sequence[Any]) -> Iterator[tuple[int, str, Cell]]:
    """Neighbouring cells of one style: the column, the text and the style."""
    start, text, look = 0, "", style(cells[0])
    for at, cell in enumerate(cells):
        this = style(cell)
        if this != look:
            yield start, text, look
            start, text, look = at, "", this
        text += cell.data or " "
    yield start, text, look


def timeline(pictures: Sequence[Picture]) -> list[Picture]:
    """The pictures that are shown, with long pauses shortened. The last state before a longer one wins."""
    shown: list[Picture] = []
    now = 0.0
    for picture, after in zip(pictures, [*pictures[1:], None], strict=True):
        lasts = after.at - picture.at if after is not None else LAST_S
        if shown and shown[-1][1:] == picture[1:]:
            now += min(lasts, MAX_PAUSE_S)
        elif shown and now - shown[-1].at < MIN_FRAME_S:
            shown[-1] = picture._replace(at=shown[-1].at)
            now += min(lasts, MAX_PAUSE_S)
        else:
            shown.append(picture._replace(at=now))
            now += min(lasts, MAX_PAUSE_S)
    return [*shown, Picture(now + LAST_S, (), None)]


def animation(pictures: Sequence[Picture]) -> str:
    *pictures, end = timeline(pictures)
    width, height = round(COLUMNS * CELL) + 2 * MARGIN, ROWS * LINE + BAR + MARGIN
    numbers: dict[str, int] = {}
    for picture in pictures:
        for row in picture.rows:
            if row:
                numbers.setdefault(row, len(numbers))
    strip = round(COLUMNS * CELL)
    moves = "".join(
        f"{picture.at / end.at:.3%}{{transform:translateX({-strip * number}px)}}"
        for number, picture in enumerate(pictures)
    )
    rows = "".join(f'<g id="r{number}">{row}</g>' for row, number in numbers.items())
    frames = "".join(_frame(picture, number * strip, numbers) for number, picture in enumerate(pictures))
    dots = "".join(
        f'<circle cx="{MARGIN + 18 * at + 4}" cy="17" r="6" fill="{fill}"/>'
        for at, fill in enumerate(("#e58a7d", "#d9b27a", "#9cc78d"))
    )
    last = -strip * (len(pictures) - 1)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>tau repairs a failing test in a terminal</title>
<style>
@keyframes s{{{moves}}}
.s{{animation:s {end.at:.1f}s step-end infinite}}
@media (prefers-reduced-motion:reduce){{.s{{animation:none;transform:translateX({last}px)}}}}
text{{white-space:pre}}
</style>
<rect width="{width}" height="{height}" rx="10" fill="{BACKGROUND}"/>
{dots}
<defs>{rows}</defs>
<svg x="{MARGIN}" y="{BAR}" width="{strip}" height="{ROWS * LINE}">
<g class="s" font-family="{FONT}" font-size="14" fill="{FOREGROUND}">
{frames}
</g>
</svg>
</svg>
"""


def _frame(picture: Picture, x: int, numbers: dict[str, int]) -> str:
    uses = "".join(
        f'<use href="#r{numbers[row]}"{f" y={chr(34)}{LINE * at}{chr(34)}" if at else ""}/>'
        for at, row in enumerate(picture.rows)
        if row
    )
    if picture.cursor is not None:
        row, column = picture.cursor
        size = f'width="{CELL}" height="{LINE}"'
        uses += f'<rect x="{column * CELL:g}" y="{row * LINE}" {size} fill="{FOREGROUND}" opacity=".6"/>'
    return f'<g transform="translate({x})">{uses}</g>\n'


def main(arguments: Sequence[str]) -> None:
    target = Path(arguments[0]) if arguments else ROOT / "docs" / "media" / "recording.svg"
    with tempfile.TemporaryDirectory(prefix="tau-recording-") as folder:
        made = animation(record(Path(folder)))
    if len(made.encode()) > MAX_BYTES:
        raise SystemExit(f"{len(made.encode()):,} bytes are more than {MAX_BYTES:,}: make the scene shorter")
    target.write_text(made, encoding="utf-8")
    print(f"{target}: {len(made.encode()):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
