"""The object that `setup(pi)` receives. It is the same in a child process and in tau's own; only the channel differs.

Functions of an extension may be plain or async; targets.py describes where they run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

from tau.core.checks.schema import tool_problem
from tau.errors import ExtensionFailure
from tau.extension_api.channel import CallHandle, Channel, TargetFunction, without_none
from tau.extension_api.context import Event
from tau.extension_api.hooks import HOOKS
from tau.extension_api.programs import run_program
from tau.extension_api.schemas import Parameters, description_of
from tau.extension_api.targets import (
    by_name,
    command_target,
    completions_target,
    handler_target,
    renderer_target,
    result_of,
    shortcut_target,
    stream_target,
    tool_target,
)

F = TypeVar("F", bound=Callable[..., Any])

TOO_EARLY = (
    "This is not possible while the extension is being loaded; do it in a handler, after the session has started"
)


class Pi:
    """The agent, as an extension sees it."""

    def __init__(self, channel: Channel, flags: Mapping[str, Any], following: Mapping[str, str] | None = None) -> None:
        """`following` has the words that follow options without a value of their own."""
        self._channel = channel
        self._flags = dict(flags)
        self._following = following or {}
        self._targets: dict[tuple[str, Any], list[int]] = {}
        self._ready = False
        self.events = Bus(self)

    def mark_loaded(self) -> None:
        """Mark the end of loading: from now on, actions on the session are possible."""
        self._ready = True

    # Registrations

    @overload
    def on(self, event: str) -> Callable[[F], F]: ...
    @overload
    def on(self, event: str, handler: F) -> F: ...
    def on(self, event: str, handler: F | None = None) -> F | Callable[[F], F]:
        """Call `handler(event, ctx)` for each event; also usable as a decorator. `off` removes the handler."""
        if handler is None:
            return lambda function: self.on(event, function)
        if event not in HOOKS:
            raise ExtensionFailure(f'There is no event "{event}". There are: {", ".join(HOOKS)}')
        self._register("handler", event, {}, handler_target(self._channel, event, handler), handler)
        return handler

    def off(self, handler: Callable[..., Any]) -> None:
        """Remove a handler from all events and channels."""
        for kind in ("handler", "bus"):
            self._unregister(kind, handler)

    def register_tool(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        execute: Callable[..., Any],
        label: str | None = None,
        prompt_snippet: str | None = None,
        prompt_guidelines: Sequence[str] = (),
        render_call: Callable[..., Any] | None = None,
        render_result: Callable[..., Any] | None = None,
    ) -> None:
        """Add a tool for the model. `execute(call_id, params, ctx, update)` returns text, or content and details.

        It may take fewer than these four arguments. An exception becomes an error result, whose text the model reads.

        `render_call(args, width, options)` and `render_result(result, width, options)` return the lines that the
        terminal interface shows, or None for its own form.
        """
        if (problem := tool_problem(name, dict(parameters))) is not None:
            raise ExtensionFailure(f"{name} cannot be a tool: {problem}")
        spec = without_none(
            label=label or name,
            description=description,
            parameters=dict(parameters),
            promptSnippet=prompt_snippet,
            promptGuidelines=list(prompt_guidelines),
        )
        self._register("tool", name, spec, tool_target(self._channel, execute), name)
        self._unregister("tool_renderer", name)
        parts = without_none(call=render_call, result=render_result)
        if parts:
            self._register("tool_renderer", name, {"parts": list(parts)}, renderer_target(parts), name)

    @overload
    def tool(self, function: None = None, **options: Any) -> Callable[[F], F]: ...
    @overload
    def tool(self, function: F, **options: Any) -> F: ...
    def tool(self, function: F | None = None, **options: Any) -> F | Callable[[F], F]:
        """Decorator: add a tool with the function's name, docstring (as description) and parameters (as schema).

        Raises ExtensionFailure for a parameter without an annotation, or with a type that has no JSON Schema, unless
        `parameters` describes them.
        """
        if function is None:
            return lambda function: self.tool(function, **options)
        name = options.pop("name", function.__name__)
        description = options.pop("description", description_of(function) or name)
        try:
            parameters = Parameters(function, "ctx", "@pi.tool", options.pop("parameters", None))
        except (TypeError, ValueError, NameError) as error:
            raise ExtensionFailure(f"{name} cannot be a tool: {error}") from None
        self.register_tool(name, description, parameters.schema, by_name(function, parameters), **options)
        return function

    def unregister_tool(self, name: str) -> None:
        """Remove a tool of this extension."""
        self._unregister("tool", name)
        self._unregister("tool_renderer", name)

    def register_command(
        self,
        name: str,
        handler: Callable[..., Any],
        description: str | None = None,
        get_argument_completions: Callable[[str], Any] | None = None,
    ) -> None:
        """Add a slash command: `/name args` calls `handler(args, ctx)`.

        `get_argument_completions(prefix)` returns what the arguments so far can become: strings, or dicts with
        `value`, `label` and `description`. The terminal interface offers them.
        """
        self._register(
            "command", name, without_none(description=description), command_target(self._channel, handler), name
        )
        self._unregister("completions", name)
        if get_argument_completions is not None:
            self._register("completions", name, {}, completions_target(get_argument_completions), name)

    def command(
        self,
        name: str,
        description: str | None = None,
        get_argument_completions: Callable[[str], Any] | None = None,
    ) -> Callable[[F], F]:
        """Register a slash command: a decorator for `f(args, ctx)`."""

        def register(function: F) -> F:
            self.register_command(name, function, description, get_argument_completions)
            return function

        return register

    def register_flag(
        self,
        name: str,
        type: type[bool] | type[str] = bool,
        default: bool | str | None = None,
        description: str | None = None,
    ) -> None:
        """Add an option of the command line: --name, with a value if `type` is str."""
        kind = "string" if type is str else "boolean"
        value = self._flags.get(name)
        if type is str and value is True:
            value = self._following.get(name)
        self._flags[name] = value if isinstance(value, type) else default
        self._register("flag", name, without_none(type=kind, default=default, description=description), None, name)

    def get_flag(self, name: str) -> Any:
        """Return the value of a command-line flag that this extension registered."""
        return self._flags.get(name)

    def register_provider(self, name: str, provider: Mapping[str, Any]) -> None:
        """Add models, or another base URL for known ones: a dict as in models.json.

        With `stream`, an async generator function of (model, context, options), model calls go to that function: it
        yields the chunks of an answer.
        """
        spec = dict(provider)
        stream = spec.pop("stream", None)
        if any(callable(value) for value in spec.values()):
            raise ExtensionFailure(f"Provider {name}: only `stream` can be a function")
        if stream is None:
            self._register("provider", name, spec, None, name)
        elif not inspect.isasyncgenfunction(stream):
            raise ExtensionFailure(f"Provider {name}: stream: expected an async function that yields")
        else:
            self._register("provider", name, {**spec, "stream": True}, stream_target(stream), name)

    def unregister_provider(self, name: str) -> None:
        """Remove a provider of this extension."""
        self._unregister("provider", name)

    def register_shortcut(self, key: str, handler: Callable[..., Any], description: str | None = None) -> None:
        """Call `handler(ctx)` when a key is pressed in the terminal interface: "ctrl+shift+p", "f5".

        Keys that tau uses itself cannot be taken.
        """
        spec = without_none(description=description)
        self._register("shortcut", key, spec, shortcut_target(self._channel, handler), key)

    def register_message_renderer(self, custom_type: str, render: Callable[..., Any]) -> None:
        """Show custom messages of this type in the terminal interface as the lines that `render` returns.

        `render(message, width, options)` may take fewer arguments; None means tau's own form.
        """
        self._register("message_renderer", custom_type, {}, renderer_target({"message": render}), custom_type)

    # Actions

    def send_message(
        self, message: Mapping[str, Any], trigger_turn: bool = False, deliver_as: str | None = None
    ) -> None:
        """Add a custom message (customType, content, display, details) to the conversation."""
        self.tell("send_message", without_none(message=dict(message), triggerTurn=trigger_turn, deliverAs=deliver_as))

    def send_user_message(
        self,
        content: str | Sequence[Mapping[str, Any]],
        deliver_as: str | None = None,
        expand_prompt_templates: bool = False,
    ) -> None:
        """Send a message of the user. During a run, `deliver_as` must be "steer" or "followUp".

        With `expand_prompt_templates` and no `deliver_as`, commands, templates and skills are expanded as if typed.
        """
        blocks = content if isinstance(content, str) else list(content)
        expand = expand_prompt_templates or None
        self.tell("send_user_message", without_none(content=blocks, deliverAs=deliver_as, expandPromptTemplates=expand))

    def append_entry(self, custom_type: str, data: Any = None) -> None:
        """Append an entry to the session file that the model does not see."""
        self.tell("append_entry", without_none(customType=custom_type, data=data))

    def set_session_name(self, name: str) -> None:
        """Name the session."""
        self.tell("set_session_name", {"name": name})

    def get_session_name(self) -> str | None:
        """Return the name of the session; None if it has none."""
        return self._channel.facts.get("sessionName")

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Label an entry of the session; None removes the label."""
        self.tell("set_label", without_none(entryId=entry_id, label=label))

    async def exec(
        self, command: str, args: Sequence[str] = (), timeout: int | None = None, cwd: str | None = None
    ) -> Event:
        """Run a program without a shell; returns {stdout, stderr, code, killed}. `timeout` is in milliseconds."""
        return Event(await run_program(command, list(args), timeout, cwd or self._channel.facts.get("cwd")))

    def get_active_tools(self) -> list[str]:
        """Return the names of the tools that the model can use now."""
        return list(self._channel.facts.get("activeTools") or ())

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Make exactly these tools active, from the next turn on."""
        self.tell("set_active_tools", {"names": list(names)})

    async def get_all_tools(self) -> list[dict[str, Any]]:
        """Return all tools, with their descriptions and parameters."""
        return await self.act("get_all_tools")  # type: ignore[no-any-return]

    async def get_commands(self) -> list[dict[str, Any]]:
        """Return the slash commands of extensions, templates and skills."""
        return await self.act("get_commands")  # type: ignore[no-any-return]

    async def get_models(self) -> list[dict[str, Any]]:
        """Return the models that can be used now."""
        return await self.act("get_models")  # type: ignore[no-any-return]

    async def set_model(self, model: Mapping[str, Any] | str) -> bool:
        """Select a model, given as in ctx.model or as "provider/id". False if there is no key for it."""
        provider, _, id = model.partition("/") if isinstance(model, str) else (model["provider"], "", model["id"])
        return bool(await self.act("set_model", {"provider": provider, "modelId": id}))

    def get_thinking_level(self) -> str | None:
        """Return the current thinking level."""
        return self._channel.facts.get("thinkingLevel")

    def set_thinking_level(self, level: str) -> None:
        """Set the thinking level."""
        self.tell("set_thinking_level", {"level": level})

    # Transport

    def tell(self, name: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification to tau. Prefer the methods of this class."""
        if not self._ready:
            raise ExtensionFailure(TOO_EARLY)
        self._channel.tell(name, params or {})

    async def act(self, name: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request to tau and return its result. Prefer the methods of this class."""
        if not self._ready:
            raise ExtensionFailure(TOO_EARLY)
        return await self._channel.act(name, params or {})

    def _register(self, kind: str, name: str, spec: dict[str, Any], run: TargetFunction | None, key: Any) -> None:
        if key == name:  # kinds with unique names: the newest registration replaces the old one
            self._unregister(kind, key)
        self._targets.setdefault((kind, key), []).append(self._channel.register(kind, name, spec, run))

    def _unregister(self, kind: str, key: Any) -> None:
        for target in self._targets.pop((kind, key), ()):
            self._channel.unregister(target)


class Bus:
    """Event bus between extensions: every listener of a channel receives what is emitted on it."""

    def __init__(self, pi: Pi) -> None:
        self._pi = pi

    def on(self, channel: str, handler: Callable[[Any], Any]) -> Callable[[], None]:
        """Add a listener. Returns a function that removes it."""

        async def run(params: dict[str, Any], call: CallHandle) -> None:
            await result_of(handler(params.get("data")))

        self._pi._register("bus", channel, {}, run, handler)
        return lambda: self._pi._unregister("bus", handler)

    def emit(self, channel: str, data: Any = None) -> None:
        self._pi.tell("emit", without_none(channel=channel, data=data))
