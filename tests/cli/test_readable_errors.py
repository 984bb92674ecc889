"""Errors of model servers, as a person reads them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.cli_process import QUICK_RETRIES, Done, run
from tau.runtime.models.readable_errors import message_of


@contextmanager
def failing(status: int, body: str) -> Iterator[str]:
    """The address of a server that answers every request with this error."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(folder: Path, address: str, *argv: str) -> Done:
    model = {"id": "m"}
    lab = {"baseUrl": address, "api": "anthropic-messages", "apiKey": "$LAB_KEY", "models": [model]}
    (folder / "agent").mkdir(parents=True, exist_ok=True)
    (folder / "agent" / "models.json").write_text(json.dumps({"providers": {"lab": lab}}))
    words = ("-p", "--model", "lab/m", *argv, "hi")
    return run(folder, *words, env={"LAB_KEY": "sk-lab-secret-key"}, settings=QUICK_RETRIES)


ERROR = '{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}'


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (401, ERROR, "lab rejected the API key from models.json (401): invalid x-api-key."),
        (
            404,
            "<html><body>Not Found</body></html>",
            "{address} does not have the model m, or is not the right address (404): Not Found.",
        ),
        (429, '{"error": "slow down."}', "lab limits how much you can ask (429): slow down."),
        (500, "[" + ERROR + "]", "lab has a problem (500): invalid x-api-key."),
        (400, '{"detail": "no"}', "lab refused the request (400): no."),
    ],
)
def test_an_error_response_is_one_sentence(tmp_path: Path, status: int, body: str, sentence: str) -> None:
    with failing(status, body) as address:
        done = ask(tmp_path, address)
    line = f"Error: {sentence.format(address=address)} (--verbose shows the whole response.)\n"
    assert (done.code, done.out, done.err) == (1, "", line)


def test_what_to_do_about_an_error_follows_its_sentence(tmp_path: Path) -> None:
    with failing(402, '{"error": {"message": "Insufficient Balance"}}') as address:
        done = ask(tmp_path, address)
    assert done.err == (
        "Error: lab refused the request (402): Insufficient Balance. The credit or the quota of this account is used "
        "up: add credit or raise the limit at the provider, wait until it is reset, or choose another model. "
        "(--verbose shows the whole response.)\n"
    )


def test_verbose_shows_the_response_as_it_came(tmp_path: Path) -> None:
    with failing(401, ERROR) as address:
        done = ask(tmp_path, address, "--verbose")
    assert f"Error: 401 {ERROR}\n" in done.err


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("status code (no body)", ""),
        ("plain words", "plain words"),
        ('{"error": {"message": "a\\nb"}}', "a b"),
        ('{"message": "x", "code": 3}', "x"),
        ("<!doctype html><title>502 Bad\nGateway</title><p>more", "502 Bad Gateway"),
        ('{"other": 1}', '{"other": 1}'),
    ],
)
def test_the_message_is_found_in_what_servers_send(body: str, message: str) -> None:
    assert message_of(body) == message


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_a_server_on_this_machine_that_does_not_run_is_an_error_at_once(tmp_path: Path) -> None:
    address = f"127.0.0.1:{unused_port()}"
    # With retries, this would take longer than any test may.
    settings = {"retry": {"baseDelayMs": 3_600_000, "maxRetries": 3}}
    words = ("-p", "--provider", "ollama", "--model", "qwen3", "hi")
    done = run(tmp_path, *words, env={"OLLAMA_HOST": address}, settings=settings)
    hint = "Is Ollama running? Start it with `ollama serve`."
    line = f"Error: Connection error: cannot connect to {address}: Connection refused. {hint}\n"
    assert (done.code, done.out, done.err) == (1, "", line)
