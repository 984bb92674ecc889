"""The library for programs without an event loop, or with one that is somebody else's.

The agent lives in a loop of its own, in a thread of its own; every method waits
for what happens there. Plain functions given as tools, permission or dialogs run
in threads as ever; handlers of events and hooks are called in the agent's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar

from tau.client.blocking import Loop
from tau.client.waiting import reads, value, waits
from tau.core.answering import DialogHandler, Method
from tau.errors import CommandError
from tau.library import opening
from tau.library.agent import Agent as Peer
from tau.library.readers import AgentEvent, EventHandler, Events
from tau.library.results import Result
from tau.library.running import Run
from tau.records.messages import Assistant, Image
from tau.records.models import Model, ThinkingLevel
from tau.records.replies import SessionState

T = TypeVar("T")
P = ParamSpec("P")


class Agent:
    """`tau.Agent`, with methods that wait. From any thread; close it when done, or use it in a `with`."""

    def __init__(self, opened: opening.Opening) -> None:
        self._loop = Loop()
        self._over = False
        try:
            self._peer = self._wait(_opened(opened))
        except BaseException:
            self._loop.close()
            raise

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._over:
            work.close()
            raise CommandError("The agent was closed.")
        return self._loop.run(work)

    def _ask(self, look: Callable[[Peer], T]) -> T:
        async def there() -> T:
            return look(self._peer)

        return self._wait(there())

    def close(self) -> None:
        if not self._over:
            try:
                self._wait(self._peer.close())
            finally:
                self._over = True
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Prompting.

    def prompt(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Literal["steer", "follow_up"] | None = None,
        output_schema: Any = None,
    ) -> Result:
        """Ask, and wait for the result. Ctrl-C stops the waiting, not the run: that is `abort`."""

        def begin() -> Run:
            return self._peer.prompt(text, images, while_busy=while_busy, output_schema=output_schema)

        return self._wait(_result(begin))

    def stream(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        while_busy: Literal["steer", "follow_up"] | None = None,
        output_schema: Any = None,
    ) -> Iterator[AgentEvent]:
        """Ask, and see what happens. Leaving early does not abort the run."""

        def begin(agent: Peer) -> Events:
            return aiter(agent.prompt(text, images, while_busy=while_busy, output_schema=output_schema))

        events = self._ask(begin)
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
        return self._over

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

    # Taking part.

    def subscribe(self, handler: EventHandler) -> Callable[[], None]:
        """Called in the agent's thread with every event; it must not wait for the agent there."""
        end = self._ask(lambda agent: agent.subscribe(handler))
        return lambda: self._ask(lambda agent: end())

    def on(self, hook: str, handler: Callable[..., Any]) -> Callable[[], None]:
        end = self._ask(lambda agent: agent.on(hook, handler))
        return lambda: self._ask(lambda agent: end())

    def on_dialog(self, handler: DialogHandler, *methods: Method) -> Callable[[], None]:
        end = self._ask(lambda agent: agent.on_dialog(handler, *methods))
        return lambda: self._ask(lambda agent: end())


def opener(open: Callable[P, opening.Opening]) -> Callable[P, Agent]:
    """The same arguments, and an agent that waits."""

    def waiting(*args: P.args, **named: P.kwargs) -> Agent:
        return Agent(open(*args, **named))

    return waiting


open = opener(opening.open)


async def _opened(opening: opening.Opening) -> Peer:
    return await opening


async def _result(begin: Callable[[], Run]) -> Result:
    return await begin()


async def _next(events: Events) -> AgentEvent | None:
    return await anext(events, None)
