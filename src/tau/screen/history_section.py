"""The end of a resumed session: its last lines, made when the width is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tau.records import entries as e
from tau.records import messages as m
from tau.records.base import UNSET, to_builtins
from tau.records.events import Outcome
from tau.screen.cards import Card
from tau.screen.cards.bash import BashCard
from tau.screen.cards.messages import CustomCard, SummaryCard, UserCard
from tau.screen.cards.notices import LineCard, NoticeCard
from tau.screen.cards.tools import ToolCard
from tau.screen.lines import Line
from tau.screen.look import Look
from tau.screen.renderers import Renderers
from tau.screen.sections import Block, CardSection, Section
from tau.screen.text_section import TextSection


class HistorySection:
    """Shows the last `limit` lines of entries or messages, and how many messages are before them.

    `before` is the number of messages before the first of `entries`.
    """

    def __init__(self, entries: Sequence[Any], renderers: Renderers, limit: int, before: int = 0) -> None:
        self._entries = entries
        self._renderers = renderers
        self._limit = limit
        self._before = before
        self._made: list[Block] | None = None

    @property
    def open(self) -> bool:
        return False

    def blocks(self, look: Look, now: float, above: int = 0) -> Sequence[Block]:
        if self._made is None:
            self._made = self._make(look, now)
        return self._made

    def splice(self, start: int, end: int, blocks: Sequence[Block] = ()) -> None:
        if self._made is not None:
            self._made[start:end] = blocks

    def _make(self, look: Look, now: float) -> list[Block]:
        results: dict[str, m.ToolResult] = {}
        blocks: list[Block] = []  # from the last to the first
        lines, left = 0, len(self._entries)
        while left and lines < self._limit:
            left -= 1
            sections = sections_of(self._entries[left], results, self._renderers)
            made = [block for section in sections for block in section.blocks(look, now)]
            for block in reversed(made):
                if lines >= self._limit:
                    break
                count = len(block.rows(look, now))
                if lines + count > self._limit:
                    block = Block(_End(block.card, count - block.lead - (self._limit - lines)))
                lines += count
                blocks.append(block)
        earlier = self._before + sum(_is_message(entry) for entry in self._entries[:left])
        if earlier:
            word = "message" if earlier == 1 else "messages"
            blocks.append(Block(LineCard(f"… {earlier:,} earlier {word} · {look.viewer_key}"), lead=True))
        self._entries = ()
        return blocks[::-1]


class _End:
    """A card without its first rows."""

    def __init__(self, card: Card, skip: int) -> None:
        self._card, self._skip = card, skip

    def state(self, now: float) -> Any:
        return self._card.state(now)

    def rows(self, look: Look, now: float) -> list[Line]:
        return self._card.rows(look, now)[self._skip :]


def _is_message(entry: Any) -> bool:
    return isinstance(entry, e.MessageEntry | e.CustomMessageEntry | m.Message)


def sections_of(entry: Any, results: dict[str, m.ToolResult], renderers: Renderers) -> list[Section]:
    """The sections of an entry or a message. Results of tools are kept in `results` for their calls."""
    message = entry.message if isinstance(entry, e.MessageEntry) else entry
    match message:
        case m.Assistant():
            return assistant_sections(message, results, renderers)
        case m.ToolResult():
            results[message.tool_call_id] = message
            return []
    card = card_of(message, renderers)
    return [CardSection(card)] if card is not None else []


def card_of(message: Any, renderers: Renderers) -> Card | None:
    """The card of an entry or a message that is not of a model."""
    match message:
        case m.User():
            return UserCard(message.content)
        case m.BashExecution():
            card = BashCard(message.command, hidden=message.exclude_from_context is True)
            card.end(message)
            return card
        case m.Custom() | e.CustomMessageEntry():
            if not message.display:
                return None
            kind = message.custom_type
            return CustomCard(kind, message.content, renderers.message(kind), to_builtins(message))
        case m.CompactionSummary() | e.CompactionEntry():
            return compaction_card(message.tokens_before, message.summary)
        case m.BranchSummary() | e.BranchSummaryEntry():
            return SummaryCard("Summary of the abandoned branch", message.summary)
        case e.ModelChange():
            return LineCard(f"Model: {message.provider}/{message.model_id}")
        case e.ThinkingLevelChange():
            return LineCard(f"Thinking: {message.thinking_level}")
    return None


def compaction_card(tokens_before: int, summary: str) -> SummaryCard:
    return SummaryCard(f"Compacted: a summary replaces {tokens_before:,} tokens", summary)


def assistant_sections(
    answer: m.Assistant,
    results: dict[str, m.ToolResult],
    renderers: Renderers,
    readable: Callable[[str], str] = str,
) -> list[Section]:
    sections: list[Section] = []
    for block in answer.content:
        match block:
            case m.Text(text=text) if text.strip():
                sections.append(_whole(text))
            case m.Thinking(thinking=text) if text.strip():
                sections.append(_whole(text, thinking=True))
            case m.ToolCall():
                card = ToolCard(block.name, block.arguments, renderers)
                result = results.get(block.id)
                if result is None:
                    card.abort()
                else:
                    card.end(Outcome(result.content, result.details), is_error=result.is_error)
                sections.append(CardSection(card))
    if (notice := ending_notice(answer, readable)) is not None:
        sections.append(CardSection(notice))
    return sections


def _whole(text: str, *, thinking: bool = False) -> TextSection:
    section = TextSection(thinking=thinking)
    section.stream.feed(text)
    section.finish()
    return section


def ending_notice(answer: m.Assistant, readable: Callable[[str], str] = str) -> NoticeCard | None:
    """How an answer ended, if it did not end well."""
    if answer.stop_reason == "aborted":
        return NoticeCard("Stopped.", "warning")
    if answer.stop_reason == "error":
        why = "" if answer.error_message is UNSET else str(answer.error_message)
        return NoticeCard(readable(why) or "The model call failed.", "error")
    if answer.stop_reason == "length":
        return NoticeCard("The answer was cut off at its length limit.", "warning")
    return None
