"""The library for programs without an event loop, or with one of their own.

The agent runs in its own event loop in its own thread; every method blocks until the result is there. Plain functions
passed as tools, permission callback or dialog handlers run in threads, as in the asynchronous library; event handlers
and hooks are called in the agent's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Self, TypeVar, overload

from tau.client.errors import AgentGone
from tau.client.facade import blocking, in_loop, peer_property
from tau.client.loop_thread import LoopThread
from tau.core.checks.dialog_handlers import DialogHandler, Method
from tau.errors import CommandError, UsageError
from tau.library.agent import Agent as Peer
from tau.library.agent import AnySchema
from tau.library.commands import Deliver
from tau.library.hook_registrar import HookRegistrar
from tau.library.opening import Opening
from tau.library.results import Result
from tau.library.run import Run
from tau.library.subscriptions import AgentEvent, EventHandler, Events
from tau.records.messages import Assistant, Image
from tau.records.models import Model, ThinkingLevel
from tau.records.replies import SessionState

T = TypeVar("T")
P = ParamSpec("P")
IS_SYNC = (
    "tau.sync.open is synchronous: `with tau.sync.open(...) as agent`. In an event loop: "
    "`async with tau.open(...) as agent`."
)
CLOSED = "The agent was closed."


class Agent:
    """`tau.Agent` with blocking methods, for use from any thread. Close it when done, or use it in a `with`."""

    def __init__(self, opening: Opening) -> None:
        if not isinstance(opening, Opening):
            raise UsageError("An agent is opened with tau.sync.open: `tau.sync.open(model=...)`.")
        self._loop = LoopThread()
        self._closed = False
        try:
            self._peer = self._wait(_open_agent(opening))
        except BaseException:
            self._loop.close()
            raise

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise CommandError(CLOSED)
        try:
            return self._loop.run(work)
        except AgentGone as gone:
            raise CommandError(str(gone) if self._loop.is_forked else CLOSED) from None

    def _call_in_loop(self, function: Callable[[Peer], T]) -> T:
        async def call() -> T:
            return function(self._peer)

        return self._wait(call())

    def close(self) -> None:
        """Abort everything and release all resources, within seconds. The conversation is in the session file."""
        if self._closed or self._loop.is_forked:  # then it belongs to the process that has opened it
            return
        self._loop.require_other_thread()
        try:
            with suppress(AgentGone):  # another thread has closed it meanwhile
                self._loop.run(self._peer.close())
        finally:
            self._closed = True
            self._loop.close()

    def __repr__(self) -> str:
        return repr(self._peer).replace("<tau.Agent", "<tau.sync.Agent")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    if not TYPE_CHECKING:  # type checkers know that it has neither

        async def __aenter__(self) -> NoReturn:
            self.close()  # nothing else will
            raise TypeError(IS_SYNC)

        async def __aexit__(self, *raised: object) -> None:
            """Python looks for it before it calls `__aenter__`."""

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
    ) -> Result[None]: ...
    @overload
    def prompt(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Deliver | None = None,
        output_schema: type[T],
        abort_on_cancel: bool = True,
    ) -> Result[T]: ...
    @overload
    def prompt(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Deliver | None = None,
        output_schema: AnySchema | None,
        abort_on_cancel: bool = True,
    ) -> Result[Any]: ...
    def prompt(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Deliver | None = None,
        output_schema: Any = None,
        abort_on_cancel: bool = True,
    ) -> Result[Any]:
        """Send a prompt and wait for the result. With `output_schema=Point` it is a `Result[Point]`.

        Ctrl-C aborts the run; with `abort_on_cancel=False` it only stops waiting.
        """

        def start() -> Run[Any]:
            return self._peer.prompt(
                text, images, while_busy=while_busy, output_schema=output_schema, abort_on_cancel=abort_on_cancel
            )

        return self._wait(_result(start))

    def stream(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Deliver | None = None,
        output_schema: AnySchema | type[Any] | None = None,
        abort_on_cancel: bool = True,
    ) -> Iterator[AgentEvent]:
        """Send a prompt and iterate over its events. Leaving the loop early does not abort the run; Ctrl-C while it
        waits for an event does, unless `abort_on_cancel` is False.
        """

        def start(agent: Peer) -> Events:
            run = agent.prompt(
                text, images, while_busy=while_busy, output_schema=output_schema, abort_on_cancel=abort_on_cancel
            )
            return aiter(run)

        events = self._call_in_loop(start)
        while (event := self._wait(_next(events))) is not None:
            yield event

    steer = blocking(Peer.steer)
    follow_up = blocking(Peer.follow_up)
    clear_queue = blocking(Peer.clear_queue)
    send_user_message = blocking(Peer.send_user_message)
    send_message = blocking(Peer.send_message)
    abort = blocking(Peer.abort)
    wait_idle = blocking(Peer.wait_idle)
    abort_retry = blocking(Peer.abort_retry)

    # State.

    @property
    def warnings(self) -> list[str]:
        """Problems found in settings and other files when the agent was opened."""
        return self._peer.warnings

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closed

    state = peer_property[SessionState](Peer.state)
    model = peer_property[Model | None](Peer.model)
    thinking = peer_property[ThinkingLevel](Peer.thinking)
    cwd = peer_property[str](Peer.cwd)
    session_id = peer_property[str](Peer.session_id)
    session_file = peer_property[Path | None](Peer.session_file)
    name = peer_property[str | None](Peer.name)
    leaf_id = peer_property[str | None](Peer.leaf_id)
    is_streaming = peer_property[bool](Peer.is_streaming)
    is_busy = peer_property[bool](Peer.is_busy)
    is_compacting = peer_property[bool](Peer.is_compacting)
    retry_attempt = peer_property[int](Peer.retry_attempt)
    partial = peer_property[Assistant | None](Peer.partial)
    tools = peer_property[list[str]](Peer.tools)
    all_tools = in_loop(Peer.all_tools)
    set_tools = in_loop(Peer.set_tools)
    messages = in_loop(Peer.messages)
    stats = in_loop(Peer.stats)
    context_usage = in_loop(Peer.context_usage)
    last_text = in_loop(Peer.last_text)
    system_prompt = blocking(Peer.system_prompt)
    commands = blocking(Peer.commands)
    mcp_servers = blocking(Peer.mcp_servers)
    restart_mcp_server = blocking(Peer.restart_mcp_server)

    # Model, thinking, settings.

    models = in_loop(Peer.models)
    set_model = blocking(Peer.set_model)
    cycle_model = blocking(Peer.cycle_model)
    set_scoped_models = in_loop(Peer.set_scoped_models)
    thinking_levels = in_loop(Peer.thinking_levels)
    set_thinking = blocking(Peer.set_thinking)
    cycle_thinking = blocking(Peer.cycle_thinking)
    set_steering_mode = blocking(Peer.set_steering_mode)
    set_follow_up_mode = blocking(Peer.set_follow_up_mode)
    set_auto_compaction = blocking(Peer.set_auto_compaction)
    set_auto_retry = blocking(Peer.set_auto_retry)

    # Shell and sessions.

    compact = blocking(Peer.compact)
    abort_compaction = blocking(Peer.abort_compaction)
    bash = blocking(Peer.bash)
    abort_bash = in_loop(Peer.abort_bash)
    new_session = blocking(Peer.new_session)
    switch_session = blocking(Peer.switch_session)
    fork = blocking(Peer.fork)
    clone = blocking(Peer.clone)
    navigate = blocking(Peer.navigate)
    set_name = blocking(Peer.set_name)
    sessions = blocking(Peer.sessions)
    fork_points = in_loop(Peer.fork_points)
    entries = in_loop(Peer.entries)
    tree = in_loop(Peer.tree)
    export_html = blocking(Peer.export_html)
    reload = blocking(Peer.reload)

    # Events, hooks and dialogs.

    def subscribe(self, handler: EventHandler) -> Callable[[], None]:
        """Call `handler` in the agent's thread with every event. The handler must not wait for the agent."""
        unsubscribe = self._call_in_loop(lambda agent: agent.subscribe(handler))
        return lambda: self._call_in_loop(lambda agent: unsubscribe())

    @property
    def on(self) -> HookRegistrar:
        """Register a handler for a hook, as `tau.Agent.on`. It is called in the agent's thread and must not wait for
        the agent.
        """
        return HookRegistrar(self._register_hook)

    def _register_hook(self, hook: str, handler: Callable[..., Any]) -> Callable[[], None]:
        remove = self._call_in_loop(lambda agent: agent.on.register(hook, handler))
        return lambda: self._call_in_loop(lambda agent: remove())

    def on_dialog(self, handler: DialogHandler, *methods: Method) -> Callable[[], None]:
        """Let `handler` answer dialogs of extensions, as `tau.Agent.on_dialog`. It is called in a thread of its own."""
        unsubscribe = self._call_in_loop(lambda agent: agent.on_dialog(handler, *methods))
        return lambda: self._call_in_loop(lambda agent: unsubscribe())


def opener(open: Callable[P, Opening]) -> Callable[P, Agent]:
    """Wrap `tau.open`: same parameters, but returns the synchronous Agent."""

    def open_and_wait(*args: P.args, **named: P.kwargs) -> Agent:
        """Open an agent and wait until it is ready. The parameters are those of `tau.open`."""
        return Agent(open(*args, **named))

    return open_and_wait


open = opener(Opening)


async def _open_agent(opening: Opening) -> Peer:
    return await opening


async def _result(start: Callable[[], Run[T]]) -> Result[T]:
    return await start()


async def _next(events: Events) -> AgentEvent | None:
    return await anext(events, None)
