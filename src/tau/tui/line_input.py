"""Prompts typed or pasted at a terminal. Several pasted lines are one prompt.

Terminals that mark a paste (bracketed paste) leave it to readline, which inserts the lines and waits for Enter. Other
pastes, and those made while nothing reads the terminal, look like typing: lines that arrive together are taken as one
prompt, because sending each line as a prompt of its own costs money and makes no sense.
"""

from __future__ import annotations

import os
import readline
import select
import sys
from collections.abc import Callable

TOGETHER_S = 0.05  # lines that arrive within this time are a paste; no person types a line so fast
CHUNK_BYTES = 65536
END_OF_INPUT = "\x04"  # Ctrl-D
CONTINUATION = ". "


def accept_pastes() -> None:
    """Let readline handle marked pastes: Python switches that off. libedit does not know the setting."""
    if "libedit" not in (readline.__doc__ or "") and os.environ.get("TERM", "dumb") != "dumb":
        readline.parse_and_bind("set enable-bracketed-paste on")


class LineInput:
    """`is_command` tells commands, which are complete by themselves if they are the first or last of several lines."""

    def __init__(self, prompt: str, is_command: Callable[[str], bool]) -> None:
        self._prompt = prompt
        self._is_command = is_command
        self._ended = False
        self._command: str | None = None  # arrived with the prompt before it

    def read(self) -> str:
        """The next prompt. Raises EOFError at the end of input, and what signal handlers raise."""
        if self._command is not None:
            line, self._command = self._command, None
            return line
        if self._ended:
            raise EOFError
        line = input(self._prompt)
        if self._is_command(line):
            return line
        lines = [line]
        while more := self._pending():
            *complete, rest = more.split("\n")
            lines += complete
            if rest and not self._ended:
                lines.append(self._edit(rest))
        if len(lines) > 1 and self._is_command(lines[-1]):
            self._command = lines.pop()
        return "\n".join(lines)

    def _pending(self) -> str:
        """What has arrived since the last line, without waiting for more."""
        pieces = b""
        while not self._ended and select.select([0], [], [], TOGETHER_S)[0]:
            try:
                piece = os.read(0, CHUNK_BYTES)
            except OSError:  # the terminal is gone
                piece = b""
            self._ended = not piece or END_OF_INPUT.encode() in piece
            pieces += piece.partition(END_OF_INPUT.encode())[0]
        return pieces.decode("utf-8", "replace").replace("\r", "\n")

    def _edit(self, text: str) -> str:
        """Let the user finish the last line of a paste, which did not end with a line break."""
        readline.set_startup_hook(lambda: readline.insert_text(text))
        try:
            return input(CONTINUATION)
        finally:
            readline.set_startup_hook(None)


class PipedInput:
    """Prompts from a file or a pipe, one per line. No prompt is printed."""

    def read(self) -> str:
        """The next line. Raises EOFError at the end of input. Bytes that are not UTF-8 are replaced."""
        line = sys.stdin.buffer.readline()
        if not line:
            raise EOFError
        return line.decode("utf-8", "replace").rstrip("\r\n")
