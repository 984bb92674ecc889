"""Python functions as tools.

    def weather(city: str, days: int = 1) -> str:
        '''The weather forecast for a city.'''

The model is shown the name, the docstring and the parameters. A parameter named
`context` is not shown: it gets a CallContext.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from tau.errors import UsageError
from tau.extensions.schemas import description_of, schema_of
from tau.library.threads import Threads
from tau.records.base import encode
from tau.records.events import Outcome
from tau.records.messages import Image, Text
from tau.tools import Tool, ToolContext

F = TypeVar("F", bound=Callable[..., Any])
CONTEXT = "context"
NOTHING = "(no output)"
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


class CallContext:
    """One call of a function by the model: where it works, a way to report progress, and whether to go on."""

    def __init__(self, given: ToolContext) -> None:
        self.cwd = given.cwd
        self.call_id = given.call_id
        self._given = given
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()

    def progress(self, said: str | Outcome) -> None:
        """Show what there is so far, all of it: the client gets it as a ToolUpdate. From any thread."""
        outcome = Outcome([Text(said)]) if isinstance(said, str) else said
        self._loop.call_soon_threadsafe(self._show, outcome)

    @property
    def cancelled(self) -> bool:
        """True once the run was aborted: nobody waits for the result any more."""
        return self._stop.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep in a function that is not async; True at once when it was cancelled."""
        return self._stop.wait(seconds)

    def cancel(self) -> None:
        self._stop.set()

    def _show(self, outcome: Outcome) -> None:
        if not self.cancelled:
            self._given.progress(outcome)


@overload
def tool(function: F) -> F: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, parameters: Mapping[str, Any] | None = None
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> F | Callable[[F], F]:
    """Decorator for a function that the model shall know under other words than its own. It stays a function."""

    def mark(function: F) -> F:
        function.__tau__ = {"name": name, "description": description, "parameters": parameters}  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)


def as_tool(function: Callable[..., Any], threads: Threads) -> Tool:
    """Raises UsageError for a function that cannot be one."""
    said: Mapping[str, Any] = getattr(function, "__tau__", {})
    name = str(said.get("name") or getattr(function, "__name__", type(function).__name__))
    try:
        signature = inspect.signature(function).parameters
        schema = dict(said.get("parameters") or schema_of(function, (CONTEXT,)))
    except (TypeError, ValueError, NameError) as error:
        raise UsageError(f"{name} cannot be a tool: {error}") from None
    for parameter in signature.values():
        if parameter.kind not in _BY_NAME:
            raise UsageError(f"{name} cannot be a tool: {parameter} cannot be given by name")
    open_ended = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in signature.values())

    async def run(arguments: dict[str, Any], given: ToolContext) -> Outcome:
        named = arguments if open_ended else {key: value for key, value in arguments.items() if key in signature}
        context = CallContext(given)
        try:
            value = await threads.call(function, **named, **({CONTEXT: context} if CONTEXT in signature else {}))
        finally:
            context.cancel()
        return outcome_of(value)

    description = str(said.get("description") or description_of(function) or name)
    return Tool(name, description, description.partition("\n")[0], schema, run)


def outcome_of(value: Any) -> Outcome:
    """What the model reads of what a function returned: text as it is, images, anything else as JSON."""
    match value:
        case Outcome():
            return value
        case None:
            return Outcome([Text(NOTHING)])
        case str():
            return Outcome([Text(value)])
        case Text() | Image():
            return Outcome([value])
        case [Text() | Image(), *rest] if all(isinstance(block, Text | Image) for block in rest):
            return Outcome(list(value))
    try:
        return Outcome([Text(encode(value).decode())])
    except TypeError:
        return Outcome([Text(str(value))])
