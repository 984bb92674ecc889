"""Functions of an extension, as targets that tau can call.

Plain event handlers and renderers run in the event loop and must be fast; plain tools and commands run in a thread.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from copy import deepcopy
from typing import Any

from tau.concurrency.async_queue import AsyncQueue
from tau.concurrency.threads import run_in_thread
from tau.extension_api.channel import CallHandle, Channel, TargetFunction
from tau.extension_api.context import CommandContext, Context, Event
from tau.extension_api.hook_events import EVENTS
from tau.extension_api.schemas import Parameters, positional_count

# Fields that handlers may change in place, as well as by returning them.
MUTABLE_FIELDS = {"tool_call": "input", "before_provider_headers": "headers"}
MAX_QUEUED_CHUNKS = 256  # chunks of an answer that wait to be sent


async def result_of(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def handler_target(channel: Channel, hook: str, function: Callable[..., Any]) -> TargetFunction:
    mutable, event_type = MUTABLE_FIELDS.get(hook), EVENTS[hook]

    async def run(params: dict[str, Any], call: CallHandle) -> Any:
        event = event_type(params)
        before = deepcopy(event.get(mutable)) if mutable else None
        answer = await result_of(function(event, Context(channel, call)))
        if mutable and event.get(mutable) != before:
            fields = answer if isinstance(answer, Mapping) else {}
            return answer if fields.get(mutable) is not None else {**fields, mutable: event.get(mutable)}
        return answer

    return run


def tool_target(channel: Channel, execute: Callable[..., Any]) -> TargetFunction:
    count = positional_count(execute, most=4)

    async def run(params: dict[str, Any], call: CallHandle) -> Any:
        arguments = (params["toolCallId"], params["arguments"], Context(channel, call), call.update)
        return await _run_off_loop(execute, *arguments[:count])

    return run


def command_target(channel: Channel, handler: Callable[..., Any]) -> TargetFunction:
    async def run(params: dict[str, Any], call: CallHandle) -> Any:
        await _run_off_loop(handler, params.get("args", ""), CommandContext(channel, call))

    return run


def stream_target(function: Callable[..., AsyncGenerator[Any, None]]) -> TargetFunction:
    """Send the chunks that the function yields. Chunks yielded during a send go out together with the next one.

    Backpressure: with MAX_QUEUED_CHUNKS unsent chunks, the function is not resumed.
    """

    async def run(params: dict[str, Any], call: CallHandle) -> None:
        queue = AsyncQueue[Any](MAX_QUEUED_CHUNKS)

        async def produce() -> None:
            arguments = (Event(params[name]) for name in ("model", "context", "options"))
            async with aclosing(function(*arguments)) as pieces:
                async for piece in pieces:
                    queue.put(_chunk(piece))
                    await queue.room()

        producer = asyncio.create_task(produce())
        producer.add_done_callback(lambda _: queue.close())
        try:
            while await queue.ready():
                await call.put(queue.take_all())
            await producer
        finally:
            if not producer.done():
                producer.cancel()
                await asyncio.wait([producer])
                _ = producer.cancelled() or producer.exception()  # retrieved, so that asyncio does not log it

    return run


def _chunk(chunk: Any) -> Any:
    """Translate names to those of the wire: stop_reason becomes stopReason."""
    if not isinstance(chunk, Mapping):
        raise TypeError(f"A chunk of an answer must be a dict with a type, not {chunk!r}")
    return {re.sub(r"_([a-z])", lambda found: found[1].upper(), str(name)): value for name, value in chunk.items()}


def by_name(function: Callable[..., Any], parameters: Parameters) -> Callable[..., Any]:
    """Adapt a function for @pi.tool: arguments are passed by name, with the annotated types."""

    def execute(call_id: str, params: dict[str, Any], ctx: Context) -> Any:
        return function(**parameters.values(params, ctx))

    async def execute_async(call_id: str, params: dict[str, Any], ctx: Context) -> Any:
        return await execute(call_id, params, ctx)

    return execute_async if inspect.iscoroutinefunction(function) else execute


async def _run_off_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    """Await an async function; run a plain one in its own thread, which may block for ever."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    name = f"extension {getattr(function, '__name__', '')}"
    done = run_in_thread(lambda: function(*arguments), name, may_exit=True)
    try:
        return await result_of(await asyncio.shield(done))
    except asyncio.CancelledError:
        await asyncio.wait([done])  # a thread cannot be stopped, so a cancelled call ends only when the thread does
        raise


def shortcut_target(channel: Channel, handler: Callable[..., Any]) -> TargetFunction:
    count = positional_count(handler, most=1)

    async def run(params: dict[str, Any], call: CallHandle) -> None:
        await _run_off_loop(handler, *(Context(channel, call),)[:count])

    return run


def completions_target(complete: Callable[..., Any]) -> TargetFunction:
    async def run(params: dict[str, Any], call: CallHandle) -> Any:
        return await result_of(complete(params.get("prefix", "")))

    return run


def renderer_target(renderers: Mapping[str, Callable[..., Any]]) -> TargetFunction:
    """`renderers` by the part that they draw. Each gets data, width and options, or fewer of these."""

    async def run(params: dict[str, Any], call: CallHandle) -> list[str] | None:
        render = renderers.get(params.get("part", ""))
        if render is None:
            return None
        data, options = params.get("data"), Event(params.get("options") or {})
        arguments = (Event(data) if isinstance(data, dict) else data, params.get("width", 80), options)
        drawn = await result_of(render(*arguments[: positional_count(render, most=3)]))
        return drawn.split("\n") if isinstance(drawn, str) else None if drawn is None else list(drawn)

    return run
