"""The module that knows OpenTelemetry: spans, instruments, log records, and what they are sent by.

What is sent where is decided by the standard variables (`OTEL_…`, exporters.py). Exporting happens in the threads of
the SDK; a receiver that hangs costs a run nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.metrics import Counter, Histogram, Meter, UpDownCounter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tau.runtime.telemetry import names
from tau.runtime.telemetry.content import CAPTURE
from tau.runtime.telemetry.export_queue import BoundedLogProcessor, BoundedSpanProcessor, QueueLimit
from tau.runtime.telemetry.exporters import FLUSH_THREAD, exporter, quiet_exporters

FLUSH_TIMEOUT_S: Final = 1.5

_propagator = TraceContextTextMapPropagator()


class Instruments:
    """The metrics of tau."""

    def __init__(self, meter: Meter) -> None:
        def histogram(one: tuple[str, str, str], buckets: Sequence[float]) -> Histogram:
            name, unit, about = one
            return meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=list(buckets))

        def counter(one: tuple[str, str, str]) -> Counter:
            return meter.create_counter(*one)

        def up_down(one: tuple[str, str, str]) -> UpDownCounter:
            return meter.create_up_down_counter(*one)

        self.tokens = histogram(names.TOKEN_USAGE, names.TOKEN_BUCKETS)
        self.call = histogram(names.OPERATION_DURATION, names.SECOND_BUCKETS)
        self.first_chunk = histogram(names.TIME_TO_FIRST_CHUNK, names.SECOND_BUCKETS)
        self.per_chunk = histogram(names.TIME_PER_CHUNK, names.SECOND_BUCKETS)
        self.run = histogram(names.AGENT_DURATION, names.SECOND_BUCKETS)
        self.tool = histogram(names.TOOL_DURATION, names.SECOND_BUCKETS)
        self.cost = counter(names.COST_METRIC)
        self.sessions = up_down(names.SESSIONS)
        self.runs = up_down(names.RUNS)
        self.retries = counter(names.RETRIES_METRIC)
        self.denials = counter(names.DENIALS)
        self.exceeded = counter(names.BUDGET_EXCEEDED)


class Sdk:
    """A tracer and the instruments, and how to flush them. Spans get their parents explicitly, never from a global."""

    def __init__(
        self,
        tracers: trace.TracerProvider,
        meters: metrics.MeterProvider,
        version: str,
        logs: Any = None,
        owned: Sequence[Any] = (),
    ) -> None:
        """`owned`: providers to flush. Those of a program that embeds tau are its own business."""
        self._owned = owned
        self._logger = None if logs is None else logs.get_logger(names.SCOPE, version, schema_url=names.SCHEMA_URL)
        self.tracer = tracers.get_tracer(names.SCOPE, version, schema_url=names.SCHEMA_URL)
        self.instruments = Instruments(meters.get_meter(names.SCOPE, version, schema_url=names.SCHEMA_URL))

    def start(self, name: str, parent: Any, attributes: Mapping[str, Any], *, client: bool = False) -> Span:
        """`parent` is a span, a context, or None for a new trace."""
        if isinstance(parent, Span):
            context = trace.set_span_in_context(parent, contexts.Context())
        else:
            context = contexts.Context() if parent is None else parent
        kind = SpanKind.CLIENT if client else SpanKind.INTERNAL
        return self.tracer.start_span(name, context, kind, dict(attributes))

    @staticmethod
    def context_of(span: Span) -> Any:
        """A context with the span as the parent of others."""
        return trace.set_span_in_context(span, contexts.Context())

    @staticmethod
    def fail(span: Span, error_type: str) -> None:
        span.set_attribute(names.ERROR_TYPE, error_type)
        span.set_status(Status(StatusCode.ERROR))

    @staticmethod
    def parent_of(traceparent: str, tracestate: str = "") -> Any:
        """The context that a `traceparent` names; None if it is not valid."""
        found = _propagator.extract({"traceparent": traceparent, "tracestate": tracestate}, contexts.Context())
        return found if trace.get_current_span(found).get_span_context().is_valid else None

    @staticmethod
    def current() -> Any:
        """The context of the caller, if it has an active span."""
        span = trace.get_current_span()
        return trace.set_span_in_context(span, contexts.Context()) if span.get_span_context().is_valid else None

    @staticmethod
    def carrier(span: Span) -> Mapping[str, str]:
        """`traceparent`, and `tracestate` if there is one, of a span."""
        found: dict[str, str] = {}
        _propagator.inject(found, trace.set_span_in_context(span, contexts.Context()))
        return found

    def log(self, text: str, severity: int, span: Span | None, attributes: Mapping[str, Any]) -> None:
        """A log record. `severity` is a level of the module logging."""
        if self._logger is not None:
            from opentelemetry._logs import SeverityNumber

            number = SeverityNumber.ERROR if severity >= logging.ERROR else SeverityNumber.WARN
            self._emit(span, severity_number=number, severity_text=number.name, body=text, attributes=attributes)

    def event(self, name: str, span: Span, attributes: Mapping[str, Any]) -> None:
        """A log record with the name of an event."""
        if self._logger is not None:
            from opentelemetry._logs import SeverityNumber

            self._emit(span, severity_number=SeverityNumber.DEBUG, event_name=name, attributes=attributes)

    def _emit(self, span: Span | None, **fields: Any) -> None:
        from opentelemetry._logs import LogRecord

        context = None if span is None else trace.set_span_in_context(span, contexts.Context())
        if self._logger is not None:
            self._logger.emit(LogRecord(context=context, **fields))

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Send what is left, for a limited time: a receiver that hangs must not keep the program."""
        threads = [
            threading.Thread(target=_flush, args=(provider, timeout_s), name=FLUSH_THREAD, daemon=True)
            for provider in self._owned
        ]
        until = monotonic() + timeout_s
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until - monotonic()))


