"""One prompt of the library, from the moment somebody waits for it.

`agent.prompt(...)` gives a Run, which can be awaited and read with `async for`,
in either order and more than once. The work is a task of the agent: whoever
waits may be cancelled, and it goes on.
"""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from tau.host.runs import Outcome
from tau.host.session import Session
from tau.library.readers import AgentEvent, Events, Hub
from tau.library.results import Result, result_of
from tau.records.events import AgentSettled, AutoRetryStart, MessageEnd
from tau.records.messages import AnyMessage, Assistant


class Telling:
    """What is told about one prompt, until it is settled."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._messages: list[AnyMessage] = []
        self._answers: list[Assistant] = []
        self._readers: list[weakref.ref[Events]] = []  # of whoever reads them still
        self._ours: int | None = None  # which of all prompts
        self._outcome: Outcome | None = None
        self._settled = asyncio.Event()

    def read(self) -> Events:
        events = Events()
        self._readers.append(weakref.ref(events))
        return events

    def hear(self, event: AgentEvent) -> None:
        if self._settled.is_set():
            return
        for reader in self._readers:
            if (events := reader()) is not None:
                events.push(event)
        match event:
            case MessageEnd(message=message):
                self._messages.append(message)
                if isinstance(message, Assistant):
                    self._answers.append(message)
            case AutoRetryStart() if self._messages:
                self._messages.pop()  # the answer that failed, and is asked for again
            case AgentSettled():
                self._outcome = self._session.runs.outcome
                self._look()

    async def over(self, ours: int) -> Result:
        """Wait until prompt number `ours` of the session is settled."""
        self._ours = ours
        self._look()
        await self._settled.wait()
        return result_of(self._messages, self._answers, self._outcome, self._session.models.unpriced)

    def _look(self) -> None:
        if self._ours is not None and self._session.runs.settled >= self._ours:
            self.end()

    def end(self, error: BaseException | None = None) -> None:
        # Here, not when somebody is told of it: the next prompt's events may come in the same moment.
        self._settled.set()
        for reader in self._readers:
            if (events := reader()) is not None:
                events.finish(error)


async def told(session: Session, hub: Hub, say: Callable[[], Awaitable[None]], telling: Telling) -> Result:
    """Say it, and wait until nothing that comes of it is left to do."""
    unsubscribe = hub.listen(telling.hear)
    before, waiting = session.runs.accepted, len(session.queues)
    try:
        await say()
        if session.runs.accepted == before and len(session.queues) == waiting:
            await session.errands.done(None)  # a command of an extension, if anything
        return await telling.over(session.runs.accepted)
    except BaseException as error:
        telling.end(error)
        raise
    finally:
        unsubscribe()


class Run(Awaitable[Result]):
    """A prompt under way. `await` it for its Result, or read its events with `async for`; it begins with the first.

    Leaving early, or being cancelled, does not abort it: that is `agent.abort()`.
    """

    def __init__(self, prompt: str, telling: Telling, begin: Callable[[], asyncio.Task[Result]]) -> None:
        self._prompt = prompt
        self._telling = telling
        self._begin = begin
        self._task: asyncio.Task[Result] | None = None

    def start(self) -> Run:
        """Begin, without waiting for anything."""
        if self._task is None:
            self._task = self._begin()
        return self

    @property
    def done(self) -> bool:
        return self._task is not None and self._task.done()

    def __await__(self) -> Generator[Any, None, Result]:
        return self._wait().__await__()

    async def _wait(self) -> Result:
        self.start()
        assert self._task is not None
        return await asyncio.shield(self._task)

    def __aiter__(self) -> Events:
        """The events from here on, to the AgentSettled that is the last. Raises CommandError if it is refused."""
        events = self._telling.read()
        if self.done:
            events.finish()
        self.start()
        return events

    def __del__(self) -> None:
        if self._task is None:
            warnings.warn(f"prompt {self._prompt[:40]!r} was never awaited", RuntimeWarning, stacklevel=2, source=self)
