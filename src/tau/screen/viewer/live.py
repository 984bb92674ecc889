"""The end of the transcript that is not stored yet: the answer that is streamed and the tools that run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tau.core.conversation.tree import Tree
from tau.records import deltas as d
from tau.records import events as ev
from tau.records import messages as m
from tau.records.entries import MessageEntry
from tau.screen.cards import Card
from tau.screen.cards.notices import LineCard, NoticeCard, NoticeKind
from tau.screen.lines import Line
from tau.screen.look import Look
from tau.screen.renderers import Renderers
from tau.screen.sections import CardSection, Section
from tau.screen.session_events import SessionEvents


class LiveTail:
    """`stored` is the number of entries of the branch that are not in it: those before the answer that is made."""

    def __init__(self, tree: Callable[[], Tree], readable: Callable[[str], str] = str) -> None:
        self._tree = tree
        self._readable = readable
        self._sections: list[Section] = []
        self._events = SessionEvents(self, Renderers(), readable)
        self._stored: int | None = None  # None: all

    @property
    def stored(self) -> int:
        count = len(self._tree().branch)
        return count if self._stored is None else min(self._stored, count)

    def begin(self, partial: m.Assistant | None, now: float) -> None:
        """A run is active while the viewer opens: show its last answer as far as it is known."""
        if partial is not None:
            self._stored = len(self._tree().branch)
            self._stream(partial)
            return
        last = self._last_answer()
        if last is not None:
            self._stored, answer, results = last
            self._events.apply(ev.MessageEnd(answer), now)
            self._start_calls(answer, results, now)

    def apply(self, event: Any, now: float) -> None:
        match event:
            case ev.MessageStart(message=m.Assistant()):
                self._clear()
                self._stored = len(self._tree().branch)
            case ev.AgentSettled():
                self._clear()
        if self._stored is not None:
            self._events.apply(event, now)

    def rows(self, look: Look, now: float) -> list[Line]:
        blocks = [block for section in self._sections for block in section.blocks(look, now)]
        return [row for block in blocks for row in block.rows(look, now)]

    def _clear(self) -> None:
        """Everything is stored."""
        self._sections = []
        self._events = SessionEvents(self, Renderers(), self._readable)
        self._stored = None

    def _stream(self, partial: m.Assistant) -> None:
        """Feed what was streamed before."""
        for index, block in enumerate(partial.content):
            match block:
                case m.Text(text=text):
                    self._events.apply(_delta(d.TextDelta, index, text), 0)
                case m.Thinking(thinking=text):
                    self._events.apply(_delta(d.ThinkingDelta, index, text), 0)
                case m.ToolCall():
                    self._events.apply(ev.ToolStart(block.id, block.name, block.arguments), 0)

    def _last_answer(self) -> tuple[int, m.Assistant, dict[str, m.ToolResult]] | None:
        """The last answer of the branch whose calls have not all ended: its place, the answer, the results so far."""
        tree, results = self._tree(), dict[str, m.ToolResult]()
        branch = tree.branch
        for place in range(len(branch) - 1, -1, -1):
            entry = tree.entry(branch[place])
            message = entry.message if isinstance(entry, MessageEntry) else None
            if isinstance(message, m.ToolResult):
                results[message.tool_call_id] = message
            elif isinstance(message, m.Assistant):
                calls = [block.id for block in message.content if isinstance(block, m.ToolCall)]
                return (place, message, results) if any(id not in results for id in calls) else None
            elif message is not None:
                return None
        return None

    def _start_calls(self, answer: m.Assistant, results: dict[str, m.ToolResult], now: float) -> None:
        for call in answer.content:
            if not isinstance(call, m.ToolCall):
                continue
            self._events.apply(ev.ToolStart(call.id, call.name, call.arguments), now)
            if (result := results.get(call.id)) is not None:
                outcome = ev.Outcome(result.content, result.details)
                self._events.apply(ev.ToolEnd(call.id, call.name, outcome, result.is_error), now)

    # What the events add.

    def add(self, section: Section) -> None:
        self._sections.append(section)

    def add_card(self, card: Card) -> None:
        self.add(CardSection(card))

    def add_notice(self, text: str, kind: NoticeKind = "info") -> None:
        self.add_card(NoticeCard(text, kind))

    def replace_line(self, key: str, text: str) -> None:
        self.add_card(LineCard(text))


def _delta(kind: Any, index: int, text: str) -> ev.MessageUpdate:
    return ev.MessageUpdate(kind(index, text))
