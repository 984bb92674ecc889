"""Dialog handlers of a program: which function answers which question of an agent's extensions.

A dialog without a handler is cancelled at once: a waiting extension blocks the run, and an agent without a user must
not wait.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Literal

from tau.records.base import UNSET
from tau.records.dialogs import Confirm, Editor, Input, Select, UiResponse

Dialog = Select | Confirm | Input | Editor
Method = Literal["select", "confirm", "input", "editor"]
# A string for select, input and editor, a bool for confirm; None cancels.
Answer = str | bool | None
DialogHandler = Callable[[Dialog], Answer | Awaitable[Answer]]

METHODS: dict[type[Dialog], Method] = {Select: "select", Confirm: "confirm", Input: "input", Editor: "editor"}


class DialogHandlers:
    """Handlers by dialog method. The newest handler that accepts a method answers it."""

    def __init__(self) -> None:
        self._handlers: list[tuple[DialogHandler, tuple[Method, ...]]] = []

    def add(self, handler: DialogHandler, methods: tuple[Method, ...]) -> Callable[[], None]:
        row = (handler, methods or tuple(METHODS.values()))
        self._handlers.append(row)

        def remove() -> None:
            self._handlers[:] = [other for other in self._handlers if other is not row]

        return remove

    def has_handler(self, dialog: Dialog) -> bool:
        """True if a handler accepts this dialog."""
        return any(METHODS[type(dialog)] in methods for _, methods in self._handlers)

    async def answer(self, dialog: Dialog) -> UiResponse:
        """Ask the handler and return its answer as a response record. Exceptions of the handler propagate."""
        method = METHODS[type(dialog)]
        for handler, methods in reversed(self._handlers):
            if method in methods:
                answer = handler(dialog)
                return ui_response(dialog, await answer if inspect.isawaitable(answer) else answer)
        return ui_response(dialog, None)


def ui_response(dialog: Dialog, answer: Answer) -> UiResponse:
    match answer:
        case None:
            return UiResponse(dialog.id, cancelled=True)
        case bool():
            return UiResponse(dialog.id, confirmed=answer)
        case str():
            return UiResponse(dialog.id, value=answer, confirmed=UNSET)
    raise TypeError(f"A dialog handler must return a str, a bool or None, not {type(answer).__name__}")
