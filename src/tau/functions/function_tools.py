"""Python functions as tools.

    def weather(city: str, days: int = 1) -> str:
        '''The weather forecast for a city.'''

The model sees the name, the docstring and the parameters. A parameter named `context` is hidden from the model and
receives a CallContext. An agent in this process calls them directly (`tau.open(tools=...)`); for an agent in another
process the client calls them (`RpcClient(tools=...)`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar, overload

from tau.core.checks.schema import tool_problem
from tau.errors import UsageError
from tau.extension_api.schemas import Parameters, description_of
from tau.functions.threads import Threads
from tau.records.base import encode
from tau.records.events import Outcome
from tau.records.messages import Image, Text
from tau.tools import Tool, ToolContext

F = TypeVar("F", bound=Callable[..., Any])
CONTEXT_PARAMETER = "context"
NO_OUTPUT = "(no output)"


class CallContext:
    """The context of one call by the model: working directory, progress reports, and cancellation."""

    def __init__(self, tool_context: ToolContext) -> None:
        self.cwd = tool_context.cwd
        self.call_id = tool_context.call_id
        self._tool_context = tool_context
        self._loop = asyncio.get_running_loop()
        self._cancelled = threading.Event()

    def progress(self, said: str | Outcome) -> None:
        """Report the result so far, all of it. Clients receive it as a ToolUpdate. May be called from any thread."""
        outcome = Outcome([Text(said)]) if isinstance(said, str) else said
        self._loop.call_soon_threadsafe(self._show, outcome)

    @property
    def cancelled(self) -> bool:
        """True once the run was aborted; the result is then ignored."""
        return self._cancelled.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep in a function that is not async. Returns True immediately when the call is cancelled."""
        return self._cancelled.wait(seconds)

    def cancel(self) -> None:
        """Called by the agent when the call is over."""
        self._cancelled.set()

    def _show(self, outcome: Outcome) -> None:
        if not self.cancelled:
            self._tool_context.progress(outcome)


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
    """Decorator that gives the model another name, description or parameters for a function. It stays a plain
    function.

    Raises UsageError if the model cannot be told what to pass: a parameter without an annotation, or with a type that
    has no JSON Schema. `parameters`, a JSON Schema, describes them instead.
    """
    _check("name", name, "a string or None", name is None or isinstance(name, str))
    _check("description", description, "a string or None", description is None or isinstance(description, str))

    def mark(function: F) -> F:
        _check("function", function, "a function", callable(function))
        with suppress(NameError):  # a name that is defined later; `tau.open` checks again
            _parameters(function, name or _name_of(function), parameters)
        function.__tau__ = {"name": name, "description": description, "parameters": parameters}  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)


def function_tool(function: Callable[..., Any], threads: Threads) -> Tool:
    """Make a tool of a function. Raises UsageError if that is not possible."""
    overrides: Mapping[str, Any] = getattr(function, "__tau__", {})
    name = str(overrides.get("name") or _name_of(function))
    try:
        parameters = _parameters(function, name, overrides.get("parameters"))
    except NameError as error:
        raise UsageError(f"{name} cannot be a tool: {error}") from None

    async def run(arguments: dict[str, Any], tool_context: ToolContext) -> Outcome:
        context = CallContext(tool_context)
        try:
            value = await threads.call(function, **parameters.values(arguments, context))
        finally:
            context.cancel()
        return outcome_of(value)

    description = str(overrides.get("description") or description_of(function) or name)
    return Tool(name, description, description.partition("\n")[0], parameters.schema, run)


def check_tool(name: str, parameters: dict[str, Any]) -> None:
    """Raise UsageError for a tool that not all providers take."""
    if (problem := tool_problem(name, parameters)) is not None:
        raise UsageError(f"{name} cannot be a tool: {problem}")


def _check(name: str, value: object, expected: str, fits: bool) -> None:
    if not fits:
        raise UsageError(f"{name}: expected {expected} but got {type(value).__name__}")


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _parameters(function: Callable[..., Any], name: str, schema: Mapping[str, Any] | None) -> Parameters:
    try:
        parameters = Parameters(function, CONTEXT_PARAMETER, "@tau.tool", schema)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} cannot be a tool: {error}") from None
    check_tool(name, parameters.schema)
    return parameters


def outcome_of(value: Any) -> Outcome:
    """Convert the return value of a function to a tool result: text unchanged, images, anything else as JSON."""
    match value:
        case Outcome():
            return value
        case None:
            return Outcome([Text(NO_OUTPUT)])
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
