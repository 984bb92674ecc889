"""The model of these runs: an OpenAI-like server on loopback that does what a prompt says, word by word.

    read FILE      calls the tool read, and quotes what it said
    run COMMAND    calls the tool bash, and quotes what it said
    never end      begins to answer and does not stop until the client disconnects

To anything else it says "ok".
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]

PATIENCE = 60.0  # seconds; even an answer without an end has one, so that no thread outlives a run for long
PAUSE = 0.05
TOOLS = {"read": ("read", "path"), "run": ("bash", "command")}


@contextmanager
def serving() -> Iterator[str]:
    """The address of a server that is there as long as this lasts."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def settle(agent_dir: Path, address: str) -> None:
    """Write the settings of an agent whose only and default model is the one at this address."""
    agent_dir.mkdir(parents=True)
    free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    sizes = {"contextWindow": 200_000, "maxTokens": 8_000}
    model = {"id": "m1", "name": "Loopback", "reasoning": False, "input": ["text"], "cost": free, **sizes}
    provider = {"baseUrl": address, "api": "openai-completions", "apiKey": "no-secret", "models": [model]}
    chosen = {"defaultProvider": "loopback", "defaultModel": "m1", "quietStartup": True}
    (agent_dir / "models.json").write_text(json.dumps({"providers": {"loopback": provider}}))
    (agent_dir / "settings.json").write_text(json.dumps(chosen))


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for delta, why in answer(asked["messages"]):
                self._say({"choices": [{"index": 0, "delta": delta, "finish_reason": why}]})
            self._say({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass  # aborted: that is what half of these runs are for

    def _say(self, chunk: Json) -> None:
        whole = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m1", **chunk}
        self.wfile.write(f"data: {json.dumps(whole)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def answer(messages: list[Json]) -> Iterator[tuple[Json, str | None]]:
    last = messages[-1]
    text = spoken(last["content"])
    verb, _, rest = text.partition(" ")
    if last["role"] == "tool":
        yield {"role": "assistant", "content": "It says: "}, None
        yield {"content": text.strip()}, None
        yield {}, "stop"
    elif verb in TOOLS:
        tool, argument = TOOLS[verb]
        function = {"name": tool, "arguments": json.dumps({argument: rest})}
        call = {"index": 0, "id": f"call_{len(messages)}", "type": "function", "function": function}
        yield {"role": "assistant", "tool_calls": [call]}, None
        yield {}, "tool_calls"
    elif text == "never end":
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            yield {"content": "on and "}, None
            time.sleep(PAUSE)
        yield {}, "stop"
    else:
        yield {"role": "assistant", "content": "ok"}, None
        yield {}, "stop"


def spoken(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
