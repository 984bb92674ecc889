"""Event handlers and dialog handlers of a client.

Plain functions are called directly. Coroutine functions are awaited by a task that reads events like any other
reader, so that a slow handler makes the agent wait.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, cast

from tau.client.connection import Connection
from tau.client.errors import AgentGone
from tau.client.events import RpcEvent, read_event
from tau.client.stream import MAX_BUFFERED_EVENTS, Events
from tau.concurrency.tasks import await_foreign, failure_of
from tau.core.checks.dialog_handlers import Dialog, DialogHandlers, ui_response
from tau.records.base import encode
from tau.records.dialogs import Confirm, Editor, Input, Select
from tau.records.host_events import DialogResolved, Snapshot

PlainHandler = Callable[[RpcEvent], None]
AsyncHandler = Callable[[RpcEvent], Awaitable[None]]
EventHandler = PlainHandler | AsyncHandler

FINAL_EVENTS_TIMEOUT_S = 1.0  # for handlers to process the last events


class Handlers:
    """`shared`: the session has other clients, so a dialog without a handler is left to them, not cancelled."""

    def __init__(self, *, shared: bool = False) -> None:
        self._shared = shared
        self.dialogs = DialogHandlers()
        self._plain: list[PlainHandler] = []
        self._async: dict[object, AsyncHandler] = {}
        self._readers: dict[object, tuple[Events, asyncio.Task[None]]] = {}
        self._dialog_tasks: dict[str, asyncio.Task[None]] = {}
        self._connection: Connection | None = None

    def attach(self, connection: Connection) -> None:
        self._connection = connection
        for key in self._async:
            self._start_reader(key)

    async def detach(self) -> None:
        """Let the handlers process the remaining events, within FINAL_EVENTS_TIMEOUT_S."""
        self._connection = None
        for task in self._dialog_tasks.values():
            task.cancel()
        tasks = {*self._dialog_tasks.values(), *(task for _, task in self._readers.values())}
        if tasks := tasks - {asyncio.current_task()}:
            _, late = await asyncio.wait(tasks, timeout=FINAL_EVENTS_TIMEOUT_S)
            for task in late:
                task.cancel()

    def add(self, handler: EventHandler) -> Callable[[], None]:
        if not (inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)):
            plain = cast("PlainHandler", handler)
            self._plain.append(plain)
            return _once(lambda: self._plain.remove(plain))
        key = object()
        self._async[key] = cast("AsyncHandler", handler)
        if self._connection is not None and not self._connection.closed:
            self._start_reader(key)
        return _once(lambda: self._remove_async(key))

    def publish(self, event: RpcEvent) -> None:
        for handler in tuple(self._plain):
            try:
                handler(event)
            except BaseException as error:
                _report("An event handler failed", failure_of(error))
        if isinstance(event, Select | Confirm | Input | Editor):
            self._start_dialog(event)
        elif isinstance(event, DialogResolved) and (task := self._dialog_tasks.get(event.id)):
            task.cancel()  # another client has answered
        elif isinstance(event, Snapshot):
            for dialog in event.dialogs:
                self._start_open_dialog(dialog)

    def _start_dialog(self, dialog: Dialog) -> None:
        if self._connection is None or dialog.id in self._dialog_tasks:
            return
        if self._shared and not self.dialogs.has_handler(dialog):
            return
        task = asyncio.ensure_future(self._answer(self._connection, dialog))
        self._dialog_tasks[dialog.id] = task
        task.add_done_callback(lambda _: self._dialog_tasks.pop(dialog.id, None))

    def _start_open_dialog(self, request: Any) -> None:
        """A dialog of a snapshot: it was opened before this client attached, or while it was away."""
        event = read_event("extension_ui_request", encode(request))
        if isinstance(event, Select | Confirm | Input | Editor):
            self._start_dialog(event)

    async def _answer(self, connection: Connection, dialog: Dialog) -> None:
        try:
            answer = await await_foreign(self.dialogs.answer(dialog))
        except BaseException as error:
            _report("A dialog handler failed, so the dialog is cancelled", failure_of(error))
            answer = ui_response(dialog, None)
        await connection.line.write(encode(answer) + b"\n")

    def _start_reader(self, key: object) -> None:
        assert self._connection is not None
        events, handler = self._connection.events(MAX_BUFFERED_EVENTS), self._async[key]
        task = asyncio.ensure_future(_deliver(events, handler))
        self._readers[key] = events, task
        task.add_done_callback(lambda _: self._readers.pop(key, None))

    def _remove_async(self, key: object) -> None:
        del self._async[key]
        if reader := self._readers.get(key):
            events, task = reader
            events.finish()
            if task is not asyncio.current_task():
                task.cancel()


async def _deliver(events: Events, handler: AsyncHandler) -> None:
    async with events:
        try:
            async for event in events:
                try:
                    await await_foreign(handler(event))
                except BaseException as error:
                    _report("An event handler failed", failure_of(error))
        except AgentGone:
            pass  # pending calls raise it


def _once(action: Callable[[], Any]) -> Callable[[], None]:
    """Make a function that may be called twice but acts once."""
    remaining = [action]

    def first() -> None:
        if remaining:
            remaining.pop()()

    return first


def _report(message: str, error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
