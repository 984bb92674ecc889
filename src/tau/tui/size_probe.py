"""Asks tmux for the size of its grid before and after each frame.

tmux changes its grid at once when its window changes, and tells the program up to 250 ms later. What is drawn in
between is drawn at the wrong place: words get lost, or old boxes stay in the history. The question before a frame
avoids nearly all of that; the one after it tells whether the frame was drawn on a grid of another size. Other
terminals tell at once and are not asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal

QUESTION = b"\x1b[18t"
REPLY = "window"  # the name of the reply
TIMEOUT_S = 0.2
VALID_S = 0.01  # an answer is good for a frame that follows at once
MAX_WITHOUT_ANSWER = 3  # questions; then the terminal is not asked any more
MAX_DIFFERENT = 20  # answers without a change of the size that the system tells; then their size is not believed


class SizeProbe:
    """`ask` sends the question. `answered` is called with whether the grid has the size that the program knows."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ask: Callable[[bytes], None],
        size: Callable[[], tuple[int, int]],
        answered: Callable[[bool], None],
    ) -> None:
        self._loop = loop
        self._ask = ask
        self._size = size
        self._answered = answered
        self._asked: deque[Literal["before", "after"]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._certain_until = 0.0
        self._unanswered = 0
        self._different = 0
        self.misplaced = False  # a frame was drawn on a grid of another size

    @property
    def waiting(self) -> int:
        """How many answers are on their way."""
        return len(self._asked)

    @property
    def _off(self) -> bool:
        return self._unanswered >= MAX_WITHOUT_ANSWER or self._different >= MAX_DIFFERENT

    def take(self) -> bool:
        """Whether a frame may be drawn now. If not, the question is asked, and `answered` is called."""
        if self._off:
            return True
        if self._loop.time() < self._certain_until:
            self._certain_until = 0.0
            return True
        if "before" not in self._asked:
            self._send("before")
        return False

    def check(self) -> None:
        """A frame was written."""
        if not self._off:
            self._send("after")

    def reply(self, value: str) -> bool:
        """Take a reply; False if it is not about the size."""
        kind, *numbers = value.split(";")
        if kind != "8" or len(numbers) != 2 or not all(map(str.isdigit, numbers)):
            return False
        self._unanswered = 0
        about = self._asked.popleft() if self._asked else "after"  # late: frames were drawn meanwhile
        self._cancel()
        if self._asked:
            self._timer = self._loop.call_later(TIMEOUT_S, self._give_up)
        answer = int(numbers[0]), int(numbers[1])
        equal = tuple(self._size()) in (answer, answer[::-1])  # before 3.4, tmux says the columns first
        self._different = 0 if equal else self._different + 1
        if about == "after":
            self.misplaced = self.misplaced or not equal
        if about == "before" and equal:
            self._certain_until = self._loop.time() + VALID_S
        if about == "before" or not equal:
            self._answered(equal)
        return True

    def stop(self) -> None:
        """The terminal is for another program now."""
        self._asked.clear()
        self._certain_until = 0.0
        self._cancel()

    def _send(self, about: Literal["before", "after"]) -> None:
        self._asked.append(about)
        if self._timer is None:
            self._timer = self._loop.call_later(TIMEOUT_S, self._give_up)
        self._ask(QUESTION)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self._asked.clear()
        self._unanswered += 1
        self._certain_until = self._loop.time() + VALID_S
        self._answered(True)
