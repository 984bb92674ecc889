"""Completions of extensions, as proposals for the list below the editor."""

from __future__ import annotations

from collections.abc import Sequence

from tau.screen.completion import Proposal, Query
from tau.screen.editor import Editor
from tau.tui.extension_calls import ExtensionCalls, Item


class ExtensionProposals:
    def __init__(self, calls: ExtensionCalls, editor: Editor) -> None:
        self._calls = calls
        self._editor = editor

    async def find(self, query: Query) -> Sequence[Proposal] | None:
        """What extensions complete; None if none of them has anything for this text."""
        cursor = self._editor.cursor
        items = await self._calls.autocomplete(self._editor.text.split("\n"), cursor.line, cursor.column)
        return [_proposal(item, query, self._editor.line_before_cursor) for item in items] or None


def _proposal(item: Item, query: Query, before: str) -> Proposal:
    """The proposal replaces the whole query: keep what stands in it before the item's prefix."""
    typed = before[query.start :]
    kept = typed.removesuffix(item.prefix) if item.prefix and typed.endswith(item.prefix) else ""
    return Proposal(kept + item.value, item.label, item.description)
