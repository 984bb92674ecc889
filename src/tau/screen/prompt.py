"""The prompt: the editor with its list of proposals, driven by keys.

Keys of the application (`app.*`) are left to the caller, who asks here first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau.records.base import Value
from tau.screen.completion import Accepted, CompletionList, Proposal, Query
from tau.screen.editor import Editor
from tau.screen.input_events import Key
from tau.screen.input_mode import InputMode, input_mode
from tau.screen.key_table import KEYS

Echo = Callable[[str], None]


class KeyResult(Value):
    """What a key did: `used` if it was for the prompt, `query` to send to the sources, `submit` to send the text."""

    used: bool
    query: Query | None = None
    submit: bool = False


UNUSED = KeyResult(False)

# Actions of the application while the editor has the keys. Where the file binds one to a key of the editor, it wins.
APPLICATION = frozenset(one.id for one in KEYS if one.context == "editor" and one.id.startswith("app."))


class Prompt:
    def __init__(self, editor: Editor, completion: CompletionList) -> None:
        self.editor = editor
        self.completion = completion

    @property
    def mode(self) -> InputMode:
        """What the text is so far: the first line decides."""
        return input_mode(self.editor.first_line)

    def key(self, key: Key, actions: Sequence[str], echo: Echo = lambda typed: None) -> KeyResult:
        """A key with the ids that are bound to it, in all contexts. `echo` gets its text if it is typed."""
        if self.editor.waits_for_character and (key.text or "app.interrupt" in actions):
            self.editor.insert(key.text)
            return KeyResult(True)
        self._close_outdated_list()
        chosen = self.completion.handle(actions, self.editor.line_after_cursor)
        if isinstance(chosen, Accepted):
            return self._accept(chosen)
        if chosen:
            return KeyResult(True)
        for action in actions:
            if action in APPLICATION or (action == "app.help" and self.editor.empty):
                return UNUSED
            if result := self._perform(action):
                return result
        if key.text:
            echo(key.text)
            self.editor.insert(key.text)
            return KeyResult(True, self._ask())
        return UNUSED

    def paste(self, text: str) -> Query | None:
        self.editor.paste(text)
        return self._ask()

    def offer(self, query: Query, proposals: Sequence[Proposal]) -> KeyResult:
        """Proposals for a query. A single one that was asked for with Tab is inserted."""
        self._close_outdated_list()
        accepted = self.completion.offer(query, proposals, self.editor.line_after_cursor)
        return self._accept(accepted) if accepted else UNUSED

    def _close_outdated_list(self) -> None:
        """Close the list if the text was changed by something other than a key: cleared, or set by an extension."""
        query = self.completion.query
        if query is not None and query.start + query.length != len(self.editor.line_before_cursor):
            self.completion.close()

    def _perform(self, action: str) -> KeyResult | None:
        if action == "tui.input.tab":
            query = self.completion.force(self.editor.line_before_cursor, first_line=self._in_first_line)
            return KeyResult(True, query)
        if self.editor.empty and action == "tui.editor.deleteCharForward":
            return None  # Ctrl+D exits
        if self.editor.perform(action):
            return KeyResult(True, self._follow(action))
        if action == "tui.input.submit":
            self.completion.close()
            return KeyResult(True, submit=True)
        return None

    def _accept(self, accepted: Accepted) -> KeyResult:
        self.editor.replace_around_cursor(accepted.before, accepted.text, accepted.after)
        if accepted.submits:
            return KeyResult(True, submit=True)
        return KeyResult(True, self._ask())

    @property
    def _in_first_line(self) -> bool:
        return self.editor.cursor.line == 0

    def _follow(self, action: str) -> Query | None:
        """Deleting changes what is asked for. All else closes the list: a prompt of the history must not open one."""
        if action.startswith("tui.editor.delete"):
            return self._ask()
        self.completion.close()
        return None

    def _ask(self) -> Query | None:
        return self.completion.text_changed(self.editor.line_before_cursor, first_line=self._in_first_line)
