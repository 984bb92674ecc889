"""A model on this machine whose answers follow from the prompt, so that two programs get the same ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SUMMARY = "The conversation so far, in short."
SUMMARY_MARKS = ("<conversation>", "# Conversation")  # of requests for a summary
HOLD_S = 30.0


class Model:
    """`hold …` is answered only after `release` is set; `call COMMAND` calls bash; other texts are repeated."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.release = threading.Event()
        self.asked: list[str] = []


@contextmanager
def serving() -> Iterator[Model]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    model = Model(f"http://127.0.0.1:{server.server_port}/v1")
    server.model = model  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model: Model = self.server.model  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for delta, why in self._answer(model, body):
                self._send({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": why}]})
            self._send({"id": "c", "choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:  # the program has stopped the answer
            pass

    def _answer(self, model: Model, body: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str | None]]:
        last = body["messages"][-1]
        text = _text(last["content"])
        model.asked.append(text)
        if any(mark in text for mark in SUMMARY_MARKS):
            yield {"content": SUMMARY}, None
        elif last["role"] == "tool":
            yield {"content": "The command has run."}, None
        elif text.startswith("call "):
            function = {"name": "bash", "arguments": json.dumps({"command": text.removeprefix("call ")})}
            call = {"index": 0, "id": f"call_{len(body['messages'])}", "type": "function", "function": function}
            yield {"tool_calls": [call]}, None
            yield {}, "tool_calls"
            return
        elif text.startswith("hold"):
            yield {"content": "Held."}, None
            model.release.wait(HOLD_S)
            yield {"content": " Released."}, None
        else:
            yield {"content": f"You said: {text}"}, None
        yield {}, "stop"

    def _send(self, chunk: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())
