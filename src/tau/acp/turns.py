"""The prompts of a session, one after another: which runs, which wait, which are cancelled."""

from __future__ import annotations

import asyncio
from collections import deque

from tau.acp.errors import invalid_request

MAX_WAITING = 16


class Turn:
    """One prompt from its acceptance to its answer."""

    def __init__(self) -> None:
        self.ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()  # False: cancelled before it ran
        self.cancelled = asyncio.Event()


class TurnQueue:
    def __init__(self) -> None:
        self._active: Turn | None = None
        self._waiting: deque[Turn] = deque()
        self._joined: list[Turn] = []  # messages in the run of the active turn

    @property
    def busy(self) -> bool:
        return self._active is not None

    def add(self) -> Turn:
        """Accept a prompt. Raises AcpError if too many wait."""
        if len(self._waiting) >= MAX_WAITING:
            raise invalid_request(f"{MAX_WAITING} prompts of this session are waiting already.")
        turn = Turn()
        self._waiting.append(turn)
        self._next()
        return turn

    def joined(self) -> Turn:
        """Accept a message that joins the run under way."""
        turn = Turn()
        self._joined.append(turn)
        return turn

    def finish(self, turn: Turn) -> None:
        if turn in self._joined:
            self._joined.remove(turn)
        if self._active is turn:
            self._active = None
            self._next()

    def cancel(self, turn: Turn) -> bool:
        """Cancel one prompt. Returns True if it runs, so that its run has to be aborted."""
        turn.cancelled.set()
        if turn is self._active or turn in self._joined:
            return True
        if turn in self._waiting:
            self._waiting.remove(turn)
            turn.ready.set_result(False)
        return False

    def cancel_all(self) -> bool:
        """Cancel every prompt. Returns True if one runs."""
        turns = [*self._waiting, *self._joined, *([self._active] if self._active is not None else [])]
        return any([self.cancel(turn) for turn in turns])

    def _next(self) -> None:
        if self._active is None and self._waiting:
            self._active = self._waiting.popleft()
            self._active.ready.set_result(True)
