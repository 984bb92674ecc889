"""Agent: an agent in the caller's process.

It belongs to the event loop in which it was opened. It does not change the working directory, environment, signal
handlers or standard streams of the process. Everything that it starts ends within seconds when it is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from types import GenericAlias, TracebackType, UnionType
from typing import Any, ParamSpec, Self, TypeVar, overload

from tau.concurrency.tasks import failure_of, not_cancelled_again
from tau.core.agent.structured_output import BadSchema, parse_output_schema
from tau.core.checks.dialog_handlers import DialogHandler, Method
from tau.errors import CommandError, UsageError
from tau.functions.function_tools import function_tool
from tau.functions.threads import Threads
from tau.library.arguments import check_prompt
from tau.library.commands import Commands, Deliver, validated_images
from tau.library.hook_registrar import HookRegistrar
from tau.library.hooks import ProgramHooks
from tau.library.run import Run, RunTracker, run_prompt
from tau.library.subscriptions import EventHandler, EventHub, Events
from tau.library.wording import python_errors
from tau.records.messages import Assistant, Image
from tau.runtime.app.handle import SessionHandle
from tau.tools import Tool

logger = logging.getLogger(__name__)
T = TypeVar("T")
P = ParamSpec("P")
AnySchema = Mapping[str, Any] | UnionType | GenericAlias  # output schemas whose type a type checker cannot derive
CLOSE_TIMEOUT_S = 5.0  # for the session to close
FINAL_TIMEOUT_S = 1.0  # for each remaining step


def _made_by_open(init: Callable[P, None]) -> Callable[P, None]:
    """Refuse other arguments than those of `tau.open`, which alone creates agents."""

    @wraps(init)
    def checked(*args: P.args, **named: P.kwargs) -> None:
        if len(args) < 2 or not isinstance(args[1], SessionHandle):
            raise UsageError("An agent is opened with tau.open: `async with tau.open(model=...) as agent`.")
        init(*args, **named)

    return checked


class Agent(Commands):
    """Created by `tau.open`. Use it only in the event loop that opened it."""

    @_made_by_open
    def __init__(
        self,
        handle: SessionHandle,
        hub: EventHub,
        threads: Threads,
        program_hooks: ProgramHooks,
        warnings: Sequence[str] = (),
    ) -> None:
        self.warnings = list(warnings)
        """Problems found in settings and other files when the agent was opened."""
        self._handle = handle
        self._hub = hub
        self._threads = threads
        self._program_hooks = program_hooks
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing: asyncio.Task[None] | None = None
        handle.on_exit_request(self._begin_closing)

    def _require_handle(self) -> SessionHandle:
        if self._closing is not None:
            raise CommandError("The agent was closed.")
        return self._handle

    def _function_tool(self, function: Callable[..., Any]) -> Tool:
        return function_tool(function, self._threads)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _spawn_in_own_loop(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        if asyncio.get_running_loop() is not self._loop:
            work.close()
            raise CommandError("This agent was opened in another event loop; it can only be prompted there.")
        return self._spawn(work)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as retrieved, even if the caller was cancelled

    # Prompts.

    @overload
    def prompt(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Deliver | None = None,
        output_schema: None = None,
        abort_on_cancel: bool = True,
    ) -> Run[None]: ...
    @overload
    def prompt(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Deliver | None = None,
        output_schema: type[T],
        abort_on_cancel: bool = True,
    ) -> Run[T]: ...
    @overload
    def prompt(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Deliver | None = None,
        output_schema: AnySchema | None,
        abort_on_cancel: bool = True,
    ) -> Run[Any]: ...
    def prompt(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Deliver | None = None,
        output_schema: Any = None,
        abort_on_cancel: bool = True,
    ) -> Run[Any]:
        """Send a prompt. `await` the returned Run for the Result, or iterate over it with `async for` for the events.

        While the agent is working, `while_busy` says how to queue the message; without it, that raises CommandError.
        With `output_schema`, a class (msgspec, pydantic, dataclass, TypedDict) or a JSON Schema, the model must return
        an object that matches, and `Result.output` holds it: an instance of the class. Cancelling the task that
        awaits the run aborts it; with `abort_on_cancel=False` it continues.
        """
        check_prompt(text, images, while_busy)
        handle, tracker = self._require_handle(), RunTracker(self._require_handle())
        try:
            schema = None if output_schema is None else parse_output_schema(output_schema)
        except BadSchema as error:
            raise UsageError(f"output_schema: {error}") from None

        async def submit() -> bool:
            with python_errors():
                handle, blocks = self._require_handle(), validated_images(images)
                return await handle.submit(text, blocks, while_busy, output_schema=schema) == "queued"

        return Run(
            text,
            tracker,
            lambda: run_prompt(handle, self._hub, submit, tracker),
            self._spawn_in_own_loop,
            abort_on_cancel=abort_on_cancel,
        )

    # Events.

    def subscribe(self, handler: EventHandler) -> Callable[[], None]:
        """Call `handler` with every event. Returns a function that unsubscribes it.

        A plain function is called directly and should be quick. A coroutine function is awaited for one event after
        the other; the agent does not wait for it.
        """
        self._require_handle()
        return self._hub.subscribe(handler)

    def events(self) -> Events:
        """Return all events from now until the agent is closed, for `async for`."""
        self._require_handle()
        return self._hub.events()

    @property
    def partial(self) -> Assistant | None:
        """The assistant message that is being streamed, as far as it has been received."""
        return self._hub.partial

    # Hooks and dialogs.

    @property
    def on(self) -> HookRegistrar:
        """Register a handler for a hook of extensions: `agent.on("tool_call", handler)`, or `@agent.on("tool_call")`.

        `handler(event)` or `handler(event, ctx)` returns what an extension would return for that hook; `tau.hooks` has
        the types of the events and answers. With `handler`, returns a function that removes it.
        """
        self._require_handle()
        return HookRegistrar(self._program_hooks.on)

    def on_dialog(self, handler: DialogHandler, *methods: Method) -> Callable[[], None]:
        """Let `handler` answer dialogs of extensions: all of them, or those of the given methods.

        It returns a string, or a boolean for `confirm`; None cancels the dialog. Returns a function that unsubscribes
        it.
        """
        self._require_handle()
        return self._program_hooks.answer_dialogs(handler, methods)

    # End.

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closing is not None

    async def close(self) -> None:
        """Abort everything and release all resources, within seconds. The conversation is in the session file.

        Closing continues if the caller is cancelled; a second call waits for the same end.
        """
        self._begin_closing()
        if self._closing is not None and self._closing is not asyncio.current_task():
            await _wait_through_cancellation(self._closing)

    def _begin_closing(self) -> None:
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())

    async def _close(self) -> None:
        try:
            await self._handle.close(CLOSE_TIMEOUT_S)
        except BaseException as error:
            logger.error("closing the session failed", exc_info=failure_of(error))
        finally:
            self._handle.runs.cancel()
            await _within(FINAL_TIMEOUT_S, self._program_hooks.close(), "hooks")
            await self._cancel_remaining()
            await self._hub.close()
            await self._threads.join(FINAL_TIMEOUT_S)
            await self._handle.release()

    async def _cancel_remaining(self) -> None:
        """Cancel the tasks of prompts that have not ended, so that their callers are notified."""
        if tasks := self._tasks - {asyncio.current_task()}:
            _, late = await asyncio.wait(tasks, timeout=FINAL_TIMEOUT_S)
            for task in late:
                task.cancel()

    def __repr__(self) -> str:
        handle = self._handle
        model = (
            "no model"
            if handle.models.current is None
            else f"{handle.models.current.provider}/{handle.models.current.id}"
        )
        state = "closed" if self.closed else "busy" if handle.runs.busy else "idle"
        return f"<tau.Agent {model} session={handle.log.id} {state}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


async def _wait_through_cancellation(task: asyncio.Task[None]) -> None:
    """Wait until the task is done, even if the caller is cancelled, and raise the cancellation afterwards.

    Closing takes only seconds and must not be left half done.
    """
    cancelled: asyncio.CancelledError | None = None
    with not_cancelled_again():
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
        logger.warning("%s did not end within %g s; giving up on it", what, seconds)
    except BaseException as error:
        logger.error("closing %s failed", what, exc_info=failure_of(error))
