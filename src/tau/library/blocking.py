"""The library for programs without an event loop, or with one that is somebody else's.

The agent lives in a loop of its own, in a thread of its own; every method waits
for what happens there. Plain functions given as tools, permission or dialogs run
in threads as ever; handlers of events and hooks are called in the agent's thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar

from tau.client.blocking import Loop
from tau.core.answering import DialogHandler, Method
from tau.errors import CommandError
from tau.library import agent, opening
from tau.library.commands import Deliver, Entry, Node
from tau.library.readers import AgentEvent, EventHandler, Events
from tau.library.results import Result
from tau.library.running import Run
from tau.records.commands import QueueMode
from tau.records.events import CompactionResult
from tau.records.messages import Assistant, Image, Stored, Text
from tau.records.models import Model, ThinkingLevel
from tau.records.replies import (
    BashResult,
    ContextUsage,
    Forked,
    ForkPoint,
    Navigated,
    Queues,
    SessionRow,
    SessionState,
    SessionStats,
    SlashCommand,
)

T = TypeVar("T")
P = ParamSpec("P")


class Agent:
    """`tau.Agent`, with methods that wait. From any thread; close it when done, or use it in a `with`."""

    def __init__(self, opened: opening.Opening) -> None:
        self._loop = Loop()
        self._over = False
        try:
            self._agent = self._wait(_opened(opened))
        except BaseException:
            self._loop.close()
            raise

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._over:
            work.close()
            raise CommandError("The agent was closed.")
        return self._loop.run(work)

    def _ask(self, look: Callable[[agent.Agent], T]) -> T:
        async def there() -> T:
            return look(self._agent)

        return self._wait(there())

    def close(self) -> None:
        if not self._over:
            try:
                self._wait(self._agent.close())
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
            return self._agent.prompt(text, images, while_busy=while_busy, output_schema=output_schema)

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

        def begin(agent: agent.Agent) -> Events:
            return aiter(agent.prompt(text, images, while_busy=while_busy, output_schema=output_schema))

        events = self._ask(begin)
        while (event := self._wait(_next(events))) is not None:
            yield event

    def steer(self, text: str, images: Sequence[Image] = ()) -> None:
        self._wait(self._agent.steer(text, images))

    def follow_up(self, text: str, images: Sequence[Image] = ()) -> None:
        self._wait(self._agent.follow_up(text, images))

    def clear_queue(self) -> Queues:
        return self._wait(self._agent.clear_queue())

    def send_user_message(self, content: str | Sequence[Text | Image], *, deliver_as: Deliver | None = None) -> None:
        self._wait(self._agent.send_user_message(content, deliver_as=deliver_as))

    def abort(self) -> None:
        self._wait(self._agent.abort())

    def wait_idle(self) -> None:
        self._wait(self._agent.wait_idle())

    def abort_retry(self) -> None:
        self._wait(self._agent.abort_retry())

    # State.

    @property
    def warnings(self) -> list[str]:
        return self._agent.warnings

    @property
    def closed(self) -> bool:
        return self._over

    @property
    def state(self) -> SessionState:
        return self._ask(lambda agent: agent.state)

    @property
    def model(self) -> Model | None:
        return self._ask(lambda agent: agent.model)

    @property
    def thinking(self) -> ThinkingLevel:
        return self._ask(lambda agent: agent.thinking)

    @property
    def session_id(self) -> str:
        return self._ask(lambda agent: agent.session_id)

    @property
    def session_file(self) -> Path | None:
        return self._ask(lambda agent: agent.session_file)

    @property
    def is_streaming(self) -> bool:
        return self._ask(lambda agent: agent.is_streaming)

    @property
    def partial(self) -> Assistant | None:
        return self._ask(lambda agent: agent.partial)

    @property
    def tools(self) -> list[str]:
        return self._ask(lambda agent: agent.tools)

    def set_tools(self, names: Sequence[str]) -> None:
        self._ask(lambda agent: agent.set_tools(names))

    def messages(self) -> list[Stored]:
        return self._ask(lambda agent: agent.messages())

    def stats(self) -> SessionStats:
        return self._ask(lambda agent: agent.stats())

    def context_usage(self) -> ContextUsage | None:
        return self._ask(lambda agent: agent.context_usage())

    def last_text(self) -> str | None:
        return self._ask(lambda agent: agent.last_text())

    def commands(self) -> list[SlashCommand]:
        return self._wait(self._agent.commands())

    # Model, thinking, settings.

    def models(self) -> list[Model]:
        return self._ask(lambda agent: agent.models())

    def set_model(self, model: Model | str) -> Model:
        return self._wait(self._agent.set_model(model))

    def cycle_model(self) -> Model | None:
        return self._wait(self._agent.cycle_model())

    def thinking_levels(self) -> list[ThinkingLevel]:
        return self._ask(lambda agent: agent.thinking_levels())

    def set_thinking(self, level: ThinkingLevel) -> ThinkingLevel:
        return self._wait(self._agent.set_thinking(level))

    def cycle_thinking(self) -> ThinkingLevel | None:
        return self._wait(self._agent.cycle_thinking())

    def set_steering_mode(self, mode: QueueMode) -> None:
        self._wait(self._agent.set_steering_mode(mode))

    def set_follow_up_mode(self, mode: QueueMode) -> None:
        self._wait(self._agent.set_follow_up_mode(mode))

    def set_auto_compaction(self, enabled: bool) -> None:
        self._wait(self._agent.set_auto_compaction(enabled))

    def set_auto_retry(self, enabled: bool) -> None:
        self._wait(self._agent.set_auto_retry(enabled))

    # Shell and sessions.

    def compact(self, instructions: str | None = None) -> CompactionResult:
        return self._wait(self._agent.compact(instructions))

    def bash(self, command: str, *, exclude_from_context: bool = False) -> BashResult:
        return self._wait(self._agent.bash(command, exclude_from_context=exclude_from_context))

    def abort_bash(self) -> None:
        self._ask(lambda agent: agent.abort_bash())

    def new_session(self, parent: str | None = None) -> bool:
        return self._wait(self._agent.new_session(parent))

    def switch_session(self, path: str | os.PathLike[str]) -> bool:
        return self._wait(self._agent.switch_session(path))

    def fork(self, entry_id: str) -> Forked:
        return self._wait(self._agent.fork(entry_id))

    def clone(self) -> bool:
        return self._wait(self._agent.clone())

    def navigate(
        self, entry_id: str, *, summarize: bool = False, instructions: str | None = None, label: str | None = None
    ) -> Navigated:
        return self._wait(self._agent.navigate(entry_id, summarize=summarize, instructions=instructions, label=label))

    def set_name(self, name: str) -> None:
        self._wait(self._agent.set_name(name))

    def sessions(self, *, everywhere: bool = False) -> list[SessionRow]:
        return self._wait(self._agent.sessions(everywhere=everywhere))

    def fork_points(self) -> list[ForkPoint]:
        return self._ask(lambda agent: agent.fork_points())

    def entries(self, since: str | None = None) -> list[Entry]:
        return self._ask(lambda agent: agent.entries(since))

    def tree(self) -> list[Node]:
        return self._ask(lambda agent: agent.tree())

    def export_html(self, path: str | os.PathLike[str] | None = None) -> Path:
        return self._wait(self._agent.export_html(path))

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


async def _opened(opening: opening.Opening) -> agent.Agent:
    return await opening


async def _result(begin: Callable[[], Run]) -> Result:
    return await begin()


async def _next(events: Events) -> AgentEvent | None:
    return await anext(events, None)
