"""What a client sees of an answer that fails: the ends of its blocks, and no delta that pi never sends."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.pi_releases import Server
from support.rpc_process import Agent, Json, of
from tau.records.base import encode

SEEDS = ("2026-03", "2026-01")
OTHERS = ("default", "0.73", "0.84", "1.5")
MODEL = {"id": "m1", "name": "M1", "contextWindow": 1000, "maxTokens": 100}


@contextmanager
def chat_server(deltas: Sequence[Json], *, hangs: bool) -> Iterator[str]:
    """A chat completions server that sends these deltas, and then nothing more or the end of the connection."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for delta in deltas:
                chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
                self.wfile.write(b"data: " + encode(chunk) + b"\n\n")
            self.wfile.flush()
            if hangs:
                over.wait()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            over.set()
            server.shutdown()


def started(folder: Path, models: Json, dialect: str, retry: Json, model: str) -> Agent:
    args = ("--provider", model.split("/")[0], "--model", model.split("/")[1], "--dialect", dialect)
    return Agent(folder, models=models, offline=False, args=args, settings={"retry": retry})


def deltas_of(events: Sequence[Json]) -> list[str]:
    return [event["assistantMessageEvent"]["type"] for event in of("message_update", events)]


def chat_agent(folder: Path, url: str) -> Agent:
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "k", "models": [MODEL]}
    return started(folder, {"providers": {"lab": provider}}, "default", {"enabled": False}, "lab/m1")


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ([{"content": "Hel"}, {"content": "lo"}], ["text_start", "text_delta", "text_delta", "text_end"]),
        ([{"reasoning_content": "Hm"}], ["thinking_start", "thinking_delta", "thinking_end"]),
    ],
)
@pytest.mark.parametrize("hangs", [True, False], ids=["aborted", "cut off"])
def test_an_open_block_of_a_chat_model_gets_its_end(
    tmp_path: Path, sent: list[Json], told: list[str], hangs: bool
) -> None:
    with chat_server(sent, hangs=hangs) as url, chat_agent(tmp_path, url) as agent:
        agent.get("prompt", message="go")
        if hangs:
            agent.until(lambda event: event["type"] == "message_update" and "delta" in event["assistantMessageEvent"])
            agent.get("abort")
        agent.until("agent_settled")
        seen = deltas_of(agent.events)
        assert list(dict.fromkeys(seen)) == list(dict.fromkeys(told))
        assert seen.count(told[-1]) == 1
        (answer,) = (one["message"] for one in of("message_end", agent.events) if one["message"]["role"] != "user")
        assert answer["stopReason"] == ("aborted" if hangs else "error")
        last = of("message_update", agent.events)[-1]["assistantMessageEvent"]["content"]
        assert answer["content"][0][told[-1].removesuffix("_end")] == last


@pytest.mark.parametrize("dialect", [*OTHERS, *SEEDS])
def test_an_answer_that_is_retried_has_no_error_delta(tmp_path: Path, dialect: str) -> None:
    with (
        Server("!529", "Hello.") as server,
        started(tmp_path, server.models, dialect, {"baseDelayMs": 1}, "mock/m1") as agent,
    ):
        agent.get("prompt", message="go")
        agent.until("auto_retry_end")
        assert of("auto_retry_start", agent.events)
        assert deltas_of(agent.events)[-1] == "text_end"
        assert "error" not in deltas_of(agent.events)


@pytest.mark.parametrize("dialect", [*OTHERS, *SEEDS])
def test_only_the_dialects_that_document_the_error_delta_send_it(tmp_path: Path, dialect: str) -> None:
    with (
        Server("!529") as server,
        started(tmp_path, server.models, dialect, {"baseDelayMs": 1, "maxRetries": 1}, "mock/m1") as agent,
    ):
        agent.get("prompt", message="go")
        agent.until("auto_retry_end")
        assert deltas_of(agent.events) == (["error"] if dialect in SEEDS else [])
