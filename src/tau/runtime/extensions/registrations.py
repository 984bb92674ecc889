"""Registrations of one extension: added to the registry of the session, and removed again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, Protocol

from tau.errors import ExtensionFailure, ToolError
from tau.extension_api.messages import Register
from tau.llm.catalog import parse_providers
from tau.llm.extension_stream import API_NAME, NO_KEY
from tau.records.base import MAX_RECEIVED_NESTING, UNSET, BadRecord, Record, UnsetType, decode, encode
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.runtime.extensions.command_table import Command
from tau.runtime.extensions.registry import (
    ExtensionRegistry,
    Handler,
    ProgressCallback,
    ProviderLogin,
    TerminalFunction,
)
from tau.tools import Tool, ToolContext

Undo = Callable[[], None]
MAX_AUTOCOMPLETE = 20  # functions that are asked for completions at each key


class Invoke(Protocol):
    """Calls a registered function. `loud`: a failure is reported to the client."""

    def __call__(
        self, target: int, params: Mapping[str, Any], update: ProgressCallback | None = None, *, loud: bool = True
    ) -> Awaitable[Any]: ...


class ToolSpec(Record):
    description: str
    parameters: dict[str, Any]
    label: str | UnsetType = UNSET
    prompt_snippet: str | UnsetType = UNSET
    prompt_guidelines: list[str] = []
    execution_mode: Literal["sequential", "parallel"] | UnsetType = UNSET
    prepare_arguments: bool = False


class CommandSpec(Record):
    description: str | UnsetType = UNSET


class Registrations:
    def __init__(
        self,
        extensions: ExtensionRegistry,
        bus: Bus,
        path: str,
        order: int,
        peers: Callable[[Mapping[str, Any]], object] = lambda spec: None,
    ) -> None:
        """`peers`: the process whose extensions a listener on the bus hears without tau, from its spec."""
        self._extensions = extensions
        self._bus = bus
        self._path = path
        self._order = order
        self._peers = peers
        self._registered: dict[int, tuple[Register, Undo]] = {}

    def add(self, message: Register, invoke: Invoke) -> None:
        """Add one registration. An invalid one is reported; the others stay."""
        self.remove(message.target)
        try:
            undo = KINDS[message.kind](self, message, invoke) if message.kind in KINDS else None
        except (ExtensionFailure, BadRecord) as error:
            self._extensions.report(self._path, "load", f"{message.kind} {message.name}: {error}")
            return
        if undo is not None:
            self._registered[message.target] = message, undo
            self._extensions.changed(message.kind)

    def remove(self, target: int) -> None:
        if target in self._registered:
            message, undo = self._registered.pop(target)
            undo()
            self._extensions.changed(message.kind)

    def clear(self) -> None:
        for target in list(self._registered):
            self.remove(target)
        self._extensions.terminal.remove_shown(self._path)

    def handlers(self, hook: str) -> list[Handler]:
        return [handler for handler in self._extensions.handlers.get(hook, ()) if handler.path == self._path]

    def _handler(self, message: Register, invoke: Invoke) -> Undo:
        def call(payload: Mapping[str, Any]) -> Awaitable[Any]:
            return invoke(message.target, payload)

        handler = self._extensions.on(message.name, self._path, call, self._order)
        return lambda: self._extensions.off(message.name, handler)

    def _tool(self, message: Register, invoke: Invoke) -> Undo:
        spec = decode(ToolSpec, encode(message.spec))

        def shown(context: ToolContext) -> ProgressCallback:
            def show(value: Any) -> None:
                with suppress(ToolError):  # invalid progress is skipped; only the result must be valid
                    context.progress(outcome(value))

            return show

        async def run(arguments: dict[str, Any], context: ToolContext) -> Outcome:
            params = {"toolCallId": context.call_id, "arguments": arguments}
            try:
                value = await invoke(message.target, params, shown(context), loud=False)
            except ExtensionFailure as failure:
                raise ToolError(str(failure)) from failure
            return outcome(value)

        async def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
            try:
                prepared = await invoke(message.target, {"prepare": arguments}, loud=False)
            except ExtensionFailure as failure:
                raise ToolError(str(failure)) from failure
            return prepared if isinstance(prepared, dict) else arguments

        snippet = spec.prompt_snippet or ""
        tool = Tool(
            message.name,
            spec.description,
            snippet,
            spec.parameters,
            run,
            tuple(spec.prompt_guidelines),
            prepare=prepare if spec.prepare_arguments else None,
            sequential=spec.execution_mode == "sequential",
        )
        undo = _put(self._extensions.tools, message.name, tool)
        self._extensions.tool_paths[message.name] = self._path

        def remove() -> None:
            self._extensions.tool_paths.pop(message.name, None)
            undo()

        return remove

    def _command(self, message: Register, invoke: Invoke) -> Undo:
        spec = decode(CommandSpec, encode(message.spec))

        def run(args: str) -> Awaitable[Any]:
            return invoke(message.target, {"args": args})

        command = Command(message.name, self._path, run, spec.description)
        return self._extensions.commands.add(command, self._order)

    def _flag(self, message: Register, invoke: Invoke) -> Undo:
        return _put(self._extensions.flags, message.name, message.spec)

    def _provider(self, message: Register, invoke: Invoke) -> Undo:
        spec = {name: value for name, value in message.spec.items() if name != "oauth"}
        if message.spec.get("oauth"):
            spec.setdefault("apiKey", "")  # it comes from the login, so a provider with `stream` needs one, too
        if spec.get("stream"):
            spec = streamed(message.name, spec)
        for problem in parse_providers({"providers": {message.name: spec}})[1]:
            raise ExtensionFailure(problem.what)
        undo = _put(self._extensions.providers, message.name, spec)

        def run(params: Mapping[str, Any], progress: ProgressCallback | None) -> Awaitable[Any]:
            return invoke(message.target, params, progress, loud=False)

        if spec.get("stream"):
            self._extensions.streams[message.name] = run
        if message.spec.get("oauth"):
            self._extensions.logins[message.name] = ProviderLogin(self._path, run)

        def remove() -> None:
            self._extensions.streams.pop(message.name, None)
            self._extensions.logins.pop(message.name, None)
            undo()

        return remove

    def _shortcut(self, message: Register, invoke: Invoke) -> Undo:
        """The last registration of a key is used, as in pi."""
        shortcuts, function = self._extensions.terminal.shortcuts, self._function(message, invoke)
        before = shortcuts.get(message.name)
        shortcuts[message.name] = function

        def remove() -> None:
            if shortcuts.get(message.name) is function:
                del shortcuts[message.name]
                if before is not None:
                    shortcuts[message.name] = before

        return remove

    def _completions(self, message: Register, invoke: Invoke) -> Undo:
        key = self._path, message.name
        return _put(self._extensions.terminal.completions, key, self._function(message, invoke))

    def _tool_renderer(self, message: Register, invoke: Invoke) -> Undo:
        return _put(self._extensions.terminal.tool_renderers, message.name, self._function(message, invoke))

    def _message_renderer(self, message: Register, invoke: Invoke) -> Undo:
        return _put(self._extensions.terminal.message_renderers, message.name, self._function(message, invoke))

    def _autocomplete(self, message: Register, invoke: Invoke) -> Undo:
        for target, (other, _) in list(self._registered.items()):
            if (other.kind, other.name) == (message.kind, message.name):
                self.remove(target)
        functions, function = self._extensions.terminal.autocomplete, self._function(message, invoke)
        if len(functions) >= MAX_AUTOCOMPLETE:
            raise ExtensionFailure(f"there are {MAX_AUTOCOMPLETE} already")
        functions.append(function)
        return lambda: functions.remove(function)

    def _function(self, message: Register, invoke: Invoke) -> TerminalFunction:
        def call(params: Mapping[str, Any]) -> Awaitable[Any]:
            return invoke(message.target, params, loud=False)

        description = message.spec.get("description")
        text = description if isinstance(description, str) else ""
        return TerminalFunction(message.name, self._path, call, text)

    def _listener(self, message: Register, invoke: Invoke) -> Undo:
        def call(payload: Mapping[str, Any]) -> Awaitable[Any]:
            return invoke(message.target, payload)

        return self._bus.on(message.name, Handler(self._path, call, self._order), self._peers(message.spec))


KINDS: dict[str, Callable[[Registrations, Register, Invoke], Undo]] = {
    "handler": Registrations._handler,
    "tool": Registrations._tool,
    "command": Registrations._command,
    "flag": Registrations._flag,
    "provider": Registrations._provider,
    "bus": Registrations._listener,
    "shortcut": Registrations._shortcut,
    "completions": Registrations._completions,
    "autocomplete": Registrations._autocomplete,
    "tool_renderer": Registrations._tool_renderer,
    "message_renderer": Registrations._message_renderer,
}


def _put(table: dict[Any, Any], name: object, value: Any) -> Undo:
    """Add an entry to a table. The first registration keeps the name. Raises ExtensionFailure."""
    if name in table:
        raise ExtensionFailure("the name is already registered")
    table[name] = value
    return lambda: table.pop(name) and None


def streamed(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Complete a provider whose models the extension calls itself: it needs neither a base URL nor an API key."""
    models = spec.get("models")
    if not isinstance(models, list) or not models:
        raise ExtensionFailure("models: expected the models that `stream` answers for")
    marked = [{**model, "api": API_NAME} if isinstance(model, Mapping) else model for model in models]
    return {"baseUrl": f"extension:{name}", "apiKey": NO_KEY, **spec, "models": marked}


