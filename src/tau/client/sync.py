"""RpcClient for programs without an event loop, or with one of their own.

The client runs in its own event loop in its own thread; every method blocks until the result is there. Event handlers
are called in another thread, one event after the other, and dialog handlers in one thread each, so that all of them
may block, ask the person at the terminal, or call the client.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tau.client import client, stream
from tau.client.calls import Images
from tau.client.client import Executable, Queued
from tau.client.errors import AgentGone
from tau.client.events import RpcEvent
from tau.client.facade import blocking
from tau.client.loop_thread import JOIN_TIMEOUT_S, LoopThread
from tau.client.stream import MAX_BUFFERED_EVENTS
from tau.client.sync_calls import SyncCalls
from tau.concurrency.threads import run_in_thread
from tau.core.checks.dialog_handlers import Answer, Dialog, Method

if TYPE_CHECKING:
    from tau.tools import Tool

T = TypeVar("T")


class Events(Iterator[RpcEvent]):
    """Events, in order. Ends when the client is stopped, and raises AgentGone if the agent dies."""

    def __init__(self, events: stream.Events, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._events, self._wait = events, wait
        self._batch: deque[RpcEvent] = deque()

    def __next__(self) -> RpcEvent:
        if not self._batch:
            try:
                self._batch.extend(self._wait(self._events.batch()))
            except StopAsyncIteration:
                raise StopIteration from None
        return self._batch.popleft()

    def close(self) -> None:
        """Stop receiving events."""
        self._batch.clear()
        self._wait(self._events.aclose())


class RpcClient(SyncCalls):
    """An agent in another process: `tau.RpcClient` with blocking methods."""

    def __init__(
        self,
        cwd: str | os.PathLike[str] | None = None,
        provider: str | None = None,
        model: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        executable: Executable | None = None,
        *,
        dialect: str | None = None,
        timeout: float | None = 60.0,
        tools: Sequence[Tool | Callable[..., Any]] = (),
    ) -> None:
        self._peer: client.RpcClient = client.RpcClient(
            cwd, provider, model, args, env, executable, dialect=dialect, timeout=timeout, tools=tools
        )
        self._loop: LoopThread | None = None
        self._handlers: list[Callable[[RpcEvent], None]] = []
        self._event_thread: threading.Thread | None = None
        self._event_stream: stream.Events | None = None

    @classmethod
    def connect(
        cls,
        url: str = "unix:",
        *,
        token: str | None = None,
        session: str | None = None,
        open: Mapping[str, Any] | None = None,
        dialect: str = "1.5",
        reconnect: bool = True,
        timeout: float | None = 60.0,
        tools: Sequence[Tool | Callable[..., Any]] = (),
    ) -> Self:
        """Return a client for a session of a host, see `tau.RpcClient.connect`."""
        facade = cls()
        facade._peer = client.RpcClient.connect(
            url,
            token=token,
            session=session,
            open=open,
            dialect=dialect,
            reconnect=reconnect,
            timeout=timeout,
            tools=tools,
        )
        return facade

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise AgentGone("The agent was not started: use the client in a `with`, or call start().")
        return self._loop.run(work)

    # Process.

    def start(self) -> None:
        """Start the agent and wait until it responds. Raises AgentGone if it fails to start."""
        loop = self._loop or LoopThread()
        self._loop = loop
        try:
            loop.run(self._peer.start())
        except BaseException:
            if not self._peer.running:  # but not if it was already running
                self.stop()
            raise
        if self._handlers:
            self._listen()

    def stop(self) -> None:
        """Stop the agent, by force if necessary, and fail all pending calls. Takes seconds at most."""
        if self._loop is not None:
            self._loop.require_other_thread()
        loop, self._loop = self._loop, None
        if loop is None or loop.is_forked:  # the agent belongs to the process that has started it
            return
        try:
            loop.run(self._peer.stop())
        except KeyboardInterrupt:
            loop.run(self._peer.stop())  # returns quickly: it kills the process
            raise
        finally:
            if self._event_thread is not None and self._event_thread is not threading.current_thread():
                self._event_thread.join(JOIN_TIMEOUT_S)
            self._event_thread = self._event_stream = None
            loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def stderr(self) -> str:
        """The last 64 KB that the agent wrote to stderr, including lines on stdout that are not JSON records."""
        return self._peer.stderr

    @property
    def pid(self) -> int | None:
        """The process id of the agent; None before `start`."""
        return self._peer.pid

    @property
    def exit_code(self) -> int | None:
        """None while the agent runs; a negative signal number if a signal killed it."""
        return self._peer.exit_code

    @property
    def running(self) -> bool:
        """True from `start` until the agent is gone."""
        return self._peer.running

    # Events.

    def on_event(self, handler: Callable[[RpcEvent], None]) -> Callable[[], None]:
        """Call `handler` with every event, in a thread of its own. Returns a function that unsubscribes it."""
        self._handlers.append(handler)
        if self._loop is not None and self._event_thread is None:
            self._listen()
        remaining = [handler]

        def unsubscribe() -> None:
            if remaining:
                self._handlers.remove(remaining.pop())

        return unsubscribe

    def _listen(self) -> None:
        stream = self._event_stream = self._wait(self._events(MAX_BUFFERED_EVENTS))
        # Uses the loop directly: the thread delivers the last events after `self._loop` was reset.
        events = Events(stream, self._loop.run if self._loop else self._wait)
        self._event_thread = threading.Thread(target=self._dispatch, args=(events,), name="tau-events", daemon=True)
        self._event_thread.start()

    def _dispatch(self, events: Events) -> None:
        try:
            for event in events:
                for handler in tuple(self._handlers):
                    try:
                        handler(event)
                    except BaseException as error:
                        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))
        except AgentGone:
            pass  # pending calls raise it

    async def _events(self, limit: int | None) -> stream.Events:
        return self._peer.events(limit)

    def events(self, limit: int | None = MAX_BUFFERED_EVENTS) -> Events:
        """Return the events from now on. When the reader is `limit` events behind, the agent waits; None means no
        limit.
        """
        return Events(self._wait(self._events(limit)), self._wait)

    def prompt_events(
        self,
        message: str,
        images: Images = None,
        *,
        streaming_behavior: Queued = None,
        limit: int | None = MAX_BUFFERED_EVENTS,
    ) -> Iterator[RpcEvent]:
        """Send a message and yield events until the agent is idle. Leaving the loop early does not abort the run."""
        events = self._peer.prompt_events(message, images, streaming_behavior=streaming_behavior, limit=limit)
        try:
            while (event := self._wait(_next(events))) is not None:
                yield event
        finally:
            if self._loop is not None:
                self._wait(events.aclose())

    def prompt_and_wait(
        self,
        message: str,
        images: Images = None,
        *,
        streaming_behavior: Queued = None,
        timeout: float | None = 60.0,
    ) -> list[RpcEvent]:
        """Send a message, wait until the agent is idle, and return all events in between."""
        events = self._wait(
            self._peer.prompt_and_wait(message, images, streaming_behavior=streaming_behavior, timeout=timeout)
        )
        self._catch_up()
        return events

    def wait_for_idle(self, timeout: float | None = 60.0) -> None:
        """Wait until all prompts are finished. Raises TimeoutError after `timeout` seconds; the run continues."""
        self._wait(self._peer.wait_for_idle(timeout))
        self._catch_up()

    def _catch_up(self) -> None:
        """Wait until the handlers have processed all events so far, unless a handler is the caller."""
        if self._event_stream is not None and self._event_thread is not threading.current_thread():
            self._wait(self._event_stream.caught_up())

    set_tools = blocking(client.RpcClient.set_tools)

    # Dialogs.

    def on_dialog(self, handler: Callable[[Dialog], Answer], *methods: Method) -> Callable[[], None]:
        """Let `handler` answer dialogs of extensions: all of them, or those of the given methods.

        It returns a string, or a boolean for `confirm`. None cancels the dialog, as does having no handler. Returns a
        function that unsubscribes the handler.
        """

        async def answer(dialog: Dialog) -> Answer:
            # In a thread of its own: a person may never answer, and nothing may wait for that.
            return await run_in_thread(lambda: handler(dialog), "tau-dialog")

        return self._peer.on_dialog(answer, *methods)


async def _next(events: AsyncGenerator[RpcEvent, None]) -> RpcEvent | None:
    return await anext(events, None)
