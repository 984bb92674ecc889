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
    assert gcp.found({name: "x"}) == {name: "x"}


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


def test_an_account_is_exchanged_for_a_token(tmp_path: Path) -> None:
    pytest.importorskip("google.auth", reason="an extra: google-auth")
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    server = HTTPServer(("127.0.0.1", 0), Tokens)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        key = rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {
            "type": "service_account",
            "project_id": "p-1",
            "private_key_id": "k",
            "private_key": key.decode(),
            "client_email": "a@p-1.example",
            "token_uri": f"http://127.0.0.1:{server.server_port}/token",
        }
        (tmp_path / "account.json").write_text(json.dumps(account))
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(gcp.__file__).parents[2]),
            "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "account.json"),
        }
        ask = "import os; from tau.llm.gcp import found; f = found(os.environ);"
        ask += "print(f['GOOGLE_OAUTH_ACCESS_TOKEN'], f['GOOGLE_CLOUD_PROJECT'])"
        done = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "fresh-token p-1\n"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
