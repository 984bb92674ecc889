"""One run of the real program with everything that telemetry shows: tools, a retry, a compaction, and an abort.

with PricedModel(*ANSWERS) as model:
    run(folder, model, receiver.environment)
    tree(receiver.spans) == TREE
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.rpc_process import Agent, Json

SETTINGS: Json = {"retry": {"baseDelayMs": 20}, "compaction": {"keepRecentTokens": 1}}
TOO_LONG = "This endpoint's maximum context length is 8192 tokens. Please reduce the length of the messages."
ANSWERS: Sequence[Json] = (
    {"status": 529, "error": "overloaded"},
    {"text": "Let me look.", "tool": "bash", "arguments": {"command": "printf 'one\\ntwo\\n' | wc -l"}},
    {"tool": "read", "arguments": {"path": "missing.txt"}},
    {"text": "Two lines, and no such file."},
    {"status": 400, "error": TOO_LONG},
    {"text": "The user asked for the number of lines: two."},  # the summary
    {"text": "Here I go on."},
    {"text": "For ever", "hangs": True},
)
TREE = [
    "invoke_agent tau",
    "  chat priced-1 !overloaded",
    "  chat priced-1",
    "  execute_tool bash",
    "  chat priced-1",
    "  execute_tool read !tool",
    "  chat priced-1",
    "invoke_agent tau",
    "  chat priced-1 !overflow",
    "  invoke_workflow compaction",
    "    chat priced-1",
    "  chat priced-1",
    "invoke_agent tau !aborted",
    "  chat priced-1 !aborted",
]


class PricedModel:
    """A server that speaks OpenAI's protocol, with a model that has a price. The last answer is repeated."""

    def __init__(self, *answers: Json) -> None:
        self.headers: list[Mapping[str, str]] = []
        self.hung = threading.Event()
        self._answers = list(answers or ANSWERS)
        self._ended = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                owner.headers.append({name.lower(): value for name, value in self.headers.items()})
                owner.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        status = answer.get("status", 200)
        handler.send_response(status)
        if status != 200:
            body = json.dumps({"error": {"message": answer["error"]}}).encode()
            handler.send_header("content-length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
            return
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        for delta in _deltas(answer):
            _say(handler, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if answer.get("hangs"):
            self.hung.set()
            self._ended.wait()
            return
        why = "tool_calls" if "tool" in answer else "stop"
        _say(handler, {"choices": [{"index": 0, "delta": {}, "finish_reason": why}]})
        _say(handler, {"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 100}})
        handler.wfile.write(b"data: [DONE]\n\n")

    @property
    def models(self) -> Json:
        cost = {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}
        model = {"id": "priced-1", "contextWindow": 8192, "maxTokens": 1000, "cost": cost}
        url = f"http://127.0.0.1:{self._server.server_port}/v1"
        return {
            "providers": {"priced": {"baseUrl": url, "api": "openai-completions", "apiKey": "k", "models": [model]}}
        }

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()


def _deltas(answer: Json) -> list[Json]:
    words = [{"content": word} for word in answer.get("text", "").split(" ")] if "text" in answer else []
    if "tool" not in answer:
        return words
    function = {"name": answer["tool"], "arguments": json.dumps(answer["arguments"])}
    return [*words, {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}]


def _say(handler: BaseHTTPRequestHandler, chunk: Json) -> None:
    handler.wfile.write(
        b"data: " + json.dumps({"id": "answer-1", "model": "priced-1-2026", **chunk}).encode() + b"\n\n"
    )
    handler.wfile.flush()


def run(folder: Path, model: PricedModel, environment: Mapping[str, str], settings: Json | None = None) -> str:
    """Three prompts over RPC: tools and a retry; a context that is too long; one that is aborted. Returns stderr."""
    args = ["--provider", "priced", "--model", "priced-1"]
    with Agent(
        folder,
        models=model.models,
        settings={**SETTINGS, **(settings or {})},
        args=args,
        offline=False,
        env=environment,
    ) as agent:
        agent.prompt("How many lines?")
        agent.prompt("Go on.")
        agent.get("prompt", message="Think.")
        agent.until("message_update")
        agent.get("abort")
        agent.settled()
        agent.close()
        assert agent.exit_code() == 0
        return agent.stderr