def outcome(value: Any) -> Outcome:
    """Convert the return value of an extension's tool: text, or content and details. Raises ToolError."""
    if value is None or isinstance(value, str):
        return Outcome([Text(value or "")])
    if isinstance(value, Mapping) and isinstance(value.get("content"), str):
        value = {**value, "content": [{"type": "text", "text": value["content"]}]}
    try:
        return decode(Outcome, encode(value), MAX_RECEIVED_NESTING)
    except (BadRecord, TypeError) as error:
        raise ToolError(f"The tool returned neither text nor content: {error}") from None


class Bus:
    """Event bus between extensions."""

    def __init__(self, extensions: ExtensionRegistry) -> None:
        self._extensions = extensions
        self._listeners: dict[str, list[tuple[Handler, object]]] = {}

    def on(self, channel: str, handler: Handler, peers: object = None) -> Undo:
        listener = handler, peers
        listeners = self._listeners.setdefault(channel, [])
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    async def emit(self, channel: str, data: Any, peers: object = None) -> None:
        """Call the listeners of a channel, one after the other.

        `peers`: the process of the sender, if its listeners have received the event already.
        """
        for handler, process in list(self._listeners.get(channel, ())):
            if peers is not None and process is peers:
                continue
            seconds = self._extensions.settings().extension_host.observer_timeout_ms / 1000
            try:
                await self._extensions.ask(handler.call({"channel": channel, "data": data}), seconds)
            except ExtensionFailure as failure:
                self._extensions.report(handler.path, f"bus:{channel}", str(failure))
