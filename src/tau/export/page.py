"""The page: a restrictive head, the branch that is shown, the other entries, and the list of all entries.

The branch is in the page as HTML, so that it can be read, searched and printed without the script. Every other entry
is in a <template>, where nothing is loaded or run, until its branch is selected.

Exported files are recognized by the generator that page.html names within the first 200 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from html import escape
from typing import Any

from tau.export import Export
from tau.export.blocks import RenderContext
from tau.export.calls import result_html
from tau.export.cards import anchor, article, card
from tau.export.code import HtmlCode
from tau.export.frame import frame
from tau.export.outline import NO_ENTRY, Outline, message_of, time_of
from tau.export.text import day, json_in_html, valid_text
from tau.export.titles import is_hidden, title
from tau.export.totals import totals
from tau.records.messages import Assistant, ToolCall, ToolResult, User

CARDS_PER_SECTION = 16  # page.js has the same number


class Page:
    """A page in parts: `head`, then each of the `sections`, then `tail`. All of them are made when they are read."""

    def __init__(self, export: Export) -> None:
        self._outline = outline = Outline(export.entries, export.leaf)
        self._cwd = cwd = export.header.cwd
        prompts = (entry for entry in outline.entries if message_of(entry, User))
        name = export.name or next((title(entry, None, cwd)[1] for entry in prompts), "Session")
        sums = totals(outline.entries)
        self._cards = Cards(outline, RenderContext(HtmlCode(sums.code), cwd))
        self._shown = set(outline.path)
        self._frame = frame(export, outline, sums, name)
        cards = [index for index in outline.path if index not in outline.slots]
        # The browser skips the layout of distant sections; per card that would cost more than it saves.
        self.sections = [cards[start : start + CARDS_PER_SECTION] for start in range(0, len(cards), CARDS_PER_SECTION)]

    def head(self) -> bytes:
        return _encoded(self._frame[0])

    def section(self, indexes: Sequence[int]) -> bytes:
        """The HTML of one of the sections. It does not depend on the others."""
        cards = [self._cards.article(index, self._shown) for index in indexes]
        return _encoded("".join(["<section>\n", *cards, "</section>\n"]))

    def tail(self) -> Iterator[bytes]:
        _, after_branch, after_others, end = self._frame
        yield _encoded(after_branch)
        for index in range(len(self._outline.entries)):
            if index not in self._shown:
                yield _encoded(f"<template>{self._cards.alone(index)}</template>\n")
        yield _encoded(after_others)
        yield json_in_html(_rows(self._outline, self._cwd))
        yield _encoded(end)


def page(export: Export) -> Iterator[bytes]:
    """Yield the page in chunks."""
    parts = Page(export)
    yield parts.head()
    yield from map(parts.section, parts.sections)
    yield from parts.tail()


def _encoded(html: str) -> bytes:
    return html.encode("utf-8", "replace")


def call_of(outline: Outline, index: int) -> ToolCall | None:
    """Return the call that an entry is the result of."""
    if index not in outline.slots:
        return None
    owner, number = outline.slots[index]
    answer: Assistant = message_of(outline.entries[owner], Assistant)
    return answer.tool_calls[number]


class Cards:
    """The HTML of entries, by index. `first` is added to the indexes in ids, for a part of a session."""

    def __init__(self, outline: Outline, context: RenderContext, first: int = 0) -> None:
        self._outline = outline
        self._context = context
        self._first = first
        self._results: dict[int, list[int]] = {}  # results by the assistant message with the call
        for index, (owner, _) in outline.slots.items():
            self._results.setdefault(owner, []).append(index)
        # The nearest card above an entry is the same on every branch that contains the entry.
        self._above: list[int] = []
        for parent in outline.parents:
            hidden = parent != NO_ENTRY and (parent in outline.slots or is_hidden(outline.entries[parent]))
            self._above.append(self._above[parent] if hidden else parent)

    def article(self, index: int, shown: Set[int]) -> str:
        """The card of an entry, with the results of its calls that are on the branch that is shown."""
        outline = self._outline
        entry, above = outline.entries[index], self._above[index]
        content = card(entry, self._slots(index), self._results_in_slots(index, shown), self._context)
        heading = day(time_of(entry))
        if content.quiet or (above != NO_ENTRY and heading == day(time_of(outline.entries[above]))):
            heading = ""
        return article(outline.ids[index], time_of(entry), content, heading, self._follows(index, above))

    def alone(self, index: int) -> str:
        """A card without results, or a result that the script moves to its slot."""
        return self._result(index) if index in self._outline.slots else self.article(index, frozenset())

    def _results_in_slots(self, index: int, shown: Set[int]) -> dict[int, str]:
        slots: dict[int, str] = {}
        for result in self._results.get(index, ()):
            if result in shown:
                number = self._outline.slots[result][1]
                slots[number] = slots.get(number, "") + self._result(result)
        return slots

    def _result(self, index: int) -> str:
        outline = self._outline
        result: ToolResult = message_of(outline.entries[index], ToolResult)
        owner, number = outline.slots[index]
        status = " error" if result.is_error else ""
        id = escape(anchor(outline.ids[index]))
        body = result_html(result, call_of(outline, index), self._context)
        return f'<div class="result{status}" id="{id}" data-in="{self._slots(owner)}{number}">{body}</div>'

    def _slots(self, index: int) -> str:
        """The prefix of the ids of the slots for results."""
        return f"c{self._first + index}-"

    def _follows(self, index: int, above: int) -> bool:
        current = message_of(self._outline.entries[index], Assistant)
        previous = message_of(self._outline.entries[above], Assistant) if above != NO_ENTRY else None
        return bool(current and previous and current.model == previous.model)


def _rows(outline: Outline, cwd: str) -> list[list[Any]]:
    """The side list for the script: id, parent, kind, depth, end of its branch, text, label, index in the file.

    Parents and ends are row numbers. The row number of the leaf precedes the rows.
    """
    order = outline.order()
    row_of = {index: number for number, (index, _) in enumerate(order)}
    row_of[NO_ENTRY] = NO_ENTRY
    rows: list[Any] = [row_of[outline.leaf]]
    for index, depth in order:
        kind, text = title(outline.entries[index], call_of(outline, index), cwd)
        label = outline.labels.get(index)
        id = outline.ids[index]
        rows.append(
            [
                id if id.isalnum() else valid_text(id),
                row_of[outline.parents[index]],
                kind,
                depth,
                row_of[outline.tips[index]],
                valid_text(text),
                valid_text(label) if label else "",
                index,
            ]
        )
    return rows
