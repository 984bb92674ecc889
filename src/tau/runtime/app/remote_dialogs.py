"""Dialogs of a session at a host, for a front end that expects those of a session in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tau.records.base import UNSET
from tau.records.dialogs import Editor, UiRequest
from tau.runtime.extensions.dialogs import DENY, Dialogs, Question
from tau.runtime.extensions.registry import ExtensionRegistry


class RemoteDialogs(Dialogs):
    """Own questions, such as a list to choose from, are answered here; those of the session by `send`."""

    def __init__(
        self,
        show: Callable[[UiRequest], None],
        extensions: ExtensionRegistry,
        send: Callable[[Mapping[str, Any]], None],
    ) -> None:
        super().__init__(show, extensions, has_ui=True)
        self._send = send
        self._remote: dict[str, float | None] = {}  # the deadlines of open dialogs of the session

    def opened(self, question: Question) -> bool:
        """A dialog of the session is open. Returns False if it was before."""
        if question.id in self._remote:
            return False
        timeout = UNSET if isinstance(question, Editor) else question.timeout
        now = asyncio.get_running_loop().time()
        self._remote[question.id] = now + timeout / 1000 if isinstance(timeout, int) else None
        return True

    def ended(self, id: str) -> None:
        """A dialog of the session has ended, by an answer of any client or without one."""
        if id in self._remote:
            del self._remote[id]
            self.over(id)

    def answer(self, response: Mapping[str, Any]) -> bool:
        id = response.get("id")
        if id not in self._remote:
            return super().answer(response)
        self._send({"type": "extension_ui_response", **response})
        self.ended(str(id))
        return True

    def deny(self, id: str, reason: str) -> None:
        self.answer({"id": id, "value": DENY})

    def deadline(self, id: str) -> float | None:
        return self._remote[id] if id in self._remote else super().deadline(id)
