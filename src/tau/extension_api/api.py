"""What `setup(pi)` is handed. The same in a child process and in tau's own: only the Line differs.

Functions of an extension may be plain or async. Plain handlers of events run where
the events are read, and must be quick; plain tools and commands get a thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import re
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from copy import deepcopy
from typing import Any, TypeVar, overload

from tau.errors import ExtensionFailure
from tau.extension_api.context import Calling, CommandContext, Context, Event, Line, Run, given
from tau.extension_api.hooks import HOOKS
from tau.extension_api.programs import run
from tau.extension_api.schemas import description_of, schema_of

F = TypeVar("F", bound=Callable[..., Any])

# What handlers may change where it stands, as well as by returning it.
IN_PLACE = {"tool_call": "input", "before_provider_headers": "headers"}
AHEAD = 256  # pieces of an answer
TOO_EARLY = "This is possible once a session has begun, not while the extension is loaded: do it in a handler"


class Pi:
    """The agent, as an extension sees it."""

    def __init__(self, line: Line, flags: Mapping[str, Any], following: Mapping[str, str] | None = None) -> None:
        """`following` has the words behind options that had no value of their own."""
        self._line = line
        self._flags = dict(flags)
        self._following = following or {}
        self._targets: dict[tuple[str, Any], list[int]] = {}
        self._ready = False
        self.events = Bus(self)

    def begin(self) -> None:
        """Loading is over: from now on the session can be acted on."""
        self._ready = True

    # Taking part.

    @overload
    def on(self, event: str) -> Callable[[F], F]: ...
    @overload
    def on(self, event: str, handler: F) -> F: ...
    def on(self, event: str, handler: F | None = None) -> F | Callable[[F], F]:
        """Call `handler(event, ctx)` at these moments; also as a decorator. `off` takes it back."""
        if handler is None:
            return lambda function: self.on(event, function)
        if event not in HOOKS:
            raise ExtensionFailure(f'There is no event "{event}". There are: {", ".join(HOOKS)}')
        self._register("handler", event, {}, _handling(self._line, event, handler), handler)
        return handler

    def off(self, handler: Callable[..., Any]) -> None:
        """Forget a handler, wherever it was registered."""
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
    ) -> None:
        """A tool for the model. `execute(call_id, params, ctx, update)` returns text, or content and details.

        It may take fewer arguments than these four. To raise is to fail, in words that the model reads.
        """
        spec = given(
            label=label or name,
            description=description,
            parameters=dict(parameters),
            promptSnippet=prompt_snippet,
            promptGuidelines=list(prompt_guidelines),
        )
        self._register("tool", name, spec, _tooling(self._line, execute), name)

    @overload
    def tool(self, function: None = None, **options: Any) -> Callable[[F], F]: ...
    @overload
    def tool(self, function: F, **options: Any) -> F: ...
    def tool(self, function: F | None = None, **options: Any) -> F | Callable[[F], F]:
        """Decorator: the tool has the function's name, its docstring as description, its parameters as schema."""
        if function is None:
            return lambda function: self.tool(function, **options)
        name = options.pop("name", function.__name__)
        description = options.pop("description", description_of(function) or name)
        parameters, execute = options.pop("parameters", None) or schema_of(function), _by_name(function)
        self.register_tool(name, description, parameters, execute, **options)
        return function

    def unregister_tool(self, name: str) -> None:
        self._unregister("tool", name)

    def register_command(self, name: str, handler: Callable[..., Any], description: str | None = None) -> None:
        """`/name args` calls `handler(args, ctx)`."""
        self._register("command", name, given(description=description), _commanding(self._line, handler), name)

    def command(self, name: str, description: str | None = None) -> Callable[[F], F]:
        def register(function: F) -> F:
            self.register_command(name, function, description)
            return function

        return register

    def register_flag(
        self,
        name: str,
        type: type[bool] | type[str] = bool,
        default: bool | str | None = None,
        description: str | None = None,
    ) -> None:
        """An option of the command line: --name, and with a value if `type` is str."""
        kind = "string" if type is str else "boolean"
        said = self._flags.get(name)
        if type is str and said is True:
            said = self._following.get(name)
        self._flags[name] = said if isinstance(said, type) else default
        self._register("flag", name, given(type=kind, default=default, description=description), None, name)

    def get_flag(self, name: str) -> Any:
        return self._flags.get(name)

    def register_provider(self, name: str, provider: Mapping[str, Any]) -> None:
        """Models of one's own, or another address for known ones: a dict as in models.json.

        With `stream`, an async generator function of (model, context, options), they are asked by
        that: it yields the pieces of an answer.
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
            self._register("provider", name, {**spec, "stream": True}, _streaming(stream), name)

    def unregister_provider(self, name: str) -> None:
        self._unregister("provider", name)

    def register_shortcut(self, key: str, handler: Callable[..., Any], description: str | None = None) -> None:
        """Keys belong to a terminal; there is none here, and nothing happens."""

    def register_message_renderer(self, custom_type: str, render: Callable[..., Any]) -> None:
        """How messages look is for the client to say; nothing happens."""

    # Acting.

    def send_message(
        self, message: Mapping[str, Any], trigger_turn: bool = False, deliver_as: str | None = None
    ) -> None:
        """Put a message of one's own (customType, content, display, details) into the conversation."""
        self.tell("send_message", given(message=dict(message), triggerTurn=trigger_turn, deliverAs=deliver_as))

    def send_user_message(self, content: str | Sequence[Mapping[str, Any]], deliver_as: str | None = None) -> None:
        """As if the user had typed it. While the agent works `deliver_as` must be "steer" or "followUp"."""
        said = content if isinstance(content, str) else list(content)
        self.tell("send_user_message", given(content=said, deliverAs=deliver_as))

    def append_entry(self, custom_type: str, data: Any = None) -> None:
        """Keep something in the session file that the model does not see."""
        self.tell("append_entry", given(customType=custom_type, data=data))

    def set_session_name(self, name: str) -> None:
        self.tell("set_session_name", {"name": name})

    def get_session_name(self) -> str | None:
        return self._line.facts.get("sessionName")

    def set_label(self, entry_id: str, label: str | None) -> None:
        self.tell("set_label", given(entryId=entry_id, label=label))

    async def exec(
        self, command: str, args: Sequence[str] = (), timeout: int | None = None, cwd: str | None = None
    ) -> Event:
        """Run a program, without a shell: {stdout, stderr, code, killed}. `timeout` is in milliseconds."""
        return Event(await run(command, list(args), timeout, cwd or self._line.facts.get("cwd")))

    def get_active_tools(self) -> list[str]:
        return list(self._line.facts.get("activeTools") or ())

    def set_active_tools(self, names: Sequence[str]) -> None:
        self.tell("set_active_tools", {"names": list(names)})

    async def get_all_tools(self) -> list[dict[str, Any]]:
        return await self.act("get_all_tools")  # type: ignore[no-any-return]

    async def get_commands(self) -> list[dict[str, Any]]:
        return await self.act("get_commands")  # type: ignore[no-any-return]

    async def get_models(self) -> list[dict[str, Any]]:
        """The models that could be used now."""
        return await self.act("get_models")  # type: ignore[no-any-return]

    async def set_model(self, model: Mapping[str, Any] | str) -> bool:
        """A model as ctx.model has it, or "provider/id". False if there is no key for it."""
        provider, _, id = model.partition("/") if isinstance(model, str) else (model["provider"], "", model["id"])
        return bool(await self.act("set_model", {"provider": provider, "modelId": id}))

    def get_thinking_level(self) -> str | None:
        return self._line.facts.get("thinkingLevel")

    def set_thinking_level(self, level: str) -> None:
        self.tell("set_thinking_level", {"level": level})

    # How it gets there.

    def tell(self, name: str, params: dict[str, Any] | None = None) -> None:
        if not self._ready:
            raise ExtensionFailure(TOO_EARLY)
        self._line.tell(name, params or {})

    async def act(self, name: str, params: dict[str, Any] | None = None) -> Any:
        if not self._ready:
            raise ExtensionFailure(TOO_EARLY)
        return await self._line.act(name, params or {})

    def _register(self, kind: str, name: str, spec: dict[str, Any], run: Run | None, key: Any) -> None:
        if key == name:  # of these one has one of each name, and the newest counts
            self._unregister(kind, key)
        self._targets.setdefault((kind, key), []).append(self._line.register(kind, name, spec, run))

    def _unregister(self, kind: str, key: Any) -> None:
        for target in self._targets.pop((kind, key), ()):
            self._line.unregister(target)


