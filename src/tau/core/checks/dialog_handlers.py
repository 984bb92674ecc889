"""Questions of an agent's extensions, and who of a program's functions answers them.

Whatever nobody answers is cancelled at once: an extension that waits holds up the
run, and an agent that nobody talks to should not wait.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Literal

from tau.records.base import UNSET
from tau.records.dialogs import Confirm, Editor, Input, Select, UiResponse

Dialog = Select | Confirm | Input | Editor
Method = Literal["select", "confirm", "input", "editor"]
# A text for select, input and editor, yes or no for confirm; None cancels.
Answer = str | bool | None
DialogHandler = Callable[[Dialog], Answer | Awaitable[Answer]]

METHODS: dict[type[Dialog], Method] = {Select: "select", Confirm: "confirm", Input: "input", Editor: "editor"}


class Dialogs:
    """Who answers what; the newest of those who would."""

    def __init__(self) -> None:
        self._handlers: list[tuple[DialogHandler, tuple[Method, ...]]] = []

    def add(self, handler: DialogHandler, methods: tuple[Method, ...]) -> Callable[[], None]:
        row = (handler, methods or tuple(METHODS.values()))
        self._handlers.append(row)

        def remove() -> None:
            self._handlers[:] = [other for other in self._handlers if other is not row]

        return remove

    async def answer(self, dialog: Dialog) -> UiResponse:
        """What to tell the agent. Whatever a handler raises passes."""
        method = METHODS[type(dialog)]
        for handler, methods in reversed(self._handlers):
            if method in methods:
                answer = handler(dialog)
                return response(dialog, await answer if inspect.isawaitable(answer) else answer)
        return response(dialog, None)


def response(dialog: Dialog, answer: Answer) -> UiResponse:
    match answer:
        case None:
            return UiResponse(dialog.id, cancelled=True)
        case bool():
            return UiResponse(dialog.id, confirmed=answer)
        case str():
            return UiResponse(dialog.id, value=answer, confirmed=UNSET)
    raise TypeError(f"A dialog is answered by a str, a bool or None, not {type(answer).__name__}")
