"""Dialogs of a session, answered by the user of the MCP client whose call they belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tau.mcp_server.calls import Call
from tau.mcp_server.forms import Question, dialog_answer, form_of
from tau.runtime.app.handle import SessionHandle


class Questions:
    """The open dialogs of one session. `call` is the call that a dialog belongs to, when it is shown."""

    def __init__(self, call: Callable[[], Call | None]) -> None:
        self._call = call
        self._asking: dict[str, asyncio.Task[None]] = {}

    def connect(self, handle: SessionHandle) -> None:
        handle.dialogs.over = self._over

    def show(self, question: Question, answer: Callable[[object], None]) -> None:
        """Ask the user of the client. Without one who can be asked, the dialog is cancelled."""
        call = self._call()

        async def ask() -> None:
            given = await call.ask(form_of(question)) if call is not None and call.can_ask else None
            answer(dialog_answer(question, given))

        task = self._asking[question.id] = asyncio.ensure_future(ask())
        task.add_done_callback(lambda _: self._asking.pop(question.id, None))

    def _over(self, id: str) -> None:
        """The dialog has ended: nothing waits for the answer of the client any more."""
        task = self._asking.get(id)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