class Bus:
    """Talk between extensions: what one emits on a channel, all that listen there are handed."""

    def __init__(self, pi: Pi) -> None:
        self._pi = pi

    def on(self, channel: str, handler: Callable[[Any], Any]) -> Callable[[], None]:
        """Returns a function that takes it back."""

        async def run(params: dict[str, Any], calling: Calling) -> None:
            await _result(handler(params.get("data")))

        self._pi._register("bus", channel, {}, run, handler)
        return lambda: self._pi._unregister("bus", handler)

    def emit(self, channel: str, data: Any = None) -> None:
        self._pi.tell("emit", given(channel=channel, data=data))


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _handling(line: Line, hook: str, function: Callable[..., Any]) -> Run:
    mutable = IN_PLACE.get(hook)

    async def run(params: dict[str, Any], calling: Calling) -> Any:
        event = Event(params)
        before = deepcopy(event.get(mutable)) if mutable else None
        answer = await _result(function(event, Context(line, calling)))
        if mutable and answer is None and event.get(mutable) != before:
            return {mutable: event[mutable]}
        return answer

    return run


def _tooling(line: Line, execute: Callable[..., Any]) -> Run:
    taken = _places(execute)

    async def run(params: dict[str, Any], calling: Calling) -> Any:
        arguments = (params["toolCallId"], params["arguments"], Context(line, calling), calling.update)
        return await _aside(execute, *arguments[:taken])

    return run


