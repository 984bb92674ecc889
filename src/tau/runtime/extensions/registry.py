"""What extensions have registered with one session, and asking them.

It does not matter here whether an extension is a child process or a function of
the program that embeds us: a handler is something that can be called and waited
for, within limits. Whoever waits stops waiting when the run is aborted; what the
extension does then is its own affair.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from tau.errors import Aborted, ExtensionFailure
from tau.extension_api.hooks import HOOKS, observe
from tau.records.base import UNSET, UnsetType, Value
from tau.records.events import ExtensionError
from tau.records.settings import Settings
from tau.runtime.abort import AbortSignal
from tau.tools import Tool

log = logging.getLogger(__name__)

Call = Callable[[Mapping[str, Any]], Awaitable[Any]]
# What is told of the progress of a call. Returns what is done when there is room for more; None if there is.
ProgressCallback = Callable[[Any], asyncio.Future[None] | None]
Stream = Callable[[Mapping[str, Any], ProgressCallback], Awaitable[Any]]
MAX_EVENTS_BEHIND = 64  # how many events an extension may lag behind before it misses some


class PausableTimeout:
    """How long a handler may take. The time in which it waits for a person does not count."""

    def __init__(self, seconds: float | None) -> None:
        """None: as long as it likes."""
        self._left = seconds
        self._asking = 0
        self._timeout = asyncio.timeout(seconds)

    @contextmanager
    def paused(self) -> Iterator[None]:
        now = asyncio.get_running_loop().time
        if self._asking == 0 and (when := self._timeout.when()) is not None:
            self._left = when - now()
            self._timeout.reschedule(None)
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if self._asking == 0 and self._left is not None:
                with suppress(RuntimeError):  # whoever waited is gone
                    self._timeout.reschedule(now() + self._left)

    @property
    def over(self) -> bool:
        """Whether it took too long."""
        return self._timeout.expired()

    async def wait(self, work: Awaitable[Any]) -> Any:
        async with self._timeout:
            return await work


current_timeout: ContextVar[PausableTimeout | None] = ContextVar("patience", default=None)


class Handler(Value, eq=False):
    """One function of an extension; `path` says whose, `order` when that was loaded."""

    path: str
    call: Call
    order: int = 0


class Command(Value):
    """`/name args`, as an extension offers it."""

    name: str
    path: str
    run: Callable[[str], Awaitable[Any]]
    description: str | UnsetType = UNSET


class HandlerError(ExtensionFailure):
    """The text is the extension's own."""


Check = Callable[[Any], None]


