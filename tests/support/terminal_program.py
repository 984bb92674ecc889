"""A small program at a terminal, for tests of tau.tui.terminal: shows every event, and ends in the way a key says."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from tau.screen.input_events import InputEvent, Key, Paste
from tau.tui.terminal import Terminal


class Program:
    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.done = asyncio.get_running_loop().create_future()
        self.frames = 0
        terminal.on_input(self.input)
        terminal.on_resize(lambda: None, lambda rows, columns: self.say(f"size {rows} {columns}"))
        terminal.on_resume(lambda: self.say("resumed"))
        terminal.on_ready(self.is_ready)
        terminal.on_hand_over(lambda: b"handed over\r\n")
        if "orderly" in sys.argv:
            terminal.on_exit(lambda number: self.done.set_result(f"signal {number}"))
        elif "stubborn" in sys.argv:
            terminal.on_exit(lambda number: self.say(f"signal {number}"))

    def say(self, text: str) -> None:
        self.terminal.write(f"{text}\r\n".encode())

    def input(self, events: list[InputEvent]) -> None:
        for event in events:
            if isinstance(event, Paste) and len(event.text) > 100:
                self.say(f"paste of {len(event.text)}")
            else:
                self.say(repr(event))
            if isinstance(event, Key):
                self.key(event.id)

    def key(self, key: str) -> None:
        match key:
            case "q":
                self.done.set_result("quit")
            case "e":
                self.done.set_exception(RuntimeError("an error"))
            case "s":
                sys.exit(3)
            case "t":
                self.terminal.set_title("a\x1b]0;evil\x07 title")
            case "h":
                self.terminal.write(b"\x1b[?25l")
            case "ctrl+z":
                self.terminal.suspend()
            case "o":
                with self.terminal.handed_over():
                    subprocess.run(["stty", "-a"], check=False)
            case "f":  # frames without end, each made when the one before is written
                self.frames = 1
                self.is_ready()
            case "b":
                os.write(1, b"blocking: %s\r\n" % str(os.get_blocking(0) and os.get_blocking(1)).encode())

    def is_ready(self) -> None:
        while self.frames and self.terminal.ready:
            self.frames += 1
            self.terminal.write(b"\x1b[?2026h" + b"x" * 20_000 + b"\x1b]8;;http://x\x1b\\" * 100 + b"\x1b[?2026l")


async def main() -> None:
    terminal = Terminal.open(asyncio.get_running_loop())
    program = Program(terminal)
    program.say("started")
    try:
        program.say(await program.done)
    finally:
        if "careless" not in sys.argv:
            terminal.close()


if __name__ == "__main__":
    if "late" in sys.argv:
        input("press enter: ")
    asyncio.run(main())
    if "quiet" not in sys.argv:
        print("bye", flush=True)