def _commanding(line: Line, handler: Callable[..., Any]) -> Run:
    async def run(params: dict[str, Any], calling: Calling) -> Any:
        await _aside(handler, params.get("args", ""), CommandContext(line, calling))

    return run


def _streaming(function: Callable[..., AsyncGenerator[Any, None]]) -> Run:
    """What is yielded while other pieces are on their way goes with the next; when there are AHEAD, it waits."""

    async def run(params: dict[str, Any], calling: Calling) -> None:
        said: list[Any] = []
        news, room = asyncio.Event(), asyncio.Event()

        async def say() -> None:
            asked = (Event(params[name]) for name in ("model", "context", "options"))
            async with aclosing(function(*asked)) as pieces:
                async for piece in pieces:
                    said.append(_piece(piece))
                    news.set()
                    if len(said) >= AHEAD:
                        room.clear()
                        await room.wait()

        saying = asyncio.create_task(say())
        saying.add_done_callback(lambda _: news.set())
        try:
            while said or not saying.done():
                portion = said.copy()
                said.clear()
                room.set()
                if portion:
                    await calling.put(portion)
                else:
                    news.clear()
                    await news.wait()
            await saying
        finally:
            if not saying.done():
                saying.cancel()
                await asyncio.wait([saying])
                _ = saying.cancelled() or saying.exception()  # nobody waits for it any more

    return run


def _piece(said: Any) -> Any:
    """The names of the wire: stop_reason is stopReason there."""
    if not isinstance(said, Mapping):
        raise TypeError(f"A piece of an answer is a dict with a type, not {said!r}")
    return {re.sub(r"_([a-z])", lambda found: found[1].upper(), str(name)): value for name, value in said.items()}


def _places(function: Callable[..., Any]) -> int:
    """How many of four arguments a function takes by position."""
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return 4
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)


def _by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """For @pi.tool: arguments go to the parameters of their names, and `ctx` is the context."""
    wants_context = "ctx" in inspect.signature(function).parameters

    def execute(call_id: str, params: dict[str, Any], ctx: Context) -> Any:
        return function(**params, ctx=ctx) if wants_context else function(**params)

    async def execute_async(call_id: str, params: dict[str, Any], ctx: Context) -> Any:
        return await execute(call_id, params, ctx)

    return execute_async if inspect.iscoroutinefunction(function) else execute


async def _aside(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call an async function here, a plain one in a thread of its own, which may be stuck for ever."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            value = context.run(function, *arguments)
        except BaseException as error:
            loop.call_soon_threadsafe(_fail, done, error)
        else:
            loop.call_soon_threadsafe(_succeed, done, value)

    threading.Thread(target=work, name=f"extension {getattr(function, '__name__', '')}", daemon=True).start()
    try:
        return await _result(await asyncio.shield(done))
    except asyncio.CancelledError:
        await asyncio.wait([done])  # it cannot be stopped from outside; what waits for us to be done waits for it
        raise


def _succeed(done: asyncio.Future[Any], value: Any) -> None:
    if not done.done():
        done.set_result(value)


def _fail(done: asyncio.Future[Any], error: BaseException) -> None:
    if isinstance(error, SystemExit | KeyboardInterrupt):
        raise error  # here, where it ends the process, as everywhere
    if isinstance(error, StopIteration):  # which no future can hold
        error = RuntimeError("StopIteration")
    if not done.done():
        done.set_exception(error)
