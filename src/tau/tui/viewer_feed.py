"""What the transcript viewer must know of a run that began before it was opened, and what happens while it is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tau.core.agent.draft import Update
from tau.records.events import AgentSettled, MessageEnd
from tau.records.messages import Assistant


class ViewerFeed:
    def __init__(self) -> None:
        self._last: Update | None = None  # of the answer that is streamed
        self.listener: Callable[[Any, float], None] | None = None  # of the viewer that is open

    def on_event(self, event: Any, now: float) -> None:
        if isinstance(event, Update):
            self._last = event
        elif isinstance(event, MessageEnd | AgentSettled):
            self._last = None
        if self.listener is not None:
            self.listener(event, now)

    @property
    def partial(self) -> Assistant | None:
        """The answer that is streamed, as far as it has come."""
        return None if self._last is None else self._last.partial_message()
