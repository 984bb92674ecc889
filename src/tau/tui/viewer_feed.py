"""What the transcript viewer must know of a run that began before it was opened, and what happens while it is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tau.core.agent.draft import Update
from tau.records.base import replace
from tau.records.deltas import TextDelta, ThinkingDelta
from tau.records.events import AgentSettled, MessageEnd, MessageStart, MessageUpdate
from tau.records.messages import Assistant, Text, Thinking


class ViewerFeed:
    def __init__(self) -> None:
        self._last: Update | None = None  # of the answer that is streamed
        self._heard: HeardAnswer | None = None  # the same for a session of a host
        self.listener: Callable[[Any, float], None] | None = None  # of the viewer that is open

    def on_event(self, event: Any, now: float) -> None:
        match event:
            case Update():
                self._last = event
            case MessageUpdate() if self._heard is not None:
                self._heard.add(event)
            case MessageStart(message=Assistant() as message):
                self._heard = HeardAnswer(message)
            case MessageEnd() | AgentSettled():
                self._last = self._heard = None
        if self.listener is not None:
            self.listener(event, now)

    @property
    def partial(self) -> Assistant | None:
        """The answer that is streamed, as far as it has come."""
        if self._last is not None:
            return self._last.partial_message()
        return None if self._heard is None else self._heard.message()


class HeardAnswer:
    """Joins the texts of deltas that come without the message so far."""

    def __init__(self, begun: Assistant) -> None:
        self._begun = begun
        self._texts: dict[int, tuple[type[Text | Thinking], list[str]]] = {}

    def add(self, event: MessageUpdate) -> None:
        delta = event.assistant_message_event
        if isinstance(delta, TextDelta | ThinkingDelta):
            kind: type[Text | Thinking] = Text if isinstance(delta, TextDelta) else Thinking
            self._texts.setdefault(delta.content_index, (kind, []))[1].append(delta.delta)

    def message(self) -> Assistant:
        blocks = [kind("".join(pieces)) for _, (kind, pieces) in sorted(self._texts.items())]
        return replace(self._begun, content=list(blocks))
