"""The keyboard: who gets a key. A question that has the focus, the completion list, the program, the editor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tau.screen.bindings import Bindings
from tau.screen.input_events import Focus, InputEvent, Key, Paste
from tau.tui.view import View

Action = Callable[[], None]
COMPLETION_ACTIONS = {
    "tui.select.up": "up",
    "tui.select.down": "down",
    "tui.select.pageUp": "page_up",
    "tui.select.pageDown": "page_down",
    "tui.select.cancel": "cancel",
    "tui.input.tab": "accept",
}


class Keyboard:
    """Routes input events. `actions` are the program's own, by the ids of keybindings.json."""

    def __init__(
        self,
        view: View,
        bindings: Bindings,
        actions: Mapping[str, Action],
        shortcuts: Callable[[str], bool],
        edited: Callable[[], None],
    ) -> None:
        """`shortcuts` runs the shortcut of an extension for a key id and returns False if there is none; `edited` is
        called when the text of the editor may have changed.
        """
        self._view = view
        self.bindings = bindings
        self._actions = actions
        self._shortcuts = shortcuts
        self._edited = edited
        self.focused = True  # the terminal has the focus, as far as it says

    def handle(self, events: Sequence[InputEvent], now: float) -> None:
        for event in events:
            match event:
                case Key():
                    self._key(event, now)
                case Paste(text):
                    self._paste(text, now)
                case Focus(gained):
                    self.focused = gained

    def _paste(self, text: str, now: float) -> None:
        if self._view.questions.paste(text, now):
            return
        self._view.questions.typed(now)
        self._view.editor.paste(text)
        self._edited()

    def _key(self, key: Key, now: float) -> None:
        actions = self.bindings.actions(key)
        if self._view.questions.key(key, actions, now, editor_empty=not self._view.editor.text):
            return
        if self._view.completion.open and self._complete(actions):
            return
        for action in actions:
            if action in self._actions:
                self._actions[action]()
                return
        if self._shortcuts(key.id):
            return
        if any(self._view.editor.perform(action) for action in actions):
            self._edited()
        elif key.text:
            self._view.editor.insert(key.text)
            self._edited()

    def _complete(self, actions: Sequence[str]) -> bool:
        move = next((COMPLETION_ACTIONS[action] for action in actions if action in COMPLETION_ACTIONS), None)
        if move is None:
            return False
        raise NotImplementedError(move)
