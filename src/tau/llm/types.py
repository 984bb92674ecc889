"""Types that the API modules and `stream` share: APIs, requests, options, readers, transports."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tau.core.agent.draft import Draft, MessageBegun, MessageDone, ResponseStarted, Update
from tau.core.checks.secrets import redact_url
from tau.core.conversation.provider_messages import ModelMessage
from tau.records.base import Value, field
from tau.records.models import Model, ThinkingLevel
from tau.wire.sse import SSEDecoder

ModelResult = MessageBegun | ResponseStarted | Update | MessageDone
Relay = Callable[[Sequence[ModelResult]], bool]
# Tokens of the context window that an answer never takes: estimates of a conversation may be too low.
RESERVED_TOKENS = 4096
# Placeholder for a key where the environment has other credentials.
AUTHENTICATED = "<authenticated>"


if TYPE_CHECKING:

    class ToolSpec(Protocol):
        """A tool as the model sees it."""

        @property
        def name(self) -> str: ...

        @property
        def description(self) -> str: ...

        @property
        def parameters(self) -> dict[str, Any]: ...


class ModelContext(Value):
    """Input of a model call. `messages` can be iterated repeatedly: a long conversation is not kept in memory.

    `kept` is what an API keeps between the calls of a run, under names of its own; None if it may keep nothing.
    """

    system: str
    messages: Iterable[ModelMessage]
    tools: Sequence[ToolSpec]
    kept: dict[str, Any] | None = None


class CallOptions(Value):
    """Options of a model call.

    `key` is None for a model that needs none; `max_tokens` limits answers below the model's maximum, and
    `context_tokens` says how much of the context window the conversation takes. `environment` contains variables that
    configure some APIs, and the credentials found for them; `now` is the time in milliseconds, for signatures.
    """

    key: str | None = None
    thinking: ThinkingLevel = "off"
    budgets: Mapping[str, int] = field(default_factory=dict)
    session_id: str = ""
    max_tokens: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    now: int = 0
    interleaved: bool = True  # thinking between tool calls, where that must be requested
    context_tokens: int = 0

    def __repr__(self) -> str:
        """Without secrets, for logs."""
        return f"CallOptions(thinking={self.thinking!r}, session_id={self.session_id!r})"

    @property
    def secret(self) -> str | None:
        """The key, unless it is the placeholder."""
        return None if self.key == AUTHENTICATED else self.key

    @property
    def caches_long(self) -> bool:
        return self.environment.get("PI_CACHE_RETENTION") == "long"

    @property
    def caches(self) -> bool:
        return self.environment.get("PI_CACHE_RETENTION") != "none"


def output_limit(model: Model, options: CallOptions) -> int:
    """Maximum number of tokens of an answer: the model's limit, and what its context window has left."""
    return fit_window(min(options.max_tokens or model.max_tokens, model.max_tokens), model, options)


def fit_window(tokens: int, model: Model, options: CallOptions) -> int:
    """`tokens`, reduced to what the context window has left."""
    reserved = min(RESERVED_TOKENS, model.context_window // 8)
    left = model.context_window - options.context_tokens - reserved
    return min(tokens, max(1, left)) if model.context_window > 0 else tokens


def affinity_headers(options: CallOptions, *names: str) -> dict[str, str]:
    """Headers that keep the requests of a session on one server, where the prompt is cached."""
    return dict.fromkeys(names, options.session_id) if options.session_id and options.caches else {}


def has_no_output_limit(model: Model) -> bool:
    """True if the model has no output limit of its own: an answer may fill the rest of the context window."""
    return model.max_tokens >= model.context_window


def base_url(model: Model, options: CallOptions) -> str:
    """The base URL of the model, with `{NAME}` replaced from the environment."""
    url = model.base_url.rstrip("/")
    if "{" not in url:
        return url
    return re.sub(r"\{([A-Z_]+)\}", lambda found: options.environment.get(found[1], found[0]), url)


def model_headers(model: Model) -> dict[str, str]:
    """The headers of the model's configuration, in lower case like the others."""
    return {name.lower(): value for name, value in (model.headers or {}).items()}


class ModelRequest(Value):
    """An HTTP request. `on_response` is called with status and headers of the response before its body is read.

    `consume` may take chunks of the body, all but the first, in a callback of the event loop, which saves resuming the
    task that reads the response. If it returns False, that task is resumed with an empty chunk.
    """

    url: str
    headers: dict[str, str]
    body: dict[str, Any]
    on_response: Callable[[int, Mapping[str, str]], Awaitable[None]] | None = None
    consume: Callable[[bytes], bool] | None = None

    def __repr__(self) -> str:
        """Without secrets, for logs."""
        return f"ModelRequest({redact_url(self.url)!r})"


class Pause(Value):
    """A delay in the answer of an offline model."""

    ms: int


if TYPE_CHECKING:

    class Decoder(Protocol):
        """Decodes bytes to the events of a stream, as pairs of name and data."""

        def feed(self, data: bytes) -> Iterable[tuple[str, str]]: ...

    class Reader(Protocol):
        """Converts the events of one response to results."""

        def read(self, event: str, data: str) -> Sequence[ModelResult]: ...

        def end(self) -> Sequence[ModelResult]:
            """Called at the end of the stream; raises ModelError if the answer is incomplete."""
            ...

    class Transport(Protocol):
        """The network: http.py, or a replacement in tests."""

        def post(self, request: ModelRequest) -> AsyncGenerator[bytes, None]: ...

    class RequestHooks(Protocol):
        """Hooks that can change a request before it is sent, and observe the response."""

        async def outgoing(self, request: ModelRequest) -> ModelRequest: ...

        async def incoming(self, status: int, headers: Mapping[str, str]) -> None: ...

    class ExtensionStreams(Protocol):
        """Model calls that an extension makes itself."""

        def stream(self, provider: str, params: dict[str, Any]) -> AsyncGenerator[Any, None]:
            """Chunks of the answer. Raises ModelError."""
            ...


class CallEnvironment(Value):
    """Dependencies of a model call. `turn` counts earlier calls; llm/scripted.py reads `script`.

    `relay` may take results in a callback of the event loop instead of from the stream; it returns False if it did not.
    """

    transport: Transport
    pause: Callable[[float], Awaitable[None]]
    turn: int = 0
    script: bytes = b""
    watchers: RequestHooks | None = None
    streams: ExtensionStreams | None = None
    relay: Relay | None = None


class HttpApi(Value):
    """An HTTP API: pure functions that build a request and read the response.

    `sign` adds a signature that covers the whole request, after hooks have changed it. `decoder` decodes the stream of
    the response, by default as server-sent events.
    """

    request: Callable[[Model, ModelContext, CallOptions], ModelRequest]
    reader: Callable[[Draft], Reader]
    sign: Callable[[ModelRequest, Model, CallOptions], ModelRequest] | None = None
    decoder: Callable[[], Decoder] = SSEDecoder


class OfflineApi(Value):
    """A model that answers without a network: steps of the answer, and pauses between them."""

    answer: Callable[[Model, ModelContext, Draft, CallEnvironment], Iterator[Sequence[ModelResult] | Pause]]


class ExtensionApi(Value):
    """A model that an extension calls: the results arrive in chunks."""

    stream: Callable[
        [Model, ModelContext, CallOptions, Draft, CallEnvironment], AsyncGenerator[Sequence[ModelResult], None]
    ]


Api = HttpApi | OfflineApi | ExtensionApi
