"""An agent in the caller's own process.

It belongs to the event loop it was opened in, and to nobody else: it changes no
folder, no environment, no signal handler and no stream of the process. Whatever
it starts it ends, within seconds, when it is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from tau.core.answering import DialogHandler, Method
from tau.core.structured import BadSchema, aim_at
from tau.errors import CommandError, UsageError
from tau.host import asking
from tau.host.machine import LocalMachine
from tau.host.session import Session
from tau.library.commands import Commands, checked
from tau.library.readers import EventHandler, Events, Hub
from tau.library.results import Result
from tau.library.running import Run, Telling, told
from tau.library.taking_part import Partners
from tau.library.threads import Threads
from tau.llm.http import Http
from tau.records.messages import Assistant, Image

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])
CLOSING = 5.0  # seconds for everything to end properly
AT_LAST = 1.0  # seconds for what did not


class Agent(Commands):
    """Made by `tau.open`. Use it in the event loop that opened it."""

    def __init__(
        self,
        session: Session,
        machine: LocalMachine,
        http: Http,
        hub: Hub,
        threads: Threads,
        partners: Partners,
        warnings: Sequence[str] = (),
    ) -> None:
        self.warnings = list(warnings)
        """what was wrong with settings and other files when it was opened, in sentences"""
        self._session = session
        self._machine = machine
        self._http = http
        self._hub = hub
        self._threads = threads
        self._partners = partners
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing: asyncio.Task[None] | None = None
        session.leave = self._begin_closing

    def _live(self) -> Session:
        if self._closing is not None:
            raise CommandError("The agent was closed.")
        return self._session

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # heard, also when nobody waits for it any more

    # Prompting.

    def prompt(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Literal["steer", "follow_up"] | None = None,
        output_schema: Any = None,
    ) -> Run:
        """Ask. `await` what this returns for the Result, or read it with `async for` to see what happens.

        While the agent works `while_busy` says how the message shall wait; without
        it, that is a CommandError. With `output_schema`, a JSON Schema or a class
        (msgspec, pydantic, dataclass), the model has to hand in an object that
        fits, and `Result.output` is that.
        """
        session = self._live()
        here = self._loop
        telling = Telling(session)
        try:
            aim = None if output_schema is None else aim_at(output_schema)
        except BadSchema as error:
            raise UsageError(f"output_schema: {error}") from None

        async def say() -> None:
            await asking.say(self._live(), text, checked(images), while_busy, aim=aim)

        def begin() -> asyncio.Task[Result]:
            if asyncio.get_running_loop() is not here:
                raise CommandError("This agent was opened in another event loop; it can only be prompted there.")
            return self._spawn(told(session, self._hub, say, telling))

        return Run(text, telling, begin)

    # Hearing.

    def subscribe(self, handler: EventHandler) -> Callable[[], None]:
        """Call `handler` with every event; returns a function that ends this.

        A plain function is called at once and should be quick. A coroutine
        function is awaited for one event after the other; the agent does not wait.
        """
        self._live()
        return self._hub.subscribe(handler)

    def events(self) -> Events:
        """All events from here on until the agent is closed, for `async for`."""
        self._live()
        return self._hub.events()

    @property
    def partial(self) -> Assistant | None:
        """The answer that is being written, as far as it has come."""
        return self._hub.partial

    # Taking part.

    @overload
    def on(self, hook: str) -> Callable[[F], F]: ...
    @overload
    def on(self, hook: str, handler: Callable[..., Any]) -> Callable[[], None]: ...
    def on(self, hook: str, handler: Callable[..., Any] | None = None) -> Any:
        """Take part at a moment that extensions know: "tool_call", "context", "input", … Also as a decorator.

        `handler(event)` or `handler(event, ctx)` returns what extensions return
        there. With a handler given, returns a function that takes it back.
        """
        self._live()
        if handler is not None:
            return self._partners.on(hook, handler)

        def decorate(function: F) -> F:
            self._partners.on(hook, function)
            return function

        return decorate

    def on_dialog(self, handler: DialogHandler, *methods: Method) -> Callable[[], None]:
        """Let `handler` answer questions of extensions: all, or those of the methods named.

        It returns a text, or yes or no for `confirm`; None cancels. Returns a function that ends this.
        """
        self._live()
        return self._partners.answer_dialogs(handler, methods)

    # The end.

    @property
    def closed(self) -> bool:
        return self._closing is not None

    async def close(self) -> None:
        """Abort what is under way and end everything: seconds at most. What was said is in the session file.

        Closing goes on when its caller is cancelled, and whoever closes again waits for the same end.
        """
        self._begin_closing()
        if self._closing is not None and self._closing is not asyncio.current_task():
            await _to_the_end(self._closing)

    def _begin_closing(self) -> None:
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())

    async def _close(self) -> None:
        session = self._session
        try:
            await _within(CLOSING, session.close(), "the session")
        finally:
            session.runs.leave()
            session.guests.kill()
            self._machine.kill_all()
            session.log.close()
            await _within(AT_LAST, self._partners.end(), "hooks")
            await self._left()
            await self._hub.close()
            with suppress(TimeoutError):
                await self._http.close()
            await self._threads.join(AT_LAST)
            await self._machine.release()

    async def _left(self) -> None:
        """Whoever waits for a run that did not end is told so."""
        if waiting := self._tasks - {asyncio.current_task()}:
            _, late = await asyncio.wait(waiting, timeout=AT_LAST)
            for task in late:
                task.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


async def _to_the_end(task: asyncio.Task[None]) -> None:
    """Wait until it is done, then be cancelled if one was: it takes seconds, and must not be left half done."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                break
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


async def _within(seconds: float, work: Coroutine[Any, Any, None], what: str) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        log.warning("%s did not end within %g s and was left", what, seconds)
    except Exception:
        log.exception("%s ended badly", what)
