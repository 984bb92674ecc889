"""A server on this machine that lists models and answers, as Ollama and others do."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tau.records.base import encode, parse

Delta = tuple[dict[str, Any], str | None]  # and why the answer ends there
HELLO: tuple[Delta, ...] = (({"content": "Hel"}, None), ({"content": "lo"}, None), ({}, "stop"))
# Where nobody is.
NOWHERE = "http://127.0.0.1:9/v1"


@contextmanager
def serving(
    content: Any, status: int = 200, bodies: list[Any] | None = None, answers: Iterable[Sequence[Delta]] = ()
) -> Iterator[tuple[str, list[str]]]:
    """A server with this to say of its models: its address, and what it was asked.

    It gives these answers and then "Hello" to everything. What it was sent is added to `bodies`.
    """
    asked: list[str] = []
    coming = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('authorization')}")
            body = content if isinstance(content, bytes) else encode(content)
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            body = parse(self.rfile.read(int(self.headers["content-length"])))
            asked.append(f"{self.path} {self.headers.get('authorization')} {body['model']}")
            if bodies is not None:
                bodies.append(body)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for delta, why in next(coming, HELLO):
                chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": why}]}
                self.wfile.write(b"data: " + encode(chunk) + b"\n\n")
            usage = {"prompt_tokens": 7, "completion_tokens": 2}
            self.wfile.write(b"data: " + encode({"id": "c", "choices": [], "usage": usage}) + b"\n\ndata: [DONE]\n\n")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
        server.shutdown()
