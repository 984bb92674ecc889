"""Extension registry of one session: registrations, and calls to handlers with timeout and abort.

The registry does not distinguish between an extension in a child process and a function of the embedding program:
a handler is an awaitable call with a time limit. An abort ends the wait for a handler, not necessarily the work of
the extension.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from tau.concurrency.tasks import cancelled_from_outside, failure_of
from tau.errors import Aborted, ExtensionFailure
from tau.extension_api.hooks import HOOKS, observe
from tau.records.base import Value
from tau.records.events import ExtensionError
from tau.records.settings import Settings
from tau.runtime.abort import AbortSignal, until_aborted
from tau.runtime.extensions.command_table import CommandTable
from tau.tools import Tool

logger = logging.getLogger(__name__)

Call = Callable[[Mapping[str, Any]], Awaitable[Any]]
# Receives the progress of a call. Returns a future that is done when there is room for more, or None if there is room
# now (backpressure).
ProgressCallback = Callable[[Any], asyncio.Future[None] | None]
Stream = Callable[[Mapping[str, Any], ProgressCallback], Awaitable[Any]]
MAX_EVENTS_BEHIND = 64  # undelivered events per handler; further ones are dropped


class PausableTimeout:
    """Time limit of a handler. The time in which it waits for an answer of the user does not count."""

    def __init__(self, seconds: float | None) -> None:
        """`seconds`: None means no limit."""
        self._limited = seconds is not None
        self._ended = False
        self._remaining = seconds
        self._asking = 0
        self._timeout = asyncio.timeout(seconds)

    @property
    def holds_up(self) -> bool:
        """True for a hook handler that has not ended: a run or a session switch may be waiting for it."""
        return self._limited and not self._ended

    @contextmanager
    def paused(self) -> Iterator[None]:
        if self._ended or self.over:  # called by a task that the handler left behind, or too late
            yield
            return
        now = asyncio.get_running_loop().time
        if self._asking == 0 and (when := self._timeout.when()) is not None:
            self._remaining = when - now()
            self._timeout.reschedule(None)
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if self._asking == 0 and self._remaining is not None:
                with suppress(RuntimeError):  # the caller has stopped waiting
                    self._timeout.reschedule(now() + self._remaining)

    @property
    def over(self) -> bool:
        """True if the time limit has expired."""
        return self._timeout.expired()

    async def wait(self, work: Awaitable[Any]) -> Any:
        try:
            async with self._timeout:
                return await work
        finally:
            self._ended = True


current_timeout: ContextVar[PausableTimeout | None] = ContextVar("current_timeout", default=None)
# The session in which an extension made the call that is being carried out; None for callers that are no extension.
calling_session: ContextVar[str | None] = ContextVar("calling_session", default=None)

# Sends what an action has so far to the extension that requested it; None for callers that cannot receive it.
current_pieces: ContextVar[Callable[[Any], None] | None] = ContextVar("current_pieces", default=None)


def called_by_handler() -> bool:
    """True if the current call comes from a hook handler: of an extension process or of the embedding program."""
    timeout = current_timeout.get()
    return timeout is not None and timeout.holds_up


class Handler(Value, eq=False):
    """One function of an extension. `path` identifies the extension, `order` its position in the load order.

    A placeholder stands for handlers that are not registered yet: its call waits for them, and has no answer.
    """

    path: str
    call: Call
    order: int = 0
    placeholder: bool = False


class TerminalFunction(Value):
    """A function of an extension that the terminal interface calls, such as a shortcut or a renderer."""

    name: str
    path: str
    call: Call
    description: str = ""


class TerminalFunctions:
    """What extensions have registered for the terminal interface, and what they show there."""

    def __init__(self) -> None:
        self.shortcuts: dict[str, TerminalFunction] = {}  # by key
        self.completions: dict[tuple[str, str], TerminalFunction] = {}  # by extension and command
        self.tool_renderers: dict[str, TerminalFunction] = {}  # by tool
        self.message_renderers: dict[str, TerminalFunction] = {}  # by custom type
        self.autocomplete: list[TerminalFunction] = []
        self.shown: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}  # by extension: what removes it again
        self.restore: Callable[[str, dict[str, Any]], None] = lambda name, params: None

    def remove_shown(self, path: str) -> None:
        """Remove what an extension shows."""
        for (name, _), params in self.shown.pop(path, {}).items():
            self.restore(name, params)


class ProviderLogin(Value):
    """The OAuth functions of a provider that an extension has registered. `call` gets the name of one in `oauth`."""

    path: str
    call: Callable[[Mapping[str, Any], ProgressCallback | None], Awaitable[Any]]


class HandlerError(ExtensionFailure):
    """An error raised by the extension itself; the text is the extension's own."""


Check = Callable[[Any], None]


