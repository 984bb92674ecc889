"""The dialogs of a live session: who answered, and the end of those that no attached client can answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tau.records.base import UNSET
from tau.records.events import Event
from tau.records.host_events import DialogOutcome, DialogResolved
from tau.runtime.extensions.dialogs import Dialogs, Question


class DialogWatch:
    """`publish` sends an event to all clients. `attended` tells whether a client is attached that can answer.

    The first answer wins. A question that no client can answer waits `timeout_s` for one, and then counts as not
    answered by anybody.
    """

    def __init__(
        self,
        dialogs: Dialogs,
        publish: Callable[[Event], object],
        attended: Callable[[Question], bool],
        timeout_s: float,
    ) -> None:
        self._dialogs = dialogs
        self._publish = publish
        self._attended = attended
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, tuple[Question, float | None]] = {}  # with deadlines
        self._answers: dict[str, tuple[str, DialogOutcome]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.answered_by: set[str] = set()  # clients
        dialogs.over = self._over

    def shown(self, question: Question) -> None:
        """A dialog was sent to the clients."""
        self._open[question.id] = question, self._dialogs.deadline(question.id)
        self._watch(question.id)

    def answer(self, answer: Any, client: str) -> None:
        """An answer of a client. It is ignored if there was one already."""
        id = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(id, str) or id not in self._open or id in self._answers:
            return
        if self._dialogs.answer(answer):
            self._answers[id] = client, "cancelled" if answer.get("cancelled") else "answered"
            self.answered_by.add(client)
            self.clients_changed()

    def clients_changed(self) -> None:
        for id in self._open:
            self._watch(id)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _watch(self, id: str) -> None:
        """Start or stop the clock of a dialog."""
        if self._attended(self._open[id][0]):
            if (timer := self._timers.pop(id, None)) is not None:
                timer.cancel()
        elif id not in self._timers:
            self._timers[id] = self._loop.call_later(self._timeout_s, self._expire, id)

    def _expire(self, id: str) -> None:
        self._timers.pop(id, None)
        if id in self._open and not self._attended(self._open[id][0]):
            self._dialogs.end_unattended(id)

    def _over(self, id: str) -> None:
        if id not in self._open:
            return
        _, deadline = self._open.pop(id)
        if (timer := self._timers.pop(id, None)) is not None:
            timer.cancel()
        client, outcome = self._answers.pop(id, (None, None))
        if outcome is None:
            outcome = "late" if deadline is not None and self._loop.time() >= deadline else "cancelled"
        self._publish(DialogResolved(id, outcome, UNSET if client is None else client))
