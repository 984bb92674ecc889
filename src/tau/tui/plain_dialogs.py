"""Dialogs at the terminal: questions of `--permissions` and of extensions.

The agent's thread queues them; the main thread, which owns the terminal, asks them one by one. Anything but a clear
yes is a no: an empty line, the end of input, a Ctrl-C, a timeout. Input typed before a question was visible does not
answer it. The text of a question may come from a model: invisible characters are escaped, and it cannot be mistaken
for tau's own text.
"""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from tau.core.text.terminal_text import escape_hidden
from tau.records.dialogs import Confirm, Editor, Input, Select
from tau.runtime.extensions.dialogs import Dialogs, Question, asks_permission
from tau.runtime.terminal import say, stream

YES = ("y", "yes")
MAX_LINE_BYTES = 4096  # a terminal returns no longer line


class TerminalDialogs:
    """Queue of open dialogs. `post` runs a function in the agent's thread."""

    def __init__(self, post: Callable[..., object]) -> None:
        self._post = post
        self._dialogs: Dialogs | None = None
        self._queue: SimpleQueue[Question | None] = SimpleQueue()
        self._open: dict[str, str] = {}  # id of a question: what the call that it is about would change
        self._closed_read, self._closed_write = os.pipe()
        os.set_blocking(self._closed_write, False)

    # Called in the agent's thread.

    def attach(self, dialogs: Dialogs) -> None:
        """Answer the dialogs of a session from now on."""
        self._dialogs = dialogs
        dialogs.has_ui = True
        dialogs.over = self._on_closed

    def put(self, question: Question) -> None:
        details = None if self._dialogs is None else self._dialogs.details(question.id)
        self._open[question.id] = "" if details is None else details.diff
        self._queue.put(question)

    def wake(self) -> None:
        """Wake up a caller of `next`."""
        self._queue.put(None)

    def _on_closed(self, id: str) -> None:
        self._open.pop(id, None)
        with suppress(BlockingIOError):  # a full pipe wakes the reader up as well
            os.write(self._closed_write, b".")

    # Called in the main thread.

    def next(self) -> Question | None:
        """Wait for the next question; None after `wake`."""
        return self._queue.get()

    def take_queued(self) -> list[Question]:
        """The questions that have arrived meanwhile, without waiting."""
        found: list[Question] = []
        with suppress(Empty):
            while True:
                if (question := self._queue.get_nowait()) is not None:
                    found.append(question)
        return found

    def ask(self, question: Question) -> None:
        """Show a question and post the answer."""
        change = self._open.get(question.id)
        if change is None:
            return
        with suppress(termios.error):
            termios.tcflush(0, termios.TCIFLUSH)
        stream(render(question, change))
        line = self._line(question.id)
        if question.id not in self._open:
            say()
            say("The question is no longer open.")
            return
        if line is None:
            say()
        self._open.pop(question.id, None)
        assert self._dialogs is not None
        self._post(self._dialogs.answer, {"id": question.id, **parse_answer(question, line)})

    def _line(self, id: str) -> str | None:
        """The typed line; None if it is not a complete line, or the question was closed."""
        while id in self._open:
            ready = select.select([0, self._closed_read], [], [])[0]
            if self._closed_read in ready:
                os.read(self._closed_read, MAX_LINE_BYTES)
                continue
            try:
                typed = os.read(0, MAX_LINE_BYTES)
            except OSError:  # the terminal is gone
                return None
            return typed.decode(errors="replace").rstrip("\r\n") if typed.endswith(b"\n") else None
        return None


def render(question: Question, change: str = "") -> str:
    """A question as text. `change` is what the call that it is about would change."""
    first, *more = question.title.split("\n")
    if isinstance(question, Confirm):
        more += question.message.split("\n")
    if isinstance(question, Editor) and isinstance(question.prefill, str):
        more += question.prefill.split("\n")
    more += change.split("\n") if change else []
    while more and not more[0]:
        del more[0]
    lines = [escape_hidden(first), *(f"  | {escape_hidden(line)}" for line in more)]
    if isinstance(question, Select):
        lines += [f"  {number} {escape_hidden(option)}" for number, option in enumerate(question.options, 1)]
    timeout = getattr(question, "timeout", None)
    return "\n".join((*lines, _answer_hint(question) + (f" ({timeout / 1000:g} s)" if timeout else "") + ": "))


def _answer_hint(question: Question) -> str:
    match question:
        case Select():
            count = len(question.options)
            if asks_permission(question):
                return f"1 to {count}, or y to allow once; anything else means no"
            return f"1 to {count}; anything else cancels"
        case Confirm():
            return "y for yes; anything else means no"
        case Editor():
            return "One line to replace it; an empty line keeps it as it is"
        case Input(placeholder=str(example)):
            return f"For example {escape_hidden(example)}"
    return "One line"


def parse_answer(question: Question, line: str | None) -> dict[str, Any]:
    """The answer in a line; cancelled if there is no line."""
    if line is None:
        return {"cancelled": True}
    word = line.strip()
    match question:
        case Confirm():
            return {"confirmed": word.lower() in YES}
        case Select(options=options) if asks_permission(question) and word.lower() in YES:
            return {"value": options[0]}
        case Select(options=options):
            chosen = options[int(word) - 1 : int(word)] if word.isascii() and word.isdigit() and word != "0" else []
            return {"value": chosen[0]} if chosen else {"cancelled": True}
        case Editor(prefill=str(before)) if not word:
            return {"value": before}
    return {"value": line}
