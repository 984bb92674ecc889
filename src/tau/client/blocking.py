"""RpcClient for programs without an event loop, or with one that is somebody else's.

The client lives in a loop of its own, in a thread of its own; every method waits
for what happens there. Handlers of events are called in another thread, one event
after the other, and dialogs in a thread each, so that all of them may wait, ask
the person at the terminal, or call the client.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from tau.client import client, stream
from tau.client.calls import Images
from tau.client.client import Executable, Queued
from tau.client.events import RpcEvent
from tau.client.process import AgentGone
from tau.client.stream import BUFFER
from tau.client.waiting_calls import WaitingCalls
from tau.core.answering import Answer, Dialog, Method

T = TypeVar("T")
JOIN = 5.0  # seconds for a thread that has nothing left to do


class Loop:
    """An event loop in a thread. It ends with `close`, or with the program."""

    def __init__(self) -> None:
        ready = threading.Event()

        async def main() -> None:
            self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
            ready.set()
            await self._done.wait()

        self._thread = threading.Thread(target=asyncio.run, args=(main(),), name="tau-client", daemon=True)
        self._thread.start()
        ready.wait()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for it. What interrupts the waiting, Ctrl-C for one, also cancels it."""
        if self._loop.is_closed():
            coroutine.close()
            raise AgentGone("The agent was stopped.")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(JOIN)


class Events(Iterator[RpcEvent]):
    """Events, one after the other. Ends when the client is stopped, and raises AgentGone if the agent dies."""

    def __init__(self, events: stream.Events, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._events, self._wait = events, wait
        self._here: deque[RpcEvent] = deque()

    def __next__(self) -> RpcEvent:
        if not self._here:
            try:
                self._here.extend(self._wait(self._events.batch()))
            except StopAsyncIteration:
                raise StopIteration from None
        return self._here.popleft()

    def close(self) -> None:
        """Hear no more."""
        self._here.clear()
        self._wait(self._events.aclose())


class RpcClient(WaitingCalls):
    """An agent in another process: `tau.RpcClient`, with methods that wait."""

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
    ) -> None:
        self._peer: client.RpcClient = client.RpcClient(
            cwd, provider, model, args, env, executable, dialect=dialect, timeout=timeout
        )
        self._loop: Loop | None = None
        self._handlers: list[Callable[[RpcEvent], None]] = []
        self._ear: threading.Thread | None = None
        self._heard: stream.Events | None = None

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise AgentGone("The agent was not started: use the client in a `with`, or call start().")
        return self._loop.run(work)

    # The process.

    def start(self) -> None:
        """Returns when the agent answers; raises AgentGone if it does not come up."""
        loop = self._loop or Loop()
        self._loop = loop
        try:
            loop.run(self._peer.start())
        except BaseException:
            if self._peer.exit_code is not None or self._peer.pid is None:  # not if it was running already
                self.stop()
            raise
        if self._handlers:
            self._listen()

    def stop(self) -> None:
        """End the agent, at the latest by force, and everything that waits for it. Takes seconds at most."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            loop.run(self._peer.stop())
        except KeyboardInterrupt:
            loop.run(self._peer.stop())  # by force now: quick
            raise
        finally:
            if self._ear is not None and self._ear is not threading.current_thread():
                self._ear.join(JOIN)
            self._ear = self._heard = None
            loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def stderr(self) -> str:
        """The last 64 KB that the agent wrote to its stderr, and whatever it said on stdout that is no record."""
        return self._peer.stderr

    @property
    def pid(self) -> int | None:
        return self._peer.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus a number if that signal killed it."""
        return self._peer.exit_code

    # Events.

    def on_event(self, handler: Callable[[RpcEvent], None]) -> Callable[[], None]:
        """Call `handler` with every event, in a thread for that; returns a function that ends this."""
        self._handlers.append(handler)
        if self._loop is not None and self._ear is None:
            self._listen()
        left = [handler]

        def unsubscribe() -> None:
            if left:
                self._handlers.remove(left.pop())

        return unsubscribe

    def _listen(self) -> None:
        heard = self._heard = self._wait(self._events(BUFFER))
        # It outlives `self._loop` by what is left to be told.
        events = Events(heard, self._loop.run if self._loop else self._wait)
        self._ear = threading.Thread(target=self._tell_all, args=(events,), name="tau-events", daemon=True)
        self._ear.start()

    def _tell_all(self, events: Events) -> None:
        try:
            for event in events:
                for handler in tuple(self._handlers):
                    try:
                        handler(event)
                    except Exception as error:
                        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))
        except AgentGone:
            pass  # whoever waits for an answer is told

    async def _events(self, limit: int | None) -> stream.Events:
        return self._peer.events(limit)

    def events(self, limit: int | None = BUFFER) -> Events:
        """The events from here on. Behind by `limit`, the agent waits; None is without limit."""
        return Events(self._wait(self._events(limit)), self._wait)

    def prompt_events(
        self, message: str, images: Images = None, *, streaming_behavior: Queued = None, limit: int | None = BUFFER
    ) -> Iterator[RpcEvent]:
        """Send a message and give the events until the agent is idle. Leaving early does not abort the run."""
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
        """Send a message and wait until the agent is idle; returns all events from here to there."""
        heard = self._wait(
            self._peer.prompt_and_wait(message, images, streaming_behavior=streaming_behavior, timeout=timeout)
        )
        self._catch_up()
        return heard

    def wait_for_idle(self, timeout: float | None = 60.0) -> None:
        """Until nothing that was prompted is left to do. TimeoutError after `timeout` seconds; the run goes on."""
        self._wait(self._peer.wait_for_idle(timeout))
        self._catch_up()

    def _catch_up(self) -> None:
        """What was heard until now has been told when this returns, except to a handler that asks for it."""
        if self._heard is not None and self._ear is not threading.current_thread():
            self._wait(self._heard.caught_up())

    # Dialogs.

    def on_dialog(self, handler: Callable[[Dialog], Answer], *methods: Method) -> Callable[[], None]:
        """Let `handler` answer questions of extensions: all, or those of the methods named.

        It returns a text, or yes or no for `confirm`; None cancels, and so does having no handler. Returns a function
        that ends this.
        """

        async def answer(dialog: Dialog) -> Answer:
            return await _in_a_thread(handler, dialog)

        return self._peer.on_dialog(answer, *methods)


async def _next(events: AsyncGenerator[RpcEvent, None]) -> RpcEvent | None:
    return await anext(events, None)


async def _in_a_thread(handler: Callable[[Dialog], Answer], dialog: Dialog) -> Answer:
    """In one of its own that nobody has to wait for: a person may never answer."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Answer] = loop.create_future()

    def settle(answer: Answer, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(answer)
        else:
            done.set_exception(error)

    def ask() -> None:
        answer: Answer = None
        failed: Exception | None = None
        try:
            answer = handler(dialog)
        except Exception as error:
            failed = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, answer, failed)

    threading.Thread(target=ask, name="tau-dialog", daemon=True).start()
    return await done
