"""The actions of an extension that are in progress: one task each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from tau.concurrency.tasks import failure_of
from tau.extension_api.messages import DIALOGS, Action, Answer, Tell, Trouble

Tasks = set[asyncio.Task[None]]


class Performer(Protocol):
    """Performs actions, and reports those that failed and have no answer."""

    async def perform(self, name: str, params: dict[str, Any]) -> Any: ...

    def report_trouble(self, message: Trouble) -> None: ...


class ActionTasks:
    """Performs the actions that an extension requests, and sends their answers."""

    def __init__(self, performer: Performer, send_answer: Callable[[Answer, bool], None]) -> None:
        """`send_answer` gets the answer, and True for one that the extension blocks for."""
        self._performer = performer
        self._send_answer = send_answer
        self._tasks: Tasks = set()
        self._dialogs: Tasks = set()
        self._by_id: dict[int, asyncio.Task[None]] = {}
        self.size = 0  # bytes of the messages whose actions are in progress

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, message: Tell | Action, dialogs_of_call: Tasks | None, size: int = 0) -> None:
        """Perform an action in a task. `dialogs_of_call`: the open dialogs of the call that requests it, if any.

        `size`: bytes of the message, which is kept until the action is done.
        """
        task = self._create_task(self._perform(message))
        self.size += size
        task.add_done_callback(lambda _: self._done(size))
        if isinstance(message, Action) and not message.sync:
            id = message.id
            self._by_id[id] = task
            task.add_done_callback(lambda _: self._by_id.pop(id, None))
        if message.name in DIALOGS:  # a dialog is withdrawn when its call or its extension ends
            _keep(task, self._dialogs)
            if dialogs_of_call is not None:
                _keep(task, dialogs_of_call)

    def answer_when(self, room: asyncio.Future[None] | None, id: int, send: Callable[[Answer], None]) -> None:
        """Answer an update as soon as there is room for more."""
        self._create_task(_send_when(room, Answer(id), send))

    def withdraw(self, id: Any) -> None:
        """End an action that the extension no longer waits for, such as a dialog."""
        task = self._by_id.pop(id, None) if isinstance(id, int) else None
        if task is not None:
            task.cancel()
            self._send_answer(Answer(id), False)

    def _done(self, size: int) -> None:
        self.size -= size

    def cancel_dialogs(self) -> None:
        for task in self._dialogs:
            task.cancel()

    def _create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        _keep(task, self._tasks)
        return task

    async def _perform(self, message: Tell | Action) -> None:
        try:
            value = await self._performer.perform(message.name, message.params)
            answer = Answer(message.id, value) if isinstance(message, Action) else None
        except BaseException as error:
            failure = failure_of(error)
            if isinstance(message, Tell):
                self._performer.report_trouble(Trouble(str(failure), message.name))
                return
            answer = Answer(message.id, error=str(failure) or type(failure).__name__)
        if answer is not None and isinstance(message, Action):
            self._send_answer(answer, message.sync)


async def _send_when(room: asyncio.Future[None] | None, answer: Answer, send: Callable[[Answer], None]) -> None:
    if room is not None:
        await asyncio.wait([room])
    send(answer)


def _keep(task: asyncio.Task[None], tasks: Tasks) -> None:
    tasks.add(task)
    task.add_done_callback(tasks.discard)
