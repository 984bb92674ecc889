"""Events of a session become sections of the transcript."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tau.core.agent.draft import Update
from tau.records import deltas as d
from tau.records import events as ev
from tau.records import messages as m
from tau.records.base import UNSET, replace
from tau.records.dialogs import Notify
from tau.screen.cards import Card
from tau.screen.cards.bash import BashCard
from tau.screen.cards.notices import NoticeKind
from tau.screen.cards.tools import ToolCard
from tau.screen.event_notices import event_notice
from tau.screen.history_section import HistorySection, assistant_sections, card_of, compaction_card, ending_notice
from tau.screen.renderers import Renderers
from tau.screen.sections import CardSection, Section
from tau.screen.text_section import TextSection


class Target(Protocol):
    """What sections are added to."""

    def add(self, section: Section) -> None: ...

    def add_card(self, card: Card) -> None: ...

    def add_notice(self, text: str, kind: NoticeKind = "info") -> None: ...

    def replace_line(self, key: str, text: str) -> None: ...


class SessionEvents:
    """Follows the events of a session: answers that are streamed, tool calls that run, commands of the user."""

    def __init__(self, target: Target, renderers: Renderers, readable: Callable[[str], str]) -> None:
        self._target = target
        self._renderers = renderers
        self._readable = readable
        self._answer = _Answer()
        self._calls: dict[str, _Call] = {}
        self._bash: dict[object, BashCard] = {}  # the commands that run, by their id

    def apply(self, event: Any, now: float) -> bool:
        """Return True if the event changes what is shown."""
        match event:
            case Update(delta=delta) | ev.MessageUpdate(assistant_message_event=delta):
                self._apply_delta(delta)
            case ev.MessageStart(message=m.Assistant()):
                self._answer = _Answer()
            case ev.MessageStart(message=message):
                self._add_message(message)
            case ev.MessageEnd(message=m.Assistant() as answer):
                self._end_answer(answer)
            case ev.ToolStart():
                self._tool(event.tool_call_id, event.tool_name).start(event.args, now)
            case ev.ToolUpdate():
                self._tool(event.tool_call_id, event.tool_name).update(event.partial_result)
            case ev.ToolEnd():
                self._end_tool(event)
            case ev.BashUpdate():
                if (bash := self._bash.get(event.id)) is not None:
                    bash.add_output(event.delta)
            case ev.CompactionEnd(result=ev.CompactionResult() as result):
                self._target.add_card(compaction_card(result.tokens_before, result.summary))
            case ev.AgentSettled():
                self._abort_calls()
            case Notify():
                self._target.add_notice(event.message, event.notify_type if event.notify_type is not UNSET else "info")
            case ev.ThinkingLevelChanged():
                self._target.replace_line("thinking", f"Thinking: {event.level}")
            case _:
                if (notice := event_notice(event, self._readable)) is None:
                    return False
                self._target.add_card(notice)
        return True

    def add_entries(self, entries: Sequence[Any], limit: int) -> None:
        self._target.add(HistorySection(entries, self._renderers, limit))

    def start_bash(self, command: str, now: float, *, hidden: bool = False, id: object = UNSET) -> BashCard:
        card = self._bash[id] = BashCard(command, now, hidden=hidden)
        self._target.add_card(card)
        return card

    def end_bash(self, result: m.BashExecution, now: float, id: object = UNSET) -> None:
        if (running := self._bash.pop(id, None)) is not None:
            running.end(result, now)
        elif (card := card_of(result, self._renderers)) is not None:
            self._target.add_card(card)

    # Messages

    def _add_message(self, message: Any) -> None:
        if isinstance(message, m.BashExecution) and self._bash:
            return
        if not isinstance(message, m.ToolResult) and (card := card_of(message, self._renderers)) is not None:
            self._target.add_card(card)

    def _apply_delta(self, delta: d.AnyDelta) -> None:
        match delta:
            case d.TextDelta(content_index=index, delta=text):
                self._text(index).stream.feed(text)
            case d.ThinkingDelta(content_index=index, delta=text):
                self._text(index, thinking=True).stream.feed(text)
            case d.TextEnd(content_index=index) | d.ThinkingEnd(content_index=index):
                if (section := self._answer.texts.get(index)) is not None:
                    section.finish()
            case d.ToolCallStart(content_index=index):
                self._answer.calls[index] = self._tool(delta.id, delta.tool_name)
            case d.ToolCallDelta(content_index=index, delta=text):
                if (card := self._answer.calls.get(index)) is not None:
                    card.add_arguments(text)
            case d.ToolCallEnd(content_index=index, tool_call=call):
                card = self._answer.calls.setdefault(index, self._tool(call.id, call.name))
                card.start(call.arguments, None)

    def _text(self, index: int, *, thinking: bool = False) -> TextSection:
        section = self._answer.texts.get(index)
        if section is None or section.gone:
            section = self._answer.texts[index] = TextSection(thinking=thinking)
            self._target.add(section)
        return section

    def _end_answer(self, answer: m.Assistant) -> None:
        streamed, self._answer = self._answer, _Answer()
        streamed.finish()
        if answer.failed:
            self._abort_calls()
        if streamed.texts or streamed.calls:
            if (notice := ending_notice(answer, self._readable)) is not None:
                self._target.add_card(notice)
            return
        # It was not streamed. The cards of its tool calls come when they start.
        content = [block for block in answer.content if not isinstance(block, m.ToolCall)]
        for section in assistant_sections(replace(answer, content=content), {}, self._renderers, self._readable):
            self._target.add(section)

    # Tool calls

    def _tool(self, id: str, name: str) -> ToolCard:
        call = self._calls.get(id)
        if call is None:
            call = self._calls[id] = _Call(ToolCard(name, renderers=self._renderers))
            self._target.add(call.section)
        return call.card

    def _end_tool(self, event: ev.ToolEnd) -> None:
        took = event.duration_ms / 1000 if isinstance(event.duration_ms, int) else None
        card = self._tool(event.tool_call_id, event.tool_name)
        card.end(event.result, is_error=event.is_error, took=took)
        call = self._calls.pop(event.tool_call_id)
        if call.section.block.forgotten:  # it scrolled off the screen while it ran
            self._target.add_card(card)

    def _abort_calls(self) -> None:
        for call in self._calls.values():
            call.card.abort()
        self._calls.clear()


class _Call:
    """A tool call that has not ended."""

    def __init__(self, card: ToolCard) -> None:
        self.card = card
        self.section = CardSection(card)


class _Answer:
    """The parts of the message that is being streamed, by their index in its content."""

    def __init__(self) -> None:
        self.texts: dict[int, TextSection] = {}
        self.calls: dict[int, ToolCard] = {}

    def finish(self) -> None:
        for section in self.texts.values():
            section.finish()
