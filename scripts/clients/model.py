"""The model for these clients: a server on loopback with the OpenAI chat API that follows simple prompts.

    read FILE      calls the tool read, and quotes its result
    run COMMAND    calls the tool bash, and quotes its result
    call TOOL JSON calls any tool
    never end      streams an answer until the client disconnects
    refuse         fails with HTTP status 400
    say WORDS      repeats the words

Prompts of the clients' own tests mean the same (ASKED). The answer to anything else is "ok".
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

Json = dict[str, Any]

PATIENCE = 60.0  # seconds; limit of "never end", so that its thread ends
PAUSE = 0.05
TOOLS = {"read": ("read", "path"), "run": ("bash", "command")}
NUMBERS = count(1)
ASKED = (
    (re.compile(r"use the read tool to read the file (\S+)\.", re.IGNORECASE), r"read \1"),
    (re.compile(r"count from 1 to 100 slowly", re.IGNORECASE), "never end"),
    (re.compile(r"reply with exactly:? (\w+)", re.IGNORECASE), r"say \1"),
    (re.compile(r"/no_think say:? ([\w-]+)", re.IGNORECASE), r"say \1"),
)


@contextmanager
def serving() -> Iterator[str]:
    """Run the server and yield its base URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def settle(agent_dir: Path, address: str, others: tuple[str, ...] = ()) -> None:
    """Write the configuration of an agent whose only model is the one at this address.

    `others`: models that a client names, PROVIDER/ID. They are at the same address.
    """
    agent_dir.mkdir(parents=True)
    short = {"compaction": {"keepRecentTokens": 20}}  # so that a session of three prompts can be compacted
    free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    sizes = {"contextWindow": 200_000, "maxTokens": 8_000}
    model = {"id": "m1", "name": "Loopback", "reasoning": False, "input": ["text"], "cost": free, **sizes}
    provider = {"baseUrl": address, "api": "openai-completions", "apiKey": "no-secret", "models": [model]}
    chosen = {"defaultProvider": "loopback", "defaultModel": "m1", "quietStartup": True, **short}
    named = dict(other.split("/", 1) for other in others)
    more = {name: {**provider, "models": [{**model, "id": id, "name": id}]} for name, id in named.items()}
    (agent_dir / "prompts").mkdir()
    (agent_dir / "prompts" / "greet.md").write_text("say hello\n")  # a command to list
    (agent_dir / "models.json").write_text(json.dumps({"providers": {"loopback": provider, **more}}))
    (agent_dir / "settings.json").write_text(json.dumps(chosen))


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if wish(asked["messages"][-1]) == "refuse":
            self._refuse()
            return
        self._number = next(NUMBERS)  # programs that count calls tell them apart by the id
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for delta, why in answer(asked["messages"]):
                self._say({"choices": [{"index": 0, "delta": delta, "finish_reason": why}]})
            self._say({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass  # the client has aborted the answer

    def _refuse(self) -> None:
        body = json.dumps({"error": {"message": "refused by the model", "type": "invalid_request_error"}}).encode()
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _say(self, chunk: Json) -> None:
        whole = {"id": f"c{self._number}", "object": "chat.completion.chunk", "created": 0, "model": "m1", **chunk}
        self.wfile.write(f"data: {json.dumps(whole)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def answer(messages: list[Json]) -> Iterator[tuple[Json, str | None]]:
    last = messages[-1]
    text = wish(last)
    verb, _, rest = text.partition(" ")
    if last["role"] == "tool":
        yield {"role": "assistant", "content": "It says: "}, None
        yield {"content": text.strip()}, None
        yield {}, "stop"
    elif verb == "say":
        yield {"role": "assistant", "content": rest}, None
        yield {}, "stop"
    elif verb in TOOLS or verb == "call":
        tool, argument = TOOLS.get(verb, ("", ""))
        named, _, arguments = rest.partition(" ")
        function = {"name": tool, "arguments": json.dumps({argument: rest})}
        if verb == "call":
            function = {"name": named, "arguments": arguments}
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


def wish(message: Json) -> str:
    """What the message asks for, as in the list above."""
    text = spoken(message["content"])
    if message["role"] != "tool":
        text = text.partition("\n\n")[0]  # an editor adds its context below
        for pattern, meaning in ASKED:
            if found := pattern.search(text):
                return found.expand(meaning)
    return text


def spoken(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
