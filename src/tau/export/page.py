"""The page: a head that forbids everything, the branch that is shown, the other entries, and the list of all of them.

The branch stands in the page as it is read, so that it can be read, searched by
the browser and printed without the script. Every other entry waits in a
<template>, where nothing of it is loaded or run, until its branch is chosen.

Our files are known by the generator that page.html names within the first 200 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

from tau.export import Export
from tau.export.blocks import Context
from tau.export.calls import result_html
from tau.export.cards import anchor, article, card
from tau.export.code import Highlighter
from tau.export.frame import frame
from tau.export.outline import NONE, Outline, message, time_of
from tau.export.text import day, esc, json_in_html, sound
from tau.export.titles import HIDDEN, title
from tau.export.totals import totals
from tau.records.messages import Assistant, ToolCall, ToolResult

LEAF = 16  # cards; page.js has the same number


def page(export: Export) -> Iterator[bytes]:
    """The page in portions, to be written one after the other."""
    for portion in _page(export):
        yield portion if isinstance(portion, bytes) else portion.encode("utf-8", "replace")


def _page(export: Export) -> Iterator[str | bytes]:
    outline = Outline(export.entries, export.leaf)
    cwd = export.header.cwd
    titles = [title(entry, _call(outline, at), cwd) for at, entry in enumerate(outline.entries)]
    name = export.name or next((text for kind, text in titles if kind == "user"), "Session")
    sums = totals(outline.entries)
    cards = _Cards(outline, [kind for kind, _ in titles], Context(Highlighter(sums.code), cwd))
    shown = set(outline.path)
    start, after_branch, after_others, end = frame(export, outline, sums, name)

    yield start
    for leaf in _leaves([at for at in outline.path if at not in outline.slots]):
        yield "<section>\n"
        yield from (cards.article(at, shown) for at in leaf)
        yield "</section>\n"
    yield after_branch
    for at in range(len(outline.entries)):
        if at not in shown:
            yield f"<template>{cards.alone(at)}</template>\n"
    yield after_others
    yield json_in_html(_rows(outline, titles))
    yield end


def _leaves(numbers: list[int]) -> Iterator[list[int]]:
    """The browser leaves out what is far away leaf by leaf; to do it card by card would cost more than it saves."""
    return (numbers[at : at + LEAF] for at in range(0, len(numbers), LEAF))


def _call(outline: Outline, at: int) -> ToolCall | None:
    """The call that an entry is the result of."""
    if at not in outline.slots:
        return None
    owner, number = outline.slots[at]
    answer: Assistant = message(outline.entries[owner], Assistant)
    return answer.tool_calls[number]


class _Cards:
    """The HTML of entries by their numbers."""

    def __init__(self, outline: Outline, kinds: Sequence[str], context: Context) -> None:
        self._outline = outline
        self._context = context
        self._results: dict[int, list[int]] = {}  # of the calls of an answer
        for at, (owner, _) in outline.slots.items():
            self._results.setdefault(owner, []).append(at)
        # The nearest card above on a branch is the same on every branch that an entry is on.
        self._above: list[int] = []
        for parent in outline.parents:
            hidden = parent != NONE and (parent in outline.slots or kinds[parent] in HIDDEN)
            self._above.append(self._above[parent] if hidden else parent)

    def article(self, at: int, shown: Set[int]) -> str:
        """The card of an entry, with those results of its calls that are on the branch that is shown."""
        outline = self._outline
        entry, above = outline.entries[at], self._above[at]
        made = card(entry, f"c{at}-", self._placed(at, shown), self._context)
        today = day(time_of(entry))
        if made.quiet or (above != NONE and today == day(time_of(outline.entries[above]))):
            today = ""
        return article(outline.ids[at], time_of(entry), made, today, self._follows(at, above))

    def alone(self, at: int) -> str:
        """A card without results in it, or a result that the script will put into its place."""
        return self._result(at) if at in self._outline.slots else self.article(at, frozenset())

    def _placed(self, at: int, shown: Set[int]) -> dict[int, str]:
        placed: dict[int, str] = {}
        for result in self._results.get(at, ()):
            if result in shown:
                number = self._outline.slots[result][1]
                placed[number] = placed.get(number, "") + self._result(result)
        return placed

    def _result(self, at: int) -> str:
        outline = self._outline
        result: ToolResult = message(outline.entries[at], ToolResult)
        owner, number = outline.slots[at]
        status = " error" if result.is_error else ""
        id = esc(anchor(outline.ids[at]))
        body = result_html(result, _call(outline, at), self._context)
        return f'<div class="result{status}" id="{id}" data-in="c{owner}-{number}">{body}</div>'

    def _follows(self, at: int, above: int) -> bool:
        here = message(self._outline.entries[at], Assistant)
        before = message(self._outline.entries[above], Assistant) if above != NONE else None
        return bool(here and before and here.model == before.model)


def _rows(outline: Outline, titles: Sequence[tuple[str, str]]) -> list[list[Any]]:
    """The list at the side for the script: id, parent, kind, depth, end of its branch, text, label, place in the file.

    Parents and ends are numbers of rows. Before the rows stands the number of
    the leaf's.
    """
    order = outline.order()
    row = {at: number for number, (at, _) in enumerate(order)}
    row[NONE] = NONE
    rows: list[Any] = [row[outline.leaf]]
    for at, depth in order:
        kind, text = titles[at]
        label = outline.labels.get(at, "")
        id = sound(outline.ids[at])
        rows.append([id, row[outline.parents[at]], kind, depth, row[outline.tips[at]], sound(text), sound(label), at])
    return rows
