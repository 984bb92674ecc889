"""The transcript: events of a session become sections, sections become rows with absolute numbers.

Rows that have scrolled off the screen are forgotten. A frame costs as much as what is on the screen and what is
unfinished, however long the session is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tau.core.agent.draft import Update
from tau.records import deltas as d
from tau.records import events as ev
from tau.records import messages as m
from tau.records.base import UNSET, replace
from tau.records.dialogs import Notify
from tau.screen.cards import Card
from tau.screen.cards.bash import BashCard
from tau.screen.cards.messages import LineCard, NoticeCard, NoticeKind
from tau.screen.cards.tools import ToolCard
from tau.screen.event_notices import event_notice
from tau.screen.history_section import (
    RESUME_LINES,
    HistorySection,
    assistant_sections,
    card_of,
    compaction_card,
    ending_notice,
)
from tau.screen.layout import MAX_WAITING, forget, hide, lay_out
from tau.screen.lines import Line
from tau.screen.look import Look
from tau.screen.renderers import Renderers
from tau.screen.sections import CardSection, Section, TextSection


class Transcript:
    """`readable` rewrites errors of model servers for a person. `renderers` are the renderers of extensions."""

    def __init__(
        self,
        *,
        hyperlinks: bool = False,
        readable: Callable[[str], str] = str,
        renderers: Renderers | None = None,
    ) -> None:
        self.changed = True
        self.look = Look(80, hyperlinks=hyperlinks)
        self.renderers = renderers or Renderers()
        self._readable = readable
        self._sections: list[Section] = []
        self._base = 0  # the absolute number of the first row of the first section
        self._shown = 0  # the number of the first row that was not shown yet
        self._answer = _Answer()
        self._calls: dict[str, CardSection] = {}
        self._bash: list[BashCard] = []

    # What happens

    def apply(self, event: Any, now: float) -> None:
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
                self._end_tool(event, now)
            case ev.BashUpdate():
                if self._bash:
                    self._bash[-1].add_output(event.delta)
            case ev.CompactionEnd(result=ev.CompactionResult() as result):
                self.add_card(compaction_card(result.tokens_before, result.summary))
            case ev.AgentSettled():
                self._abort_calls()
            case Notify():
                self.add_notice(event.message, event.notify_type if event.notify_type is not UNSET else "info")
            case ev.ThinkingLevelChanged():
                self.replace_line("thinking", f"Thinking: {event.level}")
            case _:
                if (notice := event_notice(event, self._readable)) is None:
                    return
                self.add_card(notice)
        self.changed = True

    def add_card(self, card: Card) -> None:
        self._add(CardSection(card))
        self.changed = True

    def add_notice(self, text: str, kind: NoticeKind = "info") -> None:
        self.add_card(NoticeCard(text, kind))

    def add_rule(self, text: str) -> None:
        """Another session or branch begins."""
        self.add_card(LineCard(text, rule=True))

    def replace_line(self, key: str, text: str) -> None:
        """Show a line about `key`, in place of the last one if nothing came after it."""
        last = self._sections[-1] if self._sections else None
        if isinstance(last, CardSection) and last.key == key and not last.block.forgotten:
            self._sections.pop()
        self._add(CardSection(LineCard(text), key=key))
        self.changed = True

    def add_entries(self, entries: Sequence[Any], limit: int = RESUME_LINES) -> None:
        """Show the last lines of a session: entries or messages of one branch, in order."""
        self._add(HistorySection(entries, self.renderers, limit))
        self.changed = True

    def start_bash(self, command: str, now: float, *, hidden: bool = False) -> BashCard:
        """A command of the person at the terminal runs. Its output comes by BashUpdate or `add_output`."""
        card = BashCard(command, now, hidden=hidden)
        self._bash.append(card)
        self.add_card(card)
        return card

    def end_bash(self, result: m.BashExecution, now: float) -> None:
        if self._bash:
            self._bash.pop(0).end(result, now)
        elif (card := card_of(result, self.renderers)) is not None:
            self.add_card(card)
        self.changed = True

    @property
    def started(self) -> bool:
        """True if anything has been shown."""
        return bool(self._sections or self._base)

    # What is shown

    @property
    def expanded(self) -> bool:
        """Results of tools and summaries are shown whole (Ctrl+O)."""
        return self.look.expanded

    @expanded.setter
    def expanded(self, expanded: bool) -> None:
        self.set_look(expanded=expanded)

    @property
    def hide_thinking(self) -> bool:
        """Thinking is one line (Ctrl+T)."""
        return self.look.hide_thinking

    @hide_thinking.setter
    def hide_thinking(self, hide_thinking: bool) -> None:
        self.set_look(hide_thinking=hide_thinking)

    def set_look(self, **changes: Any) -> None:
        """Change how everything on the screen is shown: a field of Look other than the width."""
        self.look = self.look._replace(**changes)
        self.changed = True

    def rows(self, first: int, width: int, now: float) -> tuple[int, list[Line]]:
        """The rows from `first` on, and the absolute number of the first of them (if there is none, of the next)."""
        self.changed = False
        if width != self.look.width and first > self._base:  # what is printed has the width before
            self._base = forget(list(lay_out(self._sections, self._base, first, self.look, now)), first, self._base)
        look = self.look = self.look._replace(width=width)
        laid_out = list(lay_out(self._sections, self._base, first, look, now))
        self._base = forget(laid_out, first, self._base)
        end = laid_out[-1].end if laid_out else self._base
        if end - self._shown > MAX_WAITING and hide(laid_out, self._shown, end - MAX_WAITING, look):
            laid_out = list(lay_out(self._sections, self._base, first, look, now))
            end = laid_out[-1].end if laid_out else self._base
        self._sections = [section for section in self._sections if section.open or section.blocks(look, now)]
        self._shown = end
        out: list[Line] = []
        for placed in laid_out:
            if placed.end > first:
                out += placed.rows[first - placed.start :] if placed.start < first else placed.rows
        return max(min(first, end), self._base), out

    # Parts of apply

    def _add(self, section: Section) -> None:
        self._sections.append(section)

    def _add_message(self, message: Any) -> None:
        if isinstance(message, m.BashExecution) and self._bash:
            return
        if not isinstance(message, m.ToolResult) and (card := card_of(message, self.renderers)) is not None:
            self.add_card(card)

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
        if section is None:
            section = TextSection(thinking=thinking)
            self._answer.texts[index] = section
            self._add(section)
        return section

    def _tool(self, id: str, name: str) -> ToolCard:
        section = self._calls.get(id)
        if section is None:
            section = CardSection(ToolCard(name, renderers=self.renderers))
            self._calls[id] = section
            self._add(section)
        assert isinstance(section.block.card, ToolCard)
        return section.block.card

    def _end_tool(self, event: ev.ToolEnd, now: float) -> None:
        took = event.duration_ms / 1000 if isinstance(event.duration_ms, int) else None
        card = self._tool(event.tool_call_id, event.tool_name)
        card.end(event.result, is_error=event.is_error, took=took)
        section = self._calls.pop(event.tool_call_id)
        if section.block.forgotten:  # it scrolled off the screen while it ran
            self.add_card(card)

    def _end_answer(self, answer: m.Assistant) -> None:
        streamed = self._answer
        streamed.finish()
        if not streamed.texts and not streamed.calls:
            for section in assistant_sections(_without_calls(answer), {}, self.renderers):
                self._add(section)
        if answer.failed:
            self._abort_calls()
        if (notice := ending_notice(answer, self._readable)) is not None and (streamed.texts or streamed.calls):
            self.add_card(notice)
        self._answer = _Answer()

    def _abort_calls(self) -> None:
        for section in self._calls.values():
            card = section.block.card
            assert isinstance(card, ToolCard)
            card.abort()
        self._calls.clear()


class _Answer:
    """The parts of the message that is being streamed, by their index in its content."""

    def __init__(self) -> None:
        self.texts: dict[int, TextSection] = {}
        self.calls: dict[int, ToolCard] = {}

    def finish(self) -> None:
        for section in self.texts.values():
            section.finish()


def _without_calls(answer: m.Assistant) -> m.Assistant:
    """The answer without its tool calls: their cards come when they start."""
    return replace(answer, content=[block for block in answer.content if not isinstance(block, m.ToolCall)])
