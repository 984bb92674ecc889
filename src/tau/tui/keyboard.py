"""The keyboard: what gets a key. A question that has the focus, the completion list, the program, the editor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tau.screen.bindings import Bindings
from tau.screen.editor import Editor
from tau.screen.input_events import InputEvent, Key, Paste
from tau.tui.questions import Questions

Action = Callable[[], None]


class Completions(Protocol):
    def key(self, actions: Sequence[str]) -> bool:
        """Handle a key of the open list. False: it is for the editor."""

    def edited(self) -> None:
        """The text or the cursor of the editor has changed."""


class Keyboard:
    """Routes input events. `actions` are the program's own, by the ids of keybindings.json."""

    def __init__(
        self,
        editor: Editor,
        bindings: Bindings,
        actions: Mapping[str, Action],
        questions: Questions,
        completions: Completions,
    ) -> None:
        self.bindings = bindings
        self._editor = editor
        self._actions = actions
        self._questions = questions
        self._completions = completions

    def handle(self, events: Sequence[InputEvent]) -> None:
        for event in events:
            if isinstance(event, Key):
                self._key(event)
            elif isinstance(event, Paste) and not self._questions.paste(event.text):
                self._editor.paste(event.text)
                self._completions.edited()

    def _key(self, key: Key) -> None:
        actions = self.bindings.actions(key)
        if self._questions.key(key, actions) or self._completions.key(actions):
            return
        if self._editor.waits_for_character and key.text:
            self._editor.insert(key.text)
            return
        if "app.exit" in actions and self._editor.empty:  # Ctrl+D in a text deletes a character
            self._actions["app.exit"]()
            return
        if any(self._perform(action) for action in actions):
            return
        if key.text:
            self._editor.insert(key.text)
            self._completions.edited()

    def _perform(self, action: str) -> bool:
        """Do what a key is bound to. The editor comes first: a backslash before Enter makes a line."""
        if self._editor.perform(action):
            self._completions.edited()
            return True
        if action in self._actions:
            self._actions[action]()
            return True
        return False
