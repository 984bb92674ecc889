"""A model server on this machine for editors: what it answers depends on the last message of the user."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HELLO = "Hello from the model."
REFUSED = {"error": {"message": "the parameter x is wrong", "type": "invalid_request_error"}}
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "run it": ("bash", {"command": "touch ran; echo it-ran"}),
    "deny it": ("bash", {"command": "touch denied"}),
    "edit it": ("edit", {"path": "a.txt", "oldText": "two", "newText": "2"}),
    "wait": ("bash", {"command": "touch waiting; sleep 120"}),
    "run again": ("bash", {"command": "touch again"}),
}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked, answered = _last(request["messages"])
        # Some editors repeat what was asked before: avante.nvim after the newest, CodeCompanion before it.
        newest = asked.partition("</previous_user_message>")[0]
        words = max([*CALLS, "say hello", "fail", "who"], key=newest.rfind)
        if words == "fail":
            self._send(400, "application/json", json.dumps(REFUSED))
            return
        delta: dict[str, Any] = {"content": HELLO}
        if words == "who":
            delta = {"content": f"I am {request['model']}."}
        elif words in CALLS and answered:
            delta = {"content": "The tool has answered."}
        elif words in CALLS:
            name, arguments = CALLS[words]
            function = {"name": name, "arguments": json.dumps(arguments)}
            id = f"call_{len(request['messages'])}"
            delta = {"tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]}
        reason = "tool_calls" if "tool_calls" in delta else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        rows: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ]
        common = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}
        data = "".join(f"data: {json.dumps(common | row)}\n\n" for row in rows) + "data: [DONE]\n\n"
        self._send(200, "text/event-stream", data)

    def _send(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


def _last(messages: list[dict[str, Any]]) -> tuple[str, bool]:
    """The last message of the user, and whether a tool has answered since."""
    answered = False
    for message in reversed(messages):
        if message["role"] == "tool":
            answered = True
        if message["role"] == "user":
            content = message["content"]
            return content if isinstance(content, str) else json.dumps(content), answered
    return "", answered


@contextmanager
def model_server() -> Iterator[dict[str, Any]]:
    """Yields the content of models.json."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    lab = {
        "api": "openai-completions",
        "baseUrl": f"http://127.0.0.1:{server.server_port}/v1",
        "apiKey": "none",
        "models": [{"id": "one", "name": "One"}, {"id": "two", "name": "Two"}],
    }
    try:
        yield {"providers": {"lab": lab}}
    finally:
        server.shutdown()
        server.server_close()
