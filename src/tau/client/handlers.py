"""Who is told about events, and who answers dialogs.

Plain functions are called at once. Coroutine functions are awaited by a task that
reads events as any reader does, so that a slow one makes the agent wait.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, cast

from tau.client.connection import Connection
from tau.client.events import RpcEvent
from tau.client.process import AgentGone
from tau.client.stream import BUFFER, Events
from tau.core.answering import Dialog, Dialogs, response
from tau.records.base import encode
from tau.records.dialogs import Confirm, Editor, Input, Select

Told = Callable[[RpcEvent], None]
Awaited = Callable[[RpcEvent], Awaitable[None]]
EventHandler = Told | Awaited

LAST_WORDS = 1.0  # seconds for handlers to hear the end


class Handlers:
    def __init__(self) -> None:
        self.dialogs = Dialogs()
        self._told: list[Told] = []
        self._awaited: dict[object, Awaited] = {}
        self._listening: dict[object, tuple[Events, asyncio.Task[None]]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._connection: Connection | None = None

    def begin(self, connection: Connection) -> None:
        self._connection = connection
        for key in self._awaited:
            self._listen(key)

    async def end(self) -> None:
        """Let them hear what is left, but not for long."""
        self._connection = None
        for task in self._answering:
            task.cancel()
        tasks = {*self._answering, *(task for _, task in self._listening.values())}
        if tasks := tasks - {asyncio.current_task()}:
            _, late = await asyncio.wait(tasks, timeout=LAST_WORDS)
            for task in late:
                task.cancel()

    def add(self, handler: EventHandler) -> Callable[[], None]:
        if not (inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)):
            told = cast("Told", handler)
            self._told.append(told)
            return _once(lambda: self._told.remove(told))
        key = object()
        self._awaited[key] = cast("Awaited", handler)
        if self._connection is not None and not self._connection.over:
            self._listen(key)
        return _once(lambda: self._unlisten(key))

    def publish(self, event: RpcEvent) -> None:
        for handler in tuple(self._told):
            try:
                handler(event)
            except Exception as error:
                _report("A handler of events failed", error)
        if self._connection is not None and isinstance(event, Select | Confirm | Input | Editor):
            task = asyncio.ensure_future(self._answer(self._connection, event))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, connection: Connection, dialog: Dialog) -> None:
        try:
            answer = await self.dialogs.answer(dialog)
        except Exception as error:
            _report("A handler of dialogs failed, so the dialog is cancelled", error)
            answer = response(dialog, None)
        await connection.child.write(encode(answer) + b"\n")

    def _listen(self, key: object) -> None:
        assert self._connection is not None
        events, handler = self._connection.events(BUFFER), self._awaited[key]
        task = asyncio.ensure_future(_tell_all(events, handler))
        self._listening[key] = events, task
        task.add_done_callback(lambda _: self._listening.pop(key, None))

    def _unlisten(self, key: object) -> None:
        del self._awaited[key]
        if found := self._listening.get(key):
            events, task = found
            events.finish()
            if task is not asyncio.current_task():
                task.cancel()


async def _tell_all(events: Events, handler: Awaited) -> None:
    async with events:
        try:
            async for event in events:
                try:
                    await handler(event)
                except Exception as error:
                    _report("A handler of events failed", error)
        except AgentGone:
            pass  # whoever waits for an answer is told


def _once(do: Callable[[], Any]) -> Callable[[], None]:
    """For those who unsubscribe twice."""
    left = [do]

    def first() -> None:
        if left:
            left.pop()()

    return first


def _report(message: str, error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
