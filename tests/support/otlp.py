"""Spans that telemetry sends: collected in this process, read from a file, or received over HTTP."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple


class Seen(NamedTuple):
    """One span."""

    name: str
    id: str
    parent: str
    trace: str
    attributes: Mapping[str, Any]
    events: list[str]
    failed: bool
    kind: str = ""
    event_attributes: tuple[Mapping[str, Any], ...] = ()
    schema: str = ""


class Point(NamedTuple):
    """One value of a metric."""

    metric: str
    unit: str
    kind: str  # histogram, counter, or up-down counter
    attributes: Mapping[str, Any]
    value: Any  # the sum
    bounds: tuple[float, ...] = ()


class Record(NamedTuple):
    """One log record."""

    body: Any
    severity: str
    event: str
    trace: str
    span: str
    attributes: Mapping[str, Any]


def of_sdk(spans: Iterable[Any]) -> list[Seen]:
    """From an InMemorySpanExporter."""
    return [
        Seen(
            span.name,
            f"{span.context.span_id:016x}",
            "" if span.parent is None else f"{span.parent.span_id:016x}",
            f"{span.context.trace_id:032x}",
            dict(span.attributes),
            [event.name for event in span.events],
            span.status.status_code.name == "ERROR",
            span.kind.name,
            tuple(dict(event.attributes or {}) for event in span.events),
            span.instrumentation_scope.schema_url or "",
        )
        for span in spans
    ]


def of_file(path: Path) -> list[Seen]:
    return [_of_json(json.loads(line)) for line in path.read_text().splitlines()]


def _of_json(request: Mapping[str, Any]) -> Seen:
    span = request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    return Seen(
        span["name"],
        span["spanId"],
        span.get("parentSpanId", ""),
        span["traceId"],
        {one["key"]: _value(one["value"]) for one in span["attributes"]},
        [event["name"] for event in span["events"]],
        span["status"]["code"] == 2,
    )


def _value(value: Mapping[str, Any]) -> Any:
    ((kind, found),) = value.items()
    if kind == "intValue":
        return int(found)
    return tuple(map(_value, found["values"])) if kind == "arrayValue" else found


def tree(spans: Iterable[Seen], parent: str = "", depth: int = 0) -> list[str]:
    """The names of the spans, children indented below their parent, in the order in which they ended."""
    lines: list[str] = []
    spans = list(spans)
    known = {span.id for span in spans}
    for span in spans:
        if span.parent == parent or (not parent and span.parent not in known):
            kind = f" !{span.attributes['error.type']}" if span.failed else ""
            lines += [f"{'  ' * depth}{span.name}{kind}", *tree(spans, span.id, depth + 1)]
    return lines


class Receiver:
    """An OTLP receiver on loopback. `answer` may hang or refuse; it returns the status."""

    def __init__(self, answer: Callable[[], int] = lambda: 200) -> None:
        self.spans: list[Seen] = []
        self.points: list[Point] = []
        self.records: list[Record] = []
        self.paths: list[str] = []
        self.bodies: list[bytes] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.take(self.path, body)
                self.send_response(answer())
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *words: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.paths.append(path)
        self.bodies.append(body)
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    self.spans += [_of_protobuf(span, scope.schema_url) for span in scope.spans]
        elif path == "/v1/metrics":
            for metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in metrics.scope_metrics:
                    self.points += [point for metric in scope.metrics for point in _points(metric)]
        elif path == "/v1/logs":
            for logs in ExportLogsServiceRequest.FromString(body).resource_logs:
                for scope in logs.scope_logs:
                    self.records += map(_record, scope.log_records)

    @property
    def metrics(self) -> set[str]:
        return {point.metric for point in self.points}

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        return {"TAU_TELEMETRY": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_LOGS_EXPORTER": "none"}


def _of_protobuf(span: Any, schema: str) -> Seen:
    return Seen(
        span.name,
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.trace_id.hex(),
        _attributes(span.attributes),
        [event.name for event in span.events],
        span.status.code == 2,
        ("", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")[span.kind],
        tuple(_attributes(event.attributes) for event in span.events),
        schema,
    )


def _points(metric: Any) -> Iterator[Point]:
    which = metric.WhichOneof("data")
    data = getattr(metric, which)
    kind = which if which != "sum" else "counter" if data.is_monotonic else "up-down counter"
    for point in data.data_points:
        value = point.sum if which == "histogram" else getattr(point, point.WhichOneof("value"))
        bounds = tuple(point.explicit_bounds) if which == "histogram" else ()
        yield Point(metric.name, metric.unit, kind, _attributes(point.attributes), value, bounds)


def _record(record: Any) -> Record:
    found = record.severity_text, record.event_name, record.trace_id.hex(), record.span_id.hex()
    return Record(_any(record.body), *found, _attributes(record.attributes))


def _attributes(found: Any) -> dict[str, Any]:
    return {one.key: _any(one.value) for one in found}


def _any(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(map(_any, value.array_value.values))
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return None if kind is None else getattr(value, kind)
