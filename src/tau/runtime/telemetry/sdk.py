"""The only module that knows OpenTelemetry: providers, exporters, spans and instruments.

What is sent where is decided by the standard variables (`OTEL_…`). Exporting happens in the threads of the SDK; a
receiver that hangs costs a run nothing.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.metrics import Counter, Histogram, Meter, UpDownCounter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tau.runtime.telemetry import names

QUEUE: Final = 2048
DELAY_MS: Final = 5000
FLUSH_TIMEOUT_S: Final = 1.5
EXPORT_TIMEOUT_S: Final = 5
DEFAULT_ENDPOINT: Final = "http://localhost:4318"

logger = logging.getLogger("tau.telemetry")
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
        self, tracers: trace.TracerProvider, meters: metrics.MeterProvider, version: str, logs: Any = None
    ) -> None:
        self._tracers = tracers
        self._meters = meters
        self._logs = logs
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
    def traceparent(span: Span) -> str:
        carrier: dict[str, str] = {}
        _propagator.inject(carrier, trace.set_span_in_context(span, contexts.Context()))
        return carrier.get("traceparent", "")

    def log(self, severity: int, text: str, name: str, span: Span | None, attributes: Mapping[str, Any]) -> None:
        if self._logs is None:
            return
        from opentelemetry._logs import LogRecord, SeverityNumber

        context = None if span is None else trace.set_span_in_context(span, contexts.Context())
        logs = self._logs.get_logger(names.SCOPE, schema_url=names.SCHEMA_URL)
        number = SeverityNumber.ERROR if severity >= logging.ERROR else SeverityNumber.WARN
        number = number if severity >= logging.WARNING else SeverityNumber.INFO
        record = LogRecord(context=context, severity_number=number, body=text, attributes=dict(attributes))
        if name:
            record.event_name = name
        logs.emit(record)

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Send what is left, for a limited time: a receiver that hangs must not keep the program."""

        def send() -> None:
            for provider in (self._tracers, self._meters, self._logs):
                with suppress(Exception):
                    if provider is not None:
                        provider.force_flush(int(timeout_s * 1000))  # type: ignore[union-attr]

        thread = threading.Thread(target=send, name="telemetry-flush", daemon=True)
        thread.start()
        thread.join(timeout_s)


def of_program(version: str) -> Sdk:
    """Telemetry of a program that has providers of its own: the global ones. Sets none."""
    return Sdk(trace.get_tracer_provider(), metrics.get_meter_provider(), version)


def of_provider(provider: Any, version: str) -> Sdk:
    return Sdk(provider, metrics.get_meter_provider(), version)


def of_environment(version: str, environment: Mapping[str, str], *, offline: bool) -> Sdk:
    """Telemetry as the standard variables say. Raises ValueError if one names an exporter that does not exist."""
    _quiet_exporters()
    name = environment.get("OTEL_SERVICE_NAME") or "tau"
    resource = Resource.create({SERVICE_NAME: name, SERVICE_VERSION: version})
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = _exporter("OTEL_TRACES_EXPORTER", environment, offline, _span_exporters(environment))
    if exporter is not None:
        tracers.add_span_processor(
            BatchSpanProcessor(
                exporter, max_queue_size=QUEUE, schedule_delay_millis=DELAY_MS, max_export_batch_size=512
            )
        )
    metric_exporter = _exporter("OTEL_METRICS_EXPORTER", environment, offline, _metric_exporters(environment))
    readers = [] if metric_exporter is None else [PeriodicExportingMetricReader(metric_exporter)]
    meters = MeterProvider(readers, resource, shutdown_on_exit=False)
    return Sdk(tracers, meters, version, _logs(resource, environment, offline))


def _logs(resource: Resource, environment: Mapping[str, str], offline: bool) -> Any:
    exporter = _exporter("OTEL_LOGS_EXPORTER", environment, offline, _log_exporters(environment))
    if exporter is None:
        return None
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider(resource, shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter, max_queue_size=QUEUE))
    return provider


def _exporter(
    variable: str, environment: Mapping[str, str], offline: bool, known: Mapping[str, Callable[[], Any]]
) -> Any:
    wanted = environment.get(variable, "").strip() or ("none" if offline else "otlp")
    if wanted == "none":
        return None
    if wanted not in known:
        raise ValueError(f"{variable}={wanted} is not known: use {', '.join(known)} or none.")
    if offline and wanted == "otlp":
        raise ValueError(f"{variable}={wanted} sends to the network, which --offline forbids: use file or none.")
    return known[wanted]()


def _endpoint(environment: Mapping[str, str], signal: str) -> str | None:
    """The endpoint, unless the SDK finds one in the environment itself."""
    if environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT") or environment.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    ):
        return None
    return f"{DEFAULT_ENDPOINT}/v1/{signal}"


def _span_exporters(environment: Mapping[str, str]) -> Mapping[str, Callable[[], SpanExporter]]:
    def otlp() -> SpanExporter:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(_endpoint(environment, "traces"), timeout=EXPORT_TIMEOUT_S)

    return {"otlp": otlp, "console": _console_spans, "file": lambda: _file_spans(environment)}


def _console_spans() -> SpanExporter:
    import sys

    return ConsoleSpanExporter(out=sys.stderr)


def _file_spans(environment: Mapping[str, str]) -> SpanExporter:
    from tau.runtime.telemetry.file_exporter import SpanFile

    return SpanFile(_file(environment))


def _file(environment: Mapping[str, str]) -> str:
    path = environment.get("TAU_TELEMETRY_FILE", "")
    if not path:
        raise ValueError("TAU_TELEMETRY_FILE is missing: it names the file for OTEL_TRACES_EXPORTER=file.")
    return os.path.abspath(path)


def _metric_exporters(environment: Mapping[str, str]) -> Mapping[str, Callable[[], Any]]:
    def otlp() -> Any:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        return OTLPMetricExporter(_endpoint(environment, "metrics"), timeout=EXPORT_TIMEOUT_S)

    def console() -> Any:
        import sys

        return ConsoleMetricExporter(out=sys.stderr)

    return {"otlp": otlp, "console": console}


def _log_exporters(environment: Mapping[str, str]) -> Mapping[str, Callable[[], Any]]:
    def otlp() -> Any:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

        return OTLPLogExporter(_endpoint(environment, "logs"), timeout=EXPORT_TIMEOUT_S)

    def console() -> Any:
        import sys

        from opentelemetry.sdk._logs.export import ConsoleLogRecordExporter

        return ConsoleLogRecordExporter(out=sys.stderr)

    return {"otlp": otlp, "console": console}


class _OneWarning(logging.Handler):
    """Passes on the first warning of the exporters, in our words, and no other."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._said:
            self._said = True
            logger.warning("telemetry cannot be sent: %s", record.getMessage()[:300])


def _quiet_exporters() -> None:
    handler = _OneWarning()
    for name in ("opentelemetry.exporter", "opentelemetry.sdk"):
        root = logging.getLogger(name)
        root.propagate = False
        if not root.handlers:
            root.addHandler(handler)