class ExtensionRegistry:
    """The registrations of a session's extensions. `tell` sends an event to the client."""

    def __init__(self, settings: Callable[[], Settings], tell: Callable[[ExtensionError], None]) -> None:
        self.settings = settings
        self.tell = tell
        self.handlers: dict[str, list[Handler]] = {}
        self.tools: dict[str, Tool] = {}
        self.tool_paths: dict[str, str] = {}  # by tool: the extension that registered it
        self.commands = CommandTable()
        self.flags: dict[str, dict[str, Any]] = {}  # type, default, description
        self.providers: dict[str, dict[str, Any]] = {}  # as in models.json
        self.streams: dict[str, Stream] = {}  # by provider: models that the extension calls itself
        self.logins: dict[str, ProviderLogin] = {}  # by provider
        self.terminal = TerminalFunctions()
        self.changed: Callable[[str], None] = lambda kind: None  # called with the kind of a registration that changed
        # For functions of the embedding program: lets them start anew for another session.
        self.renew_functions: Callable[[], Awaitable[None]] | None = None
        self._notifications: dict[Handler, set[asyncio.Task[Any]]] = {}  # tasks of `spread` that nothing waits for

    def wants(self, hook: str) -> bool:
        return hook in self.handlers

    def on(self, hook: str, path: str, call: Call, order: int = 0, *, placeholder: bool = False) -> Handler:
        """Register a handler. Handlers run in load order, then in registration order, whenever they register."""
        if hook not in HOOKS:
            raise ExtensionFailure(f'There is no event "{hook}".')
        handler = Handler(path, call, order, placeholder)
        self.handlers[hook] = sorted([*self.handlers.get(hook, ()), handler], key=lambda handler: handler.order)
        return handler

    def off(self, hook: str, handler: Handler) -> None:
        remaining = [other for other in self.handlers.get(hook, ()) if other is not handler]
        if remaining:
            self.handlers[hook] = remaining
        else:
            self.handlers.pop(hook, None)
        self._notifications.pop(handler, None)

    async def fire(
        self, hook: str, payload: Mapping[str, Any], signal: AbortSignal | None = None, check: Check | None = None
    ) -> dict[str, Any]:
        """Call the handlers of a hook and return their combined answer. Raises Aborted when `signal` is aborted.

        `check` raises ExtensionFailure for an invalid answer. The failure of a handler is reported; it refuses the
        call if the hook is a gate, and otherwise counts as no answer.
        """
        rule = HOOKS[hook]
        shown: Mapping[str, Any] = {"type": hook, **payload}
        result: dict[str, Any] = {}
        handlers = list(self.handlers.get(hook, ()))
        for at, handler in enumerate(handlers):
            try:
                answer = await self.ask(handler.call(shown), self._limit(hook), signal)
                if check is not None and answer is not None:
                    check(answer)
            except ExtensionFailure as failure:
                self.report(handler.path, hook, str(failure))
                if rule.gate:
                    return {"block": True, "reason": _block_reason(handler.path, failure)}
                continue
            if handler.placeholder:  # those that it has waited for come next, and those that are gone are left out
                handlers[at + 1 :] = [other for other in self.handlers.get(hook, ()) if other not in handlers[: at + 1]]
                continue
            shown, result, done = rule.fold(shown, result, answer)
            if done:
                break
        return result

    def spread(self, hook: str, payload: Callable[[], Mapping[str, Any]], *, newest: bool = True) -> None:
        """Notify the handlers without waiting. With `newest`, a handler that is still busy is skipped."""
        shown: Mapping[str, Any] | None = None
        for handler in list(self.handlers.get(hook, ())):
            tasks = self._notifications.setdefault(handler, set())
            if len(tasks) < (1 if newest else MAX_EVENTS_BEHIND):
                shown = {"type": hook, **payload()} if shown is None else shown
                tasks.add(task := asyncio.ensure_future(self._notify(hook, handler, shown)))
                task.add_done_callback(tasks.discard)

    async def _notify(self, hook: str, handler: Handler, payload: Mapping[str, Any]) -> None:
        try:
            await self.ask(handler.call(payload), self._limit(hook))
        except ExtensionFailure as failure:
            self.report(handler.path, hook, str(failure))

    async def ask(self, work: Awaitable[Any], seconds: float | None, signal: AbortSignal | None = None) -> Any:
        """Wait for work of an extension. Its errors are raised as ExtensionFailure.

        The wait ends when the time is over or `signal` is aborted, even if the work has not stopped.
        """
        timeout = PausableTimeout(seconds)
        token = current_timeout.set(timeout)
        try:
            task = asyncio.ensure_future(work)
        finally:
            current_timeout.reset(token)
        try:
            return await timeout.wait(until_aborted(task, signal))
        except TimeoutError:
            if not task.done():
                raise ExtensionFailure(f"No answer within {seconds:g} s.") from None
            if task.cancelled():
                raise ExtensionFailure("It was cancelled.") from None
            if (error := task.exception()) is None:
                return task.result()  # it was in time; only this task resumed too late
            raise HandlerError(str(error) or "TimeoutError") from None
        except asyncio.CancelledError:
            if cancelled_from_outside():
                raise
            if signal is not None and signal.aborted:
                raise Aborted from None
            raise ExtensionFailure("It was cancelled.") from None
        except (ExtensionFailure, Aborted):
            raise
        except BaseException as error:
            failure = failure_of(error)
            raise HandlerError(str(failure) or type(failure).__name__) from failure

    def report(self, path: str, event: str, error: str) -> None:
        logger.warning("extension %s failed in %s: %s", path, event, error)
        self.tell(ExtensionError(path, event, error))

    def _limit(self, hook: str) -> float:
        limits = self.settings().extension_host
        return (limits.observer_timeout_ms if HOOKS[hook].fold is observe else limits.handler_timeout_ms) / 1000


def _block_reason(path: str, failure: ExtensionFailure) -> str:
    """The reason, for the model, why a failed gate blocks. An extension's own error text is used unchanged."""
    return (
        str(failure) if isinstance(failure, HandlerError) else f"Extension {path} failed, so this is blocked: {failure}"
    )