class ExtensionRegistry:
    """`tell` sends an event to the client."""

    def __init__(self, settings: Callable[[], Settings], tell: Callable[[ExtensionError], None]) -> None:
        self.settings = settings
        self.tell = tell
        self.handlers: dict[str, list[Handler]] = {}
        self.tools: dict[str, Tool] = {}
        self.commands: dict[str, Command] = {}
        self.flags: dict[str, dict[str, Any]] = {}  # type, default, description
        self.providers: dict[str, dict[str, Any]] = {}  # as in models.json
        self.streams: dict[str, Stream] = {}  # by provider: those that answer by themselves
        self.changed: Callable[[str], None] = lambda kind: None  # what is there now: tool, command, flag or provider
        self._told: dict[Handler, set[asyncio.Task[Any]]] = {}  # and not waited for

    def wants(self, hook: str) -> bool:
        return hook in self.handlers

    def on(self, hook: str, path: str, call: Call, order: int = 0) -> Handler:
        """In the order of loading, whenever it is registered; then in that of registration."""
        if hook not in HOOKS:
            raise ExtensionFailure(f'There is no event "{hook}".')
        handler = Handler(path, call, order)
        self.handlers[hook] = sorted([*self.handlers.get(hook, ()), handler], key=lambda handler: handler.order)
        return handler

    def off(self, hook: str, handler: Handler) -> None:
        kept = [other for other in self.handlers.get(hook, ()) if other is not handler]
        if kept:
            self.handlers[hook] = kept
        else:
            self.handlers.pop(hook, None)
        self._told.pop(handler, None)

    async def fire(
        self, hook: str, payload: Mapping[str, Any], switch: AbortSignal | None = None, check: Check | None = None
    ) -> dict[str, Any]:
        """Ask everybody who wants to be asked; what came of it. Raises Aborted when `switch` is flipped.

        `check` raises ExtensionFailure for an answer that cannot be used: it is then as if none was given.
        """
        rule = HOOKS[hook]
        shown: Mapping[str, Any] = {"type": hook, **payload}
        result: dict[str, Any] = {}
        for handler in list(self.handlers.get(hook, ())):
            try:
                answer = await self.ask(handler.call(shown), self._limit(hook), switch)
                if check is not None and answer is not None:
                    check(answer)
            except ExtensionFailure as failure:
                self.report(handler.path, hook, str(failure))
                if rule.gate:
                    return {"block": True, "reason": _blocking(handler.path, failure)}
                continue
            shown, result, done = rule.fold(shown, result, answer)
            if done:
                break
        return result

    def spread(self, hook: str, payload: Callable[[], Mapping[str, Any]], *, newest: bool = True) -> None:
        """Tell without waiting. With `newest`, who has not yet done with the last is not told."""
        shown: Mapping[str, Any] | None = None
        for handler in list(self.handlers.get(hook, ())):
            told = self._told.setdefault(handler, set())
            if len(told) < (1 if newest else MAX_EVENTS_BEHIND):
                shown = {"type": hook, **payload()} if shown is None else shown
                told.add(task := asyncio.ensure_future(self._tell_one(hook, handler, shown)))
                task.add_done_callback(told.discard)

    async def _tell_one(self, hook: str, handler: Handler, payload: Mapping[str, Any]) -> None:
        try:
            await self.ask(handler.call(payload), self._limit(hook))
        except ExtensionFailure as failure:
            self.report(handler.path, hook, str(failure))

    async def ask(self, work: Awaitable[Any], seconds: float | None, switch: AbortSignal | None = None) -> Any:
        """Wait for something an extension does. What goes wrong there is an ExtensionFailure.

        Whoever waits is let go when the time is over or the switch is flipped, whether the work has stopped or not.
        """
        patience = PausableTimeout(seconds)
        token = current_timeout.set(patience)
        try:
            task = asyncio.ensure_future(work)
        finally:
            current_timeout.reset(token)
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.add_done_callback(lambda task: _ended(task, over))
        if switch is not None:
            switch.cancel_on_abort(over)
        try:
            await patience.wait(over)
            return task.result()
        except TimeoutError:
            if not task.done():
                raise ExtensionFailure(f"No answer within {seconds:g} s.") from None
            if task.cancelled():
                raise ExtensionFailure("It was cancelled.") from None
            if (error := task.exception()) is None:
                return task.result()  # it was in time: only we were late to see it
            raise HandlerError(str(error) or "TimeoutError") from None
        except asyncio.CancelledError:
            if _leaving():
                raise
            if switch is not None and switch.aborted:
                raise Aborted from None
            raise ExtensionFailure("It was cancelled.") from None
        except (ExtensionFailure, Aborted):
            raise
        except Exception as error:
            raise HandlerError(str(error) or type(error).__name__) from error
        finally:
            task.cancel()

    def report(self, path: str, event: str, error: str) -> None:
        log.warning("extension %s failed in %s: %s", path, event, error)
        self.tell(ExtensionError(path, event, error))

    def _limit(self, hook: str) -> float:
        limits = self.settings().extension_host
        return (limits.observer_timeout_ms if HOOKS[hook].fold is observe else limits.handler_timeout_ms) / 1000


def _blocking(path: str, failure: ExtensionFailure) -> str:
    """Why a gate that failed is shut, for the model. What the extension says itself stands for itself."""
    return (
        str(failure) if isinstance(failure, HandlerError) else f"Extension {path} failed, so this is blocked: {failure}"
    )


def _ended(task: asyncio.Future[Any], over: asyncio.Future[None]) -> None:
    if not task.cancelled():
        task.exception()  # heard, also when nobody waits for it any more
    if not over.done():
        over.set_result(None)


def _leaving() -> bool:
    """Whether we are cancelled ourselves, and not only what we wait for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
