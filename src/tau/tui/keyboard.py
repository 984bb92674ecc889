"""The keyboard: what gets a key: a question with the focus, a modal, the completion list, the editor, the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tau.screen.bindings import Bindings
from tau.screen.completion import Proposal, Query
from tau.screen.input_events import InputEvent, Key, Paste
from tau.screen.prompt import Echo, KeyResult, Prompt
from tau.tui.modals import Modals
from tau.tui.questions import Questions

Action = Callable[[], None]
SUSPEND = "app.suspend"


class Keyboard:
    """Routes input events. `actions` are the program's own, by the ids of keybindings.json.

    `insert` puts pasted text into the editor; `shortcut` runs the shortcut of an extension for a key and returns
    False if there is none; `echo` shows a typed character before the next frame; `ask` looks for completions; `submit`
    sends the text of the editor.
    """

    def __init__(
        self,
        prompt: Prompt,
        bindings: Bindings,
        actions: Mapping[str, Action],
        questions: Questions,
        modals: Modals,
        *,
        insert: Callable[[str], Query | None],
        shortcut: Callable[[Key, Bindings], bool],
        echo: Echo,
        ask: Callable[[Query], None],
        submit: Callable[[], None],
    ) -> None:
        self.bindings = bindings
        self._prompt = prompt
        self._actions = actions
        self._questions = questions
        self._modals = modals
        self._insert = insert
        self._shortcut = shortcut
        self._echo = echo
        self._ask = ask
        self._submit = submit

    def handle(self, events: Sequence[InputEvent]) -> None:
        for event in events:
            if isinstance(event, Key):
                if not self._suspend_in_modal(event):
                    self._key(event, alone=len(events) == 1)
            elif isinstance(event, Paste):
                self._paste(event.text)

    def _suspend_in_modal(self, key: Key) -> bool:
        if not self._modals.open or SUSPEND not in self.bindings.actions(key):
            return False
        self._actions[SUSPEND]()
        return True

    def _paste(self, text: str) -> None:
        if not self._questions.paste(text) and not self._modals.paste(text):
            self._carry_out(KeyResult(True, self._insert(text)))

    def offer(self, query: Query, proposals: Sequence[Proposal]) -> None:
        """Completions were found."""
        self._carry_out(self._prompt.offer(query, proposals))

    def _key(self, key: Key, *, alone: bool) -> None:
        actions = self.bindings.actions(key)
        if self._questions.key(key, actions) or self._modals.key(key, actions) or self._shortcut(key, self.bindings):
            return
        result = self._prompt.key(key, actions, self._echo) if alone else self._prompt.key(key, actions)
        if result.used:
            self._carry_out(result)
            return
        action = next((self._actions[action] for action in actions if action in self._actions), None)
        if action is not None:
            action()

    def _carry_out(self, result: KeyResult) -> None:
        if result.query is not None:
            self._ask(result.query)
        if result.submit:
            self._submit()
