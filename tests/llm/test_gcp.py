from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from support.proxy_programs import microsocks, signed_by_itself, tinyproxy
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


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], certificate: Path | None = None) -> Iterator[int]:
    """The port of a server with this handler."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(folder: Path, token_uri: str, **variables: str) -> str:
    """What comes of an account whose tokens are at `token_uri`, in a session with these variables."""
    pytest.importorskip("google.auth", reason="an extra: google-auth")
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "project_id": "p-1",
        "private_key_id": "k",
        "private_key": key.decode(),
        "client_email": "a@p-1.example",
        "token_uri": token_uri,
    }
    (folder / "account.json").write_text(json.dumps(account))
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(gcp.__file__).parents[2]),
        "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "account.json"),
    }
    if "NODE_EXTRA_CA_CERTS" in variables:
        environment["NODE_EXTRA_CA_CERTS"] = variables.pop("NODE_EXTRA_CA_CERTS")
    command = [sys.executable, "-c", ASK, json.dumps(variables)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def exchanged(folder: Path, handler: type[BaseHTTPRequestHandler], *, proxy: bool = False) -> str:
    """What comes of an account whose tokens this server has: itself, or as a proxy that the session names."""
    with serving(handler) as port:
        address = f"http://127.0.0.1:{port}"
        if proxy:
            return ask(folder, "http://tokens.invalid/token", HTTP_PROXY=address)
        return ask(folder, f"{address}/token")


ASK = """
import json, os, sys
from tau.errors import ModelError
from tau.llm.gcp import find_credentials
try:
    environment = find_credentials({**os.environ, **json.loads(sys.argv[1])})
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


# An address of this machine that, unlike 127.0.0.1, does not bypass proxies.
HOST = "0.0.0.0"


@pytest.mark.process
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_a_token_is_requested_through_a_real_socks_proxy(tmp_path: Path, scheme: str) -> None:
    certificate = signed_by_itself(tmp_path, HOST)
    with (
        microsocks("-u", "me", "-P", "se/cret") as proxy,
        serving(Tokens) as plain,
        serving(Tokens, certificate) as tls,
    ):
        there = f"{scheme}://me:se%2Fcret@{proxy}"
        assert ask(tmp_path, f"http://{HOST}:{plain}/token", ALL_PROXY=there) == "fresh-token p-1\n"
        trusted = {"HTTPS_PROXY": there, "NODE_EXTRA_CA_CERTS": str(certificate)}
        assert ask(tmp_path, f"https://{HOST}:{tls}/token", **trusted) == "fresh-token p-1\n"


@pytest.mark.process
def test_a_token_is_requested_through_a_real_http_proxy_with_a_password(tmp_path: Path) -> None:
    certificate = signed_by_itself(tmp_path, HOST)
    with (
        tinyproxy(tmp_path, "BasicAuth me secret1") as proxy,
        serving(Tokens) as plain,
        serving(Tokens, certificate) as tls,
    ):
        there = f"http://me:secret1@{proxy}"
        assert ask(tmp_path, f"http://{HOST}:{plain}/token", HTTP_PROXY=there) == "fresh-token p-1\n"
        trusted = {"HTTPS_PROXY": there, "NODE_EXTRA_CA_CERTS": str(certificate)}
        assert ask(tmp_path, f"https://{HOST}:{tls}/token", **trusted) == "fresh-token p-1\n"


@pytest.mark.process
def test_a_proxy_that_rejects_the_password_is_reported_without_it(tmp_path: Path) -> None:
    with microsocks("-u", "me", "-P", "secret1") as proxy, serving(Tokens) as plain:
        answer = ask(tmp_path, f"http://{HOST}:{plain}/token", ALL_PROXY=f"socks5h://me:wrong-one@{proxy}")
    assert answer.startswith("False Google credentials: ")
    assert "rejected the user name or password" in answer and "wrong-one" not in answer
