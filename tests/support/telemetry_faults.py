"""Receivers of telemetry that fail in every way, and the search for runs that notice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.telemetry_process import run

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: "
FAULTS = {
    "500": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
    "429": b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n",
    "10 MB": HEAD + b"10000000\r\n\r\n" + b"x" * 10_000_000,
    "closes at once": b"",
    "closes in the head": HEAD[:20],
    "closes in the body": HEAD + b"100\r\n\r\nabc",
    "no HTTP": b"\0\1\2\3" * 10,
}


@contextmanager
def answering(data: bytes) -> Iterator[str]:
    """A server that answers every connection with these bytes, and closes it."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                try:
                    client.recv(65536)
                    client.sendall(data)
                    client.shutdown(socket.SHUT_WR)
                except OSError:
                    pass

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def noticed(folder: Path, fault: str) -> Iterator[str]:
    """What a program says or does otherwise because of a fault of its receiver; one warning is allowed."""
    with answering(FAULTS[fault]) as url:
        done = run(folder, "--telemetry", OTEL_EXPORTER_OTLP_ENDPOINT=url)
    if (done.returncode, done.stdout) != (0, "ok\n"):
        yield f"{fault}: it ended with {done.returncode}: {done.stdout[-200:]}"
    if len(done.stderr.splitlines()) > 1 or "Traceback" in done.stderr:
        yield f"{fault}: {done.stderr[-500:]}"


def cut_anywhere(step: int) -> tuple[int, list[str]]:
    """An answer that ends at any byte: exceptions of the exporter, which must fail quietly."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider

    span = TracerProvider().get_tracer("test").start_span("one")
    span.end()
    whole, wrong = FAULTS["closes in the body"], []
    places = range(0, len(whole), step)
    for at in places:
        with answering(whole[:at]) as url:
            try:
                OTLPSpanExporter(f"{url}/v1/traces", timeout=0.1).export([span])  # type: ignore[list-item]
            except Exception as error:
                wrong.append(f"at byte {at}: {error!r}")
    return len(places), wrong
