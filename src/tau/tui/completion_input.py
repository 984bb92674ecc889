"""Connects the editor with the list of completions: follows the text, answers keys, puts a proposal into the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau.screen.completion import Accepted, CompletionList, Proposal, Query
from tau.screen.editor import Editor
from tau.screen.lines import Line
from tau.tui.completions import CommandEntry, Completions
from tau.tui.file_index import FileIndex


class CompletionInput:
    """`submit` sends the text of the editor; `changed` draws the screen again."""

    def __init__(
        self,
        editor: Editor,
        index: FileIndex,
        commands: Callable[[], Sequence[CommandEntry]],
        visible_rows: int,
        *,
        submit: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self._editor = editor
        self._list = CompletionList(visible_rows)
        self._completions = Completions(index, commands, self._on_offer)
        self._submit = submit
        self._changed = changed

    def rows(self, width: int) -> Sequence[Line]:
        return self._list.rows(width) if self._list.open else ()

    def edited(self) -> None:
        query = self._list.text_changed(self._editor.line_before_cursor, first_line=self._editor.cursor.line == 0)
        if query is not None:
            self._completions.ask(query)
        elif self._list.query is None:
            self._completions.cancel()

    def key(self, actions: Sequence[str]) -> bool:
        """Handle a key of the open list, or Tab in a closed one. False: it is for the editor."""
        result = self._list.handle(actions, self._editor.line_after_cursor)
        if isinstance(result, Accepted):
            self._accept(result)
            return True
        if not result and "tui.input.tab" in actions and not self._list.open:
            self._force()
            return True
        return result

    def close(self) -> None:
        self._completions.cancel()
        self._list.close()

    def _force(self) -> None:
        query = self._list.force(self._editor.line_before_cursor, first_line=self._editor.cursor.line == 0)
        if query is not None:
            self._completions.ask(query)

    def _on_offer(self, query: Query, proposals: Sequence[Proposal]) -> None:
        accepted = self._list.offer(query, proposals, self._editor.line_after_cursor)
        if accepted is not None:
            self._accept(accepted._replace(submits=False))
        self._changed()

    def _accept(self, accepted: Accepted) -> None:
        self._editor.replace_around_cursor(accepted.before, accepted.text, accepted.after)
        self._changed()
        if accepted.submits:
            self._submit()
        else:
            self.edited()
