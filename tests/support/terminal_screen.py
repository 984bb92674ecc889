"""The screen of a terminal in tests: pyte, and what pyte does not know."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import pyte
from wcwidth import wcwidth

SEQUENCE = re.compile(
    rb"\x1b\[(?P<mark>[?<>=]?)(?P<parameters>[0-9;:]*)(?P<more>[ -/]*)(?P<final>[@-~])"
    rb"|\x1b(?P<kind>[]P_])(?P<string>[^\x07\x1b]*)(?:\x07|\x1b\\)"
)
UNFINISHED = re.compile(
    rb"(?:\x1b(?:\[[0-?]*[ -/]*|[]P_][^\x07\x1b]*\x1b?)?"
    rb"|[\xc0-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf7][\x80-\xbf]{0,2})\Z"  # a character in UTF-8
)


NARROW = "\u10ff"  # no character up to here is wide
DRAWING = frozenset(b"mKABCDJ")  # the ends of sequences that only draw: nothing but pyte must see them


class Screen(pyte.HistoryScreen):
    """pyte, with the resize of a terminal that cuts rows and does not reflow, and keeps the cursor on its row."""

    @property
    def display(self) -> list[str]:
        """The rows as text; where half of a wide character was overwritten, pyte itself fails."""
        return [self._text(row) for row in range(self.lines)]

    def _text(self, row: int) -> str:
        line = self.buffer[row]
        text = "".join([line[column].data for column in range(self.columns)])
        if text.isascii() and len(text) == self.columns:
            return text
        parts: list[str] = []
        column = 0
        while column < self.columns:
            data = line[column].data
            parts.append(data or " ")
            column += 2 if data and data[0] > NARROW and wcwidth(data[0]) == 2 else 1
        return "".join(parts)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        lines, columns = lines or self.lines, columns or self.columns
        for _ in range(max(0, self.cursor.y - lines + 1)):
            self.history.top.append(copy.copy(self.buffer[0]))
            for row in range(self.lines):
                self.buffer[row] = self.buffer[row + 1]
            self.cursor.y -= 1
        for row in [row for row in self.buffer if row >= lines]:
            del self.buffer[row]
        for line in self.buffer.values():
            for column in [column for column in line if column >= columns]:
                del line[column]
        self.lines, self.columns = lines, columns
        self.margins = None
        self.cursor.x = min(self.cursor.x, columns - 1)
        self.dirty.update(range(lines))


class Recorder:
    """What pyte does not know: modes, hyperlinks, titles; every private mode that is on."""

    def __init__(self) -> None:
        self.modes: set[str] = set()
        self.links: list[str] = []
        self.titles: list[str] = []
        self.frames = 0

    def record(self, match: re.Match[bytes]) -> bool:
        """True if pyte should see the sequence."""
        if match["kind"]:
            self._string(match["kind"], match["string"].decode(errors="replace"))
            return False
        mark, parameters, final = match["mark"].decode(), match["parameters"].decode(), match["final"].decode()
        match (mark, final):
            case ("?", "h" | "l"):
                for number in parameters.split(";"):
                    self._mode(number, final == "h")
                return parameters in ("25", "7")
            case (">", "u"):
                self.modes.add("kitty")
            case ("<", "u"):
                self.modes.discard("kitty")
            case (">", "m"):
                self._mode("otherKeys", not parameters.endswith(";0") and parameters != "4")
            case ("", "t"):
                self._mode("title", parameters.startswith("22"))
            case ("", _):
                return not match["more"]
        return False

    def _mode(self, number: str, on: bool) -> None:
        self.frames += number == "2026" and on
        if number in ("25", "7"):
            on = not on  # the cursor is visible, and lines wrap, by default
        (self.modes.add if on else self.modes.discard)(number)

    def _string(self, kind: bytes, text: str) -> None:
        if kind == b"]" and text.startswith("8;"):
            self.links.append(text.split(";", 2)[2])
        elif kind == b"]" and text.startswith(("0;", "2;")):
            self.titles.append(text[2:])


class Emulator:
    """Feeds pyte with the output of a program; the alternate screen is a screen of its own."""

    def __init__(self, rows: int, columns: int) -> None:
        self.recorder = Recorder()
        self.screen = Screen(columns, rows, history=1_000_000, ratio=0.5)
        self._other: Screen | None = None  # the main screen, while the alternate one is shown
        self._unfinished = b""
        self._kitty_keys: set[str] = set()  # of the main screen, while the alternate one is shown

    def feed(self, data: bytes, answer: Callable[[bytes], bool]) -> None:
        """`answer` sees every sequence, and returns whether it was a question."""
        data = self._unfinished + data
        cut = match.start() if (match := UNFINISHED.search(data)) else len(data)
        data, self._unfinished = data[:cut], data[cut:]
        stream = pyte.ByteStream(self.screen)
        position = 0
        for match in SEQUENCE.finditer(data):
            if match["final"] and match["final"][0] in DRAWING and not match["mark"] and not match["more"]:
                continue  # it is fed with the text around it
            stream.feed(data[position : match.start()])
            position = match.end()
            if match[0] in (b"\x1b[?1049h", b"\x1b[?1049l"):
                self._switch(alternate=match[0].endswith(b"h"))
                stream = pyte.ByteStream(self.screen)
            if not answer(match[0]) and self.recorder.record(match):
                stream.feed(match[0])
        stream.feed(data[position:])

    def resize(self, rows: int, columns: int) -> None:
        for screen in (self.screen, self._other):
            if screen is not None:
                screen.resize(rows, columns)

    def _switch(self, *, alternate: bool) -> None:
        if alternate and self._other is None:
            self._other, self.screen = self.screen, Screen(self.screen.columns, self.screen.lines)
            self._kitty_keys = self.recorder.modes & {"kitty"}  # each screen has its own
            self.recorder.modes -= self._kitty_keys
        elif not alternate and self._other is not None:
            self.screen, self._other = self._other, None
            assert "kitty" not in self.recorder.modes, "the keys of the alternate screen were left on"
            self.recorder.modes |= self._kitty_keys
