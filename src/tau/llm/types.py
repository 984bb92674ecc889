"""What a model call is made of: the types that the API modules and `stream` share."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tau.core.agent.draft import Begun, Done, Draft, Heard, Update
from tau.core.checks.secrets import shown_address
from tau.core.conversation.provider_messages import Spoken
from tau.records.base import Value, field
from tau.records.models import Model, ThinkingLevel

Fact = Begun | Heard | Update | Done
OUTPUT_LIMIT = 32000
# Stands for a key where the environment has other credentials.
AUTHENTICATED = "<authenticated>"


class ToolSpec(Protocol):
    """What a model is told about a tool."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...


class Context(Value):
    """`messages` may be gone through as often as one likes; a long conversation is not held in memory for it."""

    system: str
    messages: Iterable[Spoken]
    tools: Sequence[ToolSpec]


class Options(Value):
    """`key` is None for a model that needs none; `max_tokens` is for answers shorter than the model's longest.

    `environment` has the variables that some APIs are configured by, and the
    credentials found for them; `now` is the time in milliseconds, for signatures.
    """

    key: str | None = None
    thinking: ThinkingLevel = "off"
    budgets: Mapping[str, int] = field(default_factory=dict)
    session_id: str = ""
    max_tokens: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    now: int = 0
    interleaved: bool = True  # thinking between tool calls, where that has to be asked for

    def __repr__(self) -> str:
        """Without what nobody should read in a log."""
        return f"Options(thinking={self.thinking!r}, session_id={self.session_id!r})"

    @property
    def secret(self) -> str | None:
        """The key, if it is one."""
        return None if self.key == AUTHENTICATED else self.key

    @property
    def caches_long(self) -> bool:
        return self.environment.get("PI_CACHE_RETENTION") == "long"

    @property
    def caches(self) -> bool:
        return self.environment.get("PI_CACHE_RETENTION") != "none"


def output_limit(model: Model, options: Options) -> int:
    """How many tokens an answer may have."""
    return min(options.max_tokens or OUTPUT_LIMIT, model.max_tokens)


def fills_window(model: Model) -> bool:
    """Whether the model's limit is none: what the prompt leaves of its window is what an answer may have."""
    return model.max_tokens >= model.context_window


def address(model: Model, options: Options) -> str:
    """Where the model is, with `{NAME}` in it taken from the environment."""
    return re.sub(
        r"\{([A-Z_]+)\}", lambda found: options.environment.get(found[1], found[0]), model.base_url.rstrip("/")
    )


def own_headers(model: Model) -> dict[str, str]:
    """The headers of the model's entry, in lower case: they stand beside ours."""
    return {name.lower(): value for name, value in (model.headers or {}).items()}


class Request(Value):
    """`heard` is told the status and the headers of the response before its body is read."""

    url: str
    headers: dict[str, str]
    body: dict[str, Any]
    heard: Callable[[int, Mapping[str, str]], Awaitable[None]] | None = None

    def __repr__(self) -> str:
        """Without what nobody should read in a log."""
        return f"Request({shown_address(self.url)!r})"


class Pause(Value):
    """An offline model takes its time."""

    ms: int


class Decoder(Protocol):
    """Turns bytes into the events of a stream, as pairs of name and data."""

    def feed(self, data: bytes) -> Iterable[tuple[str, str]]: ...


class Reader(Protocol):
    """Turns one response's events into facts."""

    def read(self, event: str, data: str) -> Sequence[Fact]: ...

    def end(self) -> Sequence[Fact]:
        """The stream is over; raises ModelError if the answer is not whole."""
        ...


class Api(Protocol):
    """A module in llm/ that speaks an HTTP API.

    It may also have `Decoder`, where its stream is no server-sent events, and
    `sign(request, model, options)`, where a signature goes over the whole request.
    """

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


class Watchers(Protocol):
    """Others who see a request before it is sent, and may change it, and who hear of the response."""

    async def outgoing(self, request: Request) -> Request: ...

    async def incoming(self, status: int, headers: Mapping[str, str]) -> None: ...


class Streams(Protocol):
    """Others who ask models in their own way."""

    def stream(self, provider: str, params: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """What comes, in portions. Raises ModelError."""
        ...


class World(Value):
    """What a model call needs from outside. `turn` counts the calls before this one; llm/scripted.py reads `script`."""

    transport: Transport
    pause: Callable[[float], Awaitable[None]]
    turn: int = 0
    script: bytes = b""
    watchers: Watchers | None = None
    streams: Streams | None = None