def _flush(provider: Any, timeout_s: float) -> None:
    with suppress(Exception):
        provider.force_flush(int(timeout_s * 1000))


def program_has_provider() -> bool:
    """True if the program that embeds tau has set a tracer provider."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def of_program(version: str) -> Sdk:
    """Telemetry of a program that has providers of its own: the global ones. Sets none."""
    return Sdk(trace.get_tracer_provider(), metrics.get_meter_provider(), version)


def of_provider(provider: Any, version: str) -> Sdk:
    return Sdk(provider, metrics.get_meter_provider(), version)


def of_environment(version: str, environment: Mapping[str, str], *, offline: bool) -> Sdk:
    """Telemetry as the standard variables say. Raises ValueError if one names an exporter that does not exist."""
    quiet_exporters()
    to = {signal: exporter(signal, environment, offline=offline) for signal in ("traces", "metrics", "logs")}
    name = environment.get("OTEL_SERVICE_NAME") or "tau"
    resource = Resource.create({SERVICE_NAME: name, SERVICE_VERSION: version})
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    if to["traces"] is not None:
        with_content = bool(environment.get(CAPTURE, "").strip())
        tracers.add_span_processor(BoundedSpanProcessor(to["traces"], QueueLimit(), with_content=with_content))
    readers = [] if to["metrics"] is None else [PeriodicExportingMetricReader(to["metrics"])]
    meters = MeterProvider(readers, resource, shutdown_on_exit=False)
    logs = None if to["logs"] is None else _logger_provider(resource, to["logs"])
    return Sdk(tracers, meters, version, logs, [one for one in (tracers, meters, logs) if one is not None])


def _logger_provider(resource: Resource, to: Any) -> Any:
    from opentelemetry.sdk._logs import LoggerProvider

    provider = LoggerProvider(resource, shutdown_on_exit=False)
    processor: Any = BoundedLogProcessor(to, QueueLimit())
    provider.add_log_record_processor(processor)
    return provider
