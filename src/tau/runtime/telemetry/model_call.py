"""Telemetry of one request to a model: a span, its usage, and the metrics of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from tau.core.agent.draft import Draft, MessageBegun
from tau.llm.types import CallOptions, ModelContext
from tau.records.base import UNSET
from tau.records.messages import Assistant, Usage
from tau.records.models import Model
from tau.runtime.telemetry import names
from tau.runtime.telemetry.error_types import type_of
from tau.runtime.telemetry.setup import Setup, harmless, logger

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from tau.runtime.telemetry.sdk import Sdk


class CallOwner(Protocol):
    """The session of a request."""

    @property
    def attempt(self) -> int: ...

    def common(self, operation: str) -> dict[str, Any]: ...

    def add_usage(self, usage: Usage, model: Model) -> None: ...


class CallTelemetry:
    """Implements CallObserver."""

    def __init__(self, owner: CallOwner, setup: Setup, parent: Span | None, draft: Draft) -> None:
        self._owner = owner
        self._sdk: Sdk = setup.sdk
        self._setup = setup
        self._draft = draft
        self._model = model = draft.model
        self._started = perf_counter()
        self._first: float | None = None
        self._pieces = 0
        self._message: Assistant | None = None
        self._found: dict[str, Any] = {}  # attributes that are set at the end, all at once
        about = {names.PROVIDER: names.provider_name(model.provider), names.REQUEST_MODEL: model.id}
        attributes = owner.common(names.CHAT) | about
        attributes |= {names.REQUEST_STREAM: True, names.API: model.api, names.ATTEMPT: owner.attempt}
        self._span = self._sdk.start(f"{names.CHAT} {model.id}", parent, attributes, client=True)
        limited = setup.model_names
        self._about = {names.OPERATION: names.CHAT, **{name: limited(value) for name, value in about.items()}}

    def sent(self, model: Model, options: CallOptions, context: ModelContext) -> Mapping[str, str]:
        try:
            self._sent(model, options, context)
        except Exception:
            logger.debug("telemetry failed", exc_info=True)
        return self._sdk.carrier(self._span) if self._setup.to_models else {}

    def _sent(self, model: Model, options: CallOptions, context: ModelContext) -> None:
        self._model = model
        address = urlsplit(model.base_url)
        self._found[names.THINKING] = options.thinking
        if address.hostname:
            self._about[names.SERVER_ADDRESS] = self._setup.server_names(address.hostname)
            self._found[names.SERVER_ADDRESS] = address.hostname
            self._found[names.SERVER_PORT] = address.port or (80 if address.scheme == "http" else 443)
        if options.max_tokens is not None:
            self._found[names.REQUEST_MAX_TOKENS] = options.max_tokens
        self._setup.content.request(self._span, context)

    def received(self, facts: Sequence[Any]) -> None:
        if facts and type(facts[0]) is not MessageBegun:
            if not self._pieces:
                self._first_piece()
            self._pieces += len(facts)

    @harmless
    def _first_piece(self) -> None:
        self._first = perf_counter()
        self._span.add_event(names.EVENT_FIRST_CHUNK)

    def done(self, message: Assistant) -> None:
        self._message = message

    @harmless
    def ended(self, error: BaseException | None) -> None:
        now, usage = perf_counter(), self._draft.usage
        kind = None
        if self._message is not None:
            usage = self._message.usage
            self._answered(self._message)
        elif error is not None:
            kind = self._failed(error)
        self._add_usage(usage)
        if self._first is not None:
            self._found[names.FIRST_CHUNK] = self._first - self._started
        self._span.set_attributes(self._found)
        self._span.end()
        self._record(now, usage, kind)
        self._owner.add_usage(usage, self._draft.model)

    def _answered(self, message: Assistant) -> None:
        model = message.model if message.model == self._model.id else self._setup.mask.name(message.model)
        self._about[names.RESPONSE_MODEL] = self._setup.model_names(model)
        self._found |= {names.FINISH_REASONS: [message.stop_reason], names.RESPONSE_MODEL: model}
        if message.response_id is not UNSET:
            self._found[names.RESPONSE_ID] = self._setup.mask.name(str(message.response_id))
        if self._model.base_url.startswith("http"):
            self._found[names.HTTP_STATUS] = 200
        self._setup.content.answer(self._span, message)

    def _failed(self, error: BaseException) -> str:
        kind = type_of(error)
        self._sdk.fail(self._span, kind)
        if isinstance(status := getattr(error, "status", None), int):
            self._found[names.HTTP_STATUS] = status
        return kind

    def _record(self, now: float, usage: Usage, kind: str | None) -> None:
        """The metrics."""
        instruments, about = self._sdk.instruments, self._about
        if self._first is not None:
            instruments.first_chunk.record(self._first - self._started, about)
            if self._pieces > 1:
                instruments.per_chunk.record((now - self._first) / (self._pieces - 1), about)
        ending = about if kind is None else about | {names.ERROR_TYPE: kind}
        instruments.call.record(now - self._started, ending)
        instruments.tokens.record(_all_input(usage), about | {names.TOKEN_TYPE: "input"})
        instruments.tokens.record(usage.output, about | {names.TOKEN_TYPE: "output"})
        cost = {name: about[name] for name in (names.PROVIDER, names.REQUEST_MODEL)}
        instruments.cost.add(usage.cost.total, cost)

    def _add_usage(self, usage: Usage) -> None:
        self._found |= {
            names.INPUT_TOKENS: _all_input(usage),
            names.OUTPUT_TOKENS: usage.output,
            names.CACHE_READ_TOKENS: usage.cache_read,
            names.CACHE_WRITE_TOKENS: usage.cache_write,
        }
        if isinstance(usage.reasoning, int):
            self._found[names.REASONING_TOKENS] = usage.reasoning


def _all_input(usage: Usage) -> int:
    """With the cached tokens, as the conventions want."""
    return usage.input + usage.cache_read + usage.cache_write
