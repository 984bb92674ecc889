"""A program with a transcript and a box below it, for tests of resizing.

Arguments: how many words it shows, and how many in a second. The box shows the size of the screen; the key q ends it.
"""

from __future__ import annotations

import asyncio
import sys

from tau.screen.cells import wrap_line
from tau.screen.frame import Cursor, Frame
from tau.screen.input_events import InputEvent, Key
from tau.screen.lines import Line, line
from tau.screen.painter import Painter
from tau.screen.styles import Palette
from tau.tui.terminal import Terminal

WORDS_PER_PARAGRAPH = 5  # one row at every width of the tests: what is printed is never wrapped again


class Program:
    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.painter = Painter(*terminal.size, Palette())
        self.done = asyncio.Event()
        self.words = 0
        self.unfinished: list[str] = []
        self.settled: list[Line] = []  # from `first` on
        self.first = 0
        self.live_top = 0  # the row after those that were settled in the last frame
        terminal.on_input(self.input)
        terminal.on_ready(self.paint)
        terminal.on_resize(lambda: None, self.resize)

    def input(self, events: list[InputEvent]) -> None:
        if Key("q", "q") in events:
            self.done.set()

    def resize(self, rows: int, columns: int) -> None:
        self.painter.resize(rows, columns, reflows=self.terminal.reflows, live_top=self.live_top)
        self.paint()

    def add_word(self) -> None:
        self.unfinished.append(f"w{self.words}.")
        self.words += 1
        if len(self.unfinished) == WORDS_PER_PARAGRAPH:
            self.settle()
        self.paint()

    def settle(self) -> None:
        self.settled += self.tail()
        self.unfinished = []

    def tail(self) -> list[Line]:
        return wrap_line(line(" ".join(self.unfinished)), max(1, self.terminal.size.columns - 1))

    def paint(self) -> None:
        if not self.terminal.ready:
            return
        rows, columns = self.terminal.size
        gone = self.painter.first_visible - self.first
        if gone > 0:
            del self.settled[:gone]
            self.first = self.painter.first_visible
        self.live_top = self.first + len(self.settled)
        rule = line("─" * (columns - 1), "border")
        body = [*self.settled, *self.tail()]
        box = [rule, line(f"box {rows} {columns}"), rule, line("footer")]
        cursor = Cursor(self.first + len(body) + 1, 4)
        self.terminal.write(self.painter.paint(Frame(self.first, (*body, *box), cursor)))


async def main(words: int, rate: float) -> None:
    terminal = Terminal.open(asyncio.get_running_loop())
    program = Program(terminal)
    for _ in range(words):
        program.add_word()
        if rate:
            await asyncio.sleep(1 / rate)
    program.settle()
    program.paint()
    await program.done.wait()
    terminal.write(program.painter.leave(program.first + len(program.settled)))
    terminal.close()


if __name__ == "__main__":
    print("printed before")
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
    print("printed after")
