"""Questions to the person at the terminal: of `--permissions`, and of extensions.

The agent's thread puts them here, the main thread, which has the terminal, asks
them one by one. Whatever is no clear yes is a no: an empty line, the end of input,
a Ctrl-C, the end of the time. What was typed before a question could be read is no
answer to it. What is asked about was written by a model: it is shown with every
character that would not be seen spelled out, and cannot be taken for our own words.
"""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from tau.core.text.terminal_text import visible
from tau.records.dialogs import Confirm, Editor, Input, Select
from tau.runtime.extensions.dialogs import Dialogs, Question
from tau.runtime.terminal import say, stream

PORTION = 4096  # a terminal hands over no longer line


class Desk:
    """`post` has something done in the agent's thread."""

    def __init__(self, post: Callable[..., object]) -> None:
        self._post = post
        self._dialogs: Dialogs | None = None
        self._waiting: SimpleQueue[Question | None] = SimpleQueue()
        self._open: set[str] = set()
        self._told, self._tell = os.pipe()
        os.set_blocking(self._tell, False)

    # In the agent's thread.

    def attend(self, dialogs: Dialogs) -> None:
        """From now on there is somebody who answers."""
        self._dialogs = dialogs
        dialogs.has_ui = True
        dialogs.over = self._over

    def put(self, question: Question) -> None:
        self._open.add(question.id)
        self._waiting.put(question)

    def nudge(self) -> None:
        """Whoever waits in `next` need not."""
        self._waiting.put(None)

    def _over(self, id: str) -> None:
        self._open.discard(id)
        with suppress(BlockingIOError):  # it is full of reasons to look
            os.write(self._tell, b".")

    # In the main thread.

    def next(self) -> Question | None:
        """The next question; None if there was a nudge."""
        return self._waiting.get()

    def here(self) -> list[Question]:
        """What has come meanwhile. Nobody nudges when this is asked."""
        found: list[Question] = []
        with suppress(Empty):
            while True:
                if (question := self._waiting.get_nowait()) is not None:
                    found.append(question)
        return found

    def ask(self, question: Question) -> None:
        if question.id not in self._open:
            return
        with suppress(termios.error):
            termios.tcflush(0, termios.TCIFLUSH)
        stream(told(question))
        line = self._line(question.id)
        if question.id not in self._open:
            say()
            say("Nobody waits for an answer any more.")
            return
        if line is None:
            say()
        self._open.discard(question.id)
        assert self._dialogs is not None
        self._post(self._dialogs.answer, {"id": question.id, **read(question, line)})

    def _line(self, id: str) -> str | None:
        """What is typed; None if that is no line, or the question is over."""
        while id in self._open:
            ready = select.select([0, self._told], [], [])[0]
            if self._told in ready:
                os.read(self._told, PORTION)
                continue
            try:
                typed = os.read(0, PORTION)
            except OSError:  # the terminal is gone
                return None
            return typed.decode(errors="replace").rstrip("\r\n") if typed.endswith(b"\n") else None
        return None


def told(question: Question) -> str:
    """A question, as a person reads it."""
    first, *more = question.title.split("\n")
    if isinstance(question, Confirm):
        more += question.message.split("\n")
    if isinstance(question, Editor) and isinstance(question.prefill, str):
        more += question.prefill.split("\n")
    while more and not more[0]:
        del more[0]
    lines = [visible(first), *(f"  | {visible(line)}" for line in more)]
    if isinstance(question, Select):
        lines += [f"  {number} {visible(option)}" for number, option in enumerate(question.options, 1)]
    timeout = getattr(question, "timeout", None)
    return "\n".join((*lines, _wanted(question) + (f" ({timeout / 1000:g} s)" if timeout else "") + ": "))


def _wanted(question: Question) -> str:
    match question:
        case Select():
            return f"1 to {len(question.options)}; anything else is a no"
        case Confirm():
            return "y for yes; anything else is a no"
        case Editor():
            return "One line instead; nothing leaves it as it is"
        case Input(placeholder=str(example)):
            return f"Such as {visible(example)}"
    return "One line"


def read(question: Question, line: str | None) -> dict[str, Any]:
    """The answer that a line is; none if there is no line."""
    if line is None:
        return {"cancelled": True}
    word = line.strip()
    match question:
        case Confirm():
            return {"confirmed": word.lower() in ("y", "yes")}
        case Select(options=options):
            chosen = options[int(word) - 1 : int(word)] if word.isascii() and word.isdigit() and word != "0" else []
            return {"value": chosen[0]} if chosen else {"cancelled": True}
        case Editor(prefill=str(before)) if not word:
            return {"value": before}
    return {"value": line}
