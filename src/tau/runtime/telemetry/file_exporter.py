"""Spans as lines of OTLP JSON in a file that only the user can read: for tests, and for machines without a network."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}


class SpanFile(SpanExporter):
    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        lines = "".join(json.dumps(_request(span), ensure_ascii=False) + "\n" for span in spans)
        try:
            with self._lock, open(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as file:
                file.write(lines)
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS


def _request(span: ReadableSpan) -> dict[str, Any]:
    """One span as an ExportTraceServiceRequest."""
    scope = span.instrumentation_scope
    about = {} if scope is None else {"name": scope.name, "version": scope.version}
    scoped = {"scope": about, "spans": [_span(span)], "schemaUrl": "" if scope is None else scope.schema_url}
    return {
        "resourceSpans": [{"resource": {"attributes": _attributes(span.resource.attributes)}, "scopeSpans": [scoped]}]
    }


def _span(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context()
    parent = {} if span.parent is None else {"parentSpanId": f"{span.parent.span_id:016x}"}
    return {
        "traceId": "" if context is None else f"{context.trace_id:032x}",
        "spanId": "" if context is None else f"{context.span_id:016x}",
        **parent,
        "name": span.name,
        "kind": KINDS[span.kind.name],
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": _attributes(span.attributes or {}),
        "events": [_event(event) for event in span.events],
        "status": {"code": span.status.status_code.value},
    }


def _event(event: Event) -> dict[str, Any]:
    return {
        "timeUnixNano": str(event.timestamp),
        "name": event.name,
        "attributes": _attributes(event.attributes or {}),
    }


def _attributes(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in found.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"stringValue": str(value)}
