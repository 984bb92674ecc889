"""Spans that telemetry sends: collected in this process, read from a file, or received over HTTP."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterable, Mapping
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
        self.metrics: set[str] = set()
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
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.paths.append(path)
        self.bodies.append(body)
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    self.spans += map(_of_protobuf, scope.spans)
        elif path == "/v1/metrics":
            for metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics |= {metric.name for scope in metrics.scope_metrics for metric in scope.metrics}

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        return {"TAU_TELEMETRY": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_LOGS_EXPORTER": "none"}


def _of_protobuf(span: Any) -> Seen:
    attributes = {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
    return Seen(
        span.name,
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.trace_id.hex(),
        attributes,
        [event.name for event in span.events],
        span.status.code == 2,
    )
