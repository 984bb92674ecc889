"""What can be between a model and us: no such host, a bad certificate, a proxy with wishes, and a very long line."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from support.limits import no_descriptors
from support.rpc_process import Agent, Json, of, said, text

MODEL = {"id": "m1", "contextWindow": 200_000, "maxTokens": 8_000}
NO_PROXIES = {name: "" for one in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (one, one.upper())}
MIB = 1 << 20


class Server:
    """Says `status` and `body` to everything, also to who wants to be connected further."""

    def __init__(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.status, self.body, self.headers = status, body, headers
        self.asked: list[str] = []

    @contextmanager
    def serving(self, context: ssl.SSLContext | None = None) -> Iterator[str]:
        said = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                said.asked.append(f"{self.command} {self.path}")
                self.rfile.read(int(self.headers.get("content-length", "0")))
                self.send_response(said.status)
                for name, value in (*said.headers, ("content-length", str(len(said.body)))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(said.body)

            do_CONNECT = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client that does not trust us hangs up

        with Quiet(("127.0.0.1", 0), Handler) as server:
            if context is not None:
                server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            Thread(target=server.serve_forever, daemon=True).start()
            yield f"127.0.0.1:{server.server_port}"
            server.shutdown()


def asking(folder: Path, url: str, **env: str) -> Agent:
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "k", "models": [MODEL]}
    return Agent(
        folder,
        models={"providers": {"lab": provider}},
        settings={"retry": {"baseDelayMs": 1, "maxRetries": 1}},
        args=["--provider", "lab", "--model", "m1"],
        offline=False,
        env={**NO_PROXIES, **env},
    )


def failure(events: list[Json]) -> tuple[str, bool]:
    """What the last answer says went wrong, and whether it was tried again."""
    answer = said(events, "assistant")[-1]
    assert answer["stopReason"] == "error"
    return answer["errorMessage"], bool(of("auto_retry_start", events))


@pytest.mark.promise("E28")
def test_a_host_that_is_not_known_may_be_known_later(tmp_path: Path) -> None:
    with asking(tmp_path, "http://nowhere.invalid/v1", RES_OPTIONS="timeout:1 attempts:1") as agent:
        error, again = failure(agent.prompt("go"))
    assert again and error.startswith("Connection error: ") and "nowhere.invalid" in error


@pytest.mark.promise("E28")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_a_certificate_that_is_not_trusted_is_not_asked_again(tmp_path: Path) -> None:
    key, mine = tmp_path / "key.pem", tmp_path / "mine.pem"
    wishes = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=lab -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(["openssl", *wishes.split(), "-keyout", key, "-out", mine], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(mine, key)
    server = Server(200, b"never read")
    with server.serving(context) as place, asking(tmp_path, f"https://{place}/v1") as agent:
        error, again = failure(agent.prompt("go"))
    assert not again and "certificate" in error and "SSL_CERT_FILE" in error
    assert server.asked == []


@pytest.mark.promise("E28")
def test_a_proxy_that_wants_a_password_is_distinguished_from_the_server_and_not_asked_again(tmp_path: Path) -> None:
    server = Server(407, b"who are you?")
    url = "https://model.example/v1"
    with server.serving() as place, asking(tmp_path, url, https_proxy=f"http://{place}") as agent:
        error, again = failure(agent.prompt("go"))
    assert not again and error.startswith("Connection error: the proxy answered 407")
    assert server.asked == ["CONNECT model.example:443"]


@pytest.mark.promise("H06")
def test_an_answer_in_one_event_of_ten_megabytes_is_read(tmp_path: Path) -> None:
    words = "x" * 10_000_000
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": words}, "finish_reason": "stop"}]}
    body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    server = Server(200, body, ("content-type", "text/event-stream"))
    with server.serving() as place, asking(tmp_path, f"http://{place}/v1") as agent:
        agent.get("get_state")
        cpu, memory = agent.cpu, agent.memory
        answer = said(agent.prompt("go"), "assistant")[-1]
        assert (answer["stopReason"], text(answer)) == ("stop", words)
        assert agent.cpu - cpu <= 10
        assert agent.memory - memory <= 300 * MIB


def test_a_connection_without_a_descriptor_is_an_error_of_the_connection(tmp_path: Path) -> None:
    with Server(400, b"no").serving() as place, asking(tmp_path, f"http://{place}") as agent:
        agent.prompt("one")  # loads what a connection needs
        with no_descriptors(agent.pid):
            error, again = failure(agent.prompt("two"))
    assert again and error == f"Connection error: cannot connect to {place}: Too many open files"
    assert "Traceback" not in agent.stderr
