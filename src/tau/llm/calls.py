"""What a model call is made of: the types that the API modules and `stream` share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tau.core.convert import Spoken
from tau.core.draft import Begun, Done, Draft, Update
from tau.records.models import Model, ThinkingLevel

Fact = Begun | Update | Done


class ToolSpec(Protocol):
    """What a model is told about a tool."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Context:
    system: str
    messages: Sequence[Spoken]
    tools: Sequence[ToolSpec]


@dataclass(frozen=True)
class Options:
    """`key` is None for a model that needs none; `max_tokens` is for answers shorter than the model's longest."""

    key: str | None = None
    thinking: ThinkingLevel = "off"
    budgets: Mapping[str, int] = field(default_factory=dict)
    session_id: str = ""
    max_tokens: int | None = None


@dataclass(frozen=True)
class Request:
    url: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Pause:
    """An offline model takes its time."""

    ms: int


class Reader(Protocol):
    """Turns one response's server-sent events into facts."""

    def read(self, event: str, data: str) -> Sequence[Fact]: ...

    def end(self) -> Sequence[Fact]:
        """The stream is over; raises ModelError if the answer is not whole."""
        ...


class Api(Protocol):
    """A module in llm/ that speaks one HTTP API."""

    def request(self, model: Model, context: Context, options: Options) -> Request: ...

    def Reader(self, draft: Draft) -> Reader: ...


class Offline(Protocol):
    """A module in llm/ that answers by itself."""

    def answer(
        self, model: Model, context: Context, draft: Draft, world: World
    ) -> Iterator[Sequence[Fact] | Pause]: ...


class Transport(Protocol):
    """The network: http.py, or whatever a test puts in its place."""

    def post(self, request: Request) -> AsyncGenerator[bytes, None]: ...


@dataclass(frozen=True)
class World:
    """What a model call needs from outside. `turn` counts the calls before this one; llm/scripted.py reads `script`."""

    transport: Transport
    pause: Callable[[float], Awaitable[None]]
    turn: int = 0
    script: bytes = b""
