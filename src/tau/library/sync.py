"""The library for programs without an event loop, or with one of their own.

The agent runs in its own event loop in its own thread; every method blocks until the result is there. Plain functions
passed as tools, permission callback or dialog handlers run in threads, as in the asynchronous library; event handlers
and hooks are called in the agent's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar

from tau.client.facade import reads, value, waits
from tau.client.sync import Loop
from tau.core.checks.dialog_handlers import DialogHandler, Method
from tau.errors import CommandError
from tau.library import opening
from tau.library.agent import Agent as Peer
from tau.library.results import Result
from tau.library.run import Run
from tau.library.subscriptions import AgentEvent, EventHandler, Events
from tau.records.messages import Assistant, Image
from tau.records.models import Model, ThinkingLevel
from tau.records.replies import SessionState

T = TypeVar("T")
P = ParamSpec("P")


class Agent:
    """`tau.Agent` with blocking methods, for use from any thread. Close it when done, or use it in a `with`."""

    def __init__(self, opening: opening.Opening) -> None:
        self._loop = Loop()
        self._closed = False
        try:
            self._peer = self._wait(_open_agent(opening))
        except BaseException:
            self._loop.close()
            raise

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise CommandError("The agent was closed.")
        return self._loop.run(work)

    def _call_in_loop(self, function: Callable[[Peer], T]) -> T:
        async def call() -> T:
            return function(self._peer)

        return self._wait(call())

    def close(self) -> None:
        if not self._closed:
            try:
                self._wait(self._peer.close())
            finally:
                self._closed = True
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Prompts.

    def prompt(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Literal["steer", "follow_up"] | None = None,
        output_schema: Any = None,
    ) -> Result:
        """Send a prompt and wait for the result. Ctrl-C stops waiting but not the run; use `abort` for that."""

        def start() -> Run:
            return self._peer.prompt(text, images, while_busy=while_busy, output_schema=output_schema)

        return self._wait(_result(start))

    def stream(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Literal["steer", "follow_up"] | None = None,
        output_schema: Any = None,
    ) -> Iterator[AgentEvent]:
        """Send a prompt and iterate over its events. Leaving the loop early does not abort the run."""

        def start(agent: Peer) -> Events:
            return aiter(agent.prompt(text, images, while_busy=while_busy, output_schema=output_schema))

        events = self._call_in_loop(start)
        while (event := self._wait(_next(events))) is not None:
            yield event

    steer = waits(Peer.steer)
    follow_up = waits(Peer.follow_up)
    clear_queue = waits(Peer.clear_queue)
    send_user_message = waits(Peer.send_user_message)
    send_message = waits(Peer.send_message)
    abort = waits(Peer.abort)
    wait_idle = waits(Peer.wait_idle)
    abort_retry = waits(Peer.abort_retry)

    # State.

    @property
    def warnings(self) -> list[str]:
        return self._peer.warnings

    @property
    def closed(self) -> bool:
        return self._closed

    state = value[SessionState](Peer.state)
    model = value[Model | None](Peer.model)
    thinking = value[ThinkingLevel](Peer.thinking)
    cwd = value[str](Peer.cwd)
    session_id = value[str](Peer.session_id)
    session_file = value[Path | None](Peer.session_file)
    name = value[str | None](Peer.name)
    leaf_id = value[str | None](Peer.leaf_id)
    is_streaming = value[bool](Peer.is_streaming)
    is_busy = value[bool](Peer.is_busy)
    is_compacting = value[bool](Peer.is_compacting)
    retry_attempt = value[int](Peer.retry_attempt)
    partial = value[Assistant | None](Peer.partial)
    tools = value[list[str]](Peer.tools)
    all_tools = reads(Peer.all_tools)
    set_tools = reads(Peer.set_tools)
    messages = reads(Peer.messages)
    stats = reads(Peer.stats)
    context_usage = reads(Peer.context_usage)
    last_text = reads(Peer.last_text)
    system_prompt = waits(Peer.system_prompt)
    commands = waits(Peer.commands)

    # Model, thinking, settings.

    models = reads(Peer.models)
    set_model = waits(Peer.set_model)
    cycle_model = waits(Peer.cycle_model)
    set_scoped_models = reads(Peer.set_scoped_models)
    thinking_levels = reads(Peer.thinking_levels)
    set_thinking = waits(Peer.set_thinking)
    cycle_thinking = waits(Peer.cycle_thinking)
    set_steering_mode = waits(Peer.set_steering_mode)
    set_follow_up_mode = waits(Peer.set_follow_up_mode)
    set_auto_compaction = waits(Peer.set_auto_compaction)
    set_auto_retry = waits(Peer.set_auto_retry)

    # Shell and sessions.

    compact = waits(Peer.compact)
    abort_compaction = waits(Peer.abort_compaction)
    bash = waits(Peer.bash)
    abort_bash = reads(Peer.abort_bash)
    new_session = waits(Peer.new_session)
    switch_session = waits(Peer.switch_session)
    fork = waits(Peer.fork)
    clone = waits(Peer.clone)
    navigate = waits(Peer.navigate)
    set_name = waits(Peer.set_name)
    sessions = waits(Peer.sessions)
    fork_points = reads(Peer.fork_points)
    entries = reads(Peer.entries)
    tree = reads(Peer.tree)
    export_html = waits(Peer.export_html)
    reload = waits(Peer.reload)

    # Events, hooks and dialogs.

    def subscribe(self, handler: EventHandler) -> Callable[[], None]:
        """Call `handler` in the agent's thread with every event. The handler must not wait for the agent."""
        unsubscribe = self._call_in_loop(lambda agent: agent.subscribe(handler))
        return lambda: self._call_in_loop(lambda agent: unsubscribe())

    def on(self, hook: str, handler: Callable[..., Any]) -> Callable[[], None]:
        unsubscribe = self._call_in_loop(lambda agent: agent.on(hook, handler))
        return lambda: self._call_in_loop(lambda agent: unsubscribe())

    def on_dialog(self, handler: DialogHandler, *methods: Method) -> Callable[[], None]:
        unsubscribe = self._call_in_loop(lambda agent: agent.on_dialog(handler, *methods))
        return lambda: self._call_in_loop(lambda agent: unsubscribe())


def opener(open: Callable[P, opening.Opening]) -> Callable[P, Agent]:
    """Wrap `tau.open`: same parameters, but returns the synchronous Agent."""

    def open_and_wait(*args: P.args, **named: P.kwargs) -> Agent:
        return Agent(open(*args, **named))

    return open_and_wait


open = opener(opening.open)


async def _open_agent(opening: opening.Opening) -> Peer:
    return await opening


async def _result(start: Callable[[], Run]) -> Result:
    return await start()


async def _next(events: Events) -> AgentEvent | None:
    return await anext(events, None)
