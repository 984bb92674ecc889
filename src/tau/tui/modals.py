"""The modal that is open: gets every key until it closes, then its outcome goes to the coroutine that opened it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tau.screen.input_events import Key
from tau.screen.modals import CANCELLED, Modal, Outcome


class Modals:
    """`show` puts a modal in place of the editor, None puts the editor back."""

    def __init__(self, show: Callable[[Modal | None], None]) -> None:
        self._show = show
        self._modal: Modal | None = None
        self._outcome: asyncio.Future[Outcome] | None = None
        self._on_close: Callable[[Outcome], None] | None = None  # instead of `_outcome`

    @property
    def open(self) -> bool:
        return self._modal is not None

    async def run(self, modal: Modal) -> Outcome:
        """Show a modal until it closes. One that is open already is cancelled."""
        self.cancel()
        self._modal, self._outcome = modal, asyncio.get_running_loop().create_future()
        outcome = self._outcome
        self._show(modal)
        try:
            return await outcome
        finally:
            if self._outcome is outcome:
                self._outcome = None
                if self._modal is modal:  # the coroutine was cancelled
                    self._modal = None
                    self._show(None)

    def peek(self, modal: Modal, on_close: Callable[[Outcome], None]) -> None:
        """Show a modal from now on. Keys that follow in the same read get to it, and to what `on_close` makes of it."""
        self.cancel()
        self._modal, self._outcome, self._on_close = modal, None, on_close
        self._show(modal)

    def key(self, key: Key, actions: Sequence[str]) -> bool:
        """Handle a key. False: no modal is open."""
        if self._modal is None:
            return False
        self._close_with(self._modal.key(key, actions))
        return True

    def paste(self, text: str) -> bool:
        if self._modal is None:
            return False
        self._close_with(self._modal.paste(text))
        return True

    def cancel(self) -> None:
        self._close_with(CANCELLED)

    def _close_with(self, outcome: Outcome | None) -> None:
        """Keys that follow at once, in the same read, are for the editor again."""
        if outcome is not None and self._on_close is not None:
            on_close, self._on_close, self._modal = self._on_close, None, None
            self._show(None)
            on_close(outcome)
        elif outcome is not None and self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(outcome)
            self._modal = None
            self._show(None)
