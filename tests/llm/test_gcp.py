from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tau.llm import gcp


@pytest.mark.parametrize("name", ["GOOGLE_CLOUD_API_KEY", "GOOGLE_OAUTH_ACCESS_TOKEN"])
def test_what_stands_in_the_environment_is_taken_as_it_is(name: str) -> None:
    assert gcp.find_credentials({name: "x"}) == {name: "x"}


class Tokens(BaseHTTPRequestHandler):
    """A server that gives a token for every signed request."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"]))
        granted = b"assertion=" in asked
        body = json.dumps({"access_token": "fresh-token", "expires_in": 3600} if granted else {"error": "no"}).encode()
        self.send_response(200 if granted else 400)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def exchanged(folder: Path, handler: type[BaseHTTPRequestHandler], *, proxy: bool = False) -> str:
    """What comes of an account whose tokens this server has: itself, or as a proxy that the session names."""
    pytest.importorskip("google.auth", reason="an extra: google-auth")
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        key = rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {
            "type": "service_account",
            "project_id": "p-1",
            "private_key_id": "k",
            "private_key": key.decode(),
            "client_email": "a@p-1.example",
            "token_uri": "http://tokens.invalid/token" if proxy else f"{address}/token",
        }
        (folder / "account.json").write_text(json.dumps(account))
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(gcp.__file__).parents[2]),
            "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "account.json"),
        }
        asking = [sys.executable, "-c", ASK, *([address] if proxy else [])]
        return subprocess.run(asking, env=environment, capture_output=True, text=True, check=True).stdout
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


ASK = """
import os, sys
from tau.errors import ModelError
from tau.llm.gcp import find_credentials
try:
    environment = find_credentials({**os.environ, **{"HTTP_PROXY": proxy for proxy in sys.argv[1:]}})
    print(environment["GOOGLE_OAUTH_ACCESS_TOKEN"], environment["GOOGLE_CLOUD_PROJECT"])
except ModelError as error:
    print(error.transient, error)
"""


@pytest.mark.process
def test_an_account_is_exchanged_for_a_token(tmp_path: Path) -> None:
    assert exchanged(tmp_path, Tokens) == "fresh-token p-1\n"


@pytest.mark.process
def test_a_token_is_requested_through_the_proxy_of_the_session(tmp_path: Path) -> None:
    assert exchanged(tmp_path, Tokens, proxy=True) == "fresh-token p-1\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("said", "helps"),
    [
        (b"", True),
        (b"SSH-2.0-OpenSSH_9\r\n", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", None),
        (b'HTTP/1.1 400 Bad\r\ncontent-length: 25\r\n\r\n{"error":"invalid_grant"}', False),
    ],
    ids=["nothing", "another protocol", "half", "a page", "a refusal"],
)
def test_a_server_that_has_no_token_is_an_error_that_says_so(tmp_path: Path, said: bytes, helps: bool | None) -> None:
    class Odd(Tokens):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.wfile.write(said)
            self.close_connection = True

    assert exchanged(tmp_path, Odd).startswith(f"{helps} Google credentials: ")
