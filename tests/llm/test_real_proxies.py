"""Model calls through real proxy programs: microsocks and tinyproxy, with passwords, TLS and a private CA.

The server is at 0.0.0.0, an address of this machine that, unlike 127.0.0.1, does not bypass proxies.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.proxy_programs import microsocks, signed_by_itself, tinyproxy
from tau.errors import ModelError
from tau.llm.http import Http
from tau.llm.http_request import fetch
from tau.llm.types import ModelRequest

pytestmark = pytest.mark.process

HOST = "0.0.0.0"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = b"data: hello\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def model_server(context: ssl.SSLContext | None = None) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{'https' if context else 'http'}://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return signed_by_itself(tmp_path_factory.mktemp("certificate"), HOST)


@pytest.fixture
def secure(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A TLS server whose certificate only NODE_EXTRA_CA_CERTS makes valid."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(certificate))
    with model_server(context) as url:
        yield url


def call(url: str, **environment: str) -> bytes:
    async def main() -> bytes:
        http = Http(idle=30, environment=environment)
        try:
            async with asyncio.timeout(60):
                return b"".join([chunk async for chunk in http.post(ModelRequest(f"{url}/v1", {}, {}))])
        finally:
            await http.close()

    return asyncio.run(main())


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks"])
def test_a_plain_and_a_secure_server_are_reached_through_socks(scheme: str, secure: str) -> None:
    with microsocks() as proxy, model_server() as plain:
        assert call(plain, all_proxy=f"{scheme}://{proxy}") == b"data: hello\n\n"
        assert call(secure, HTTPS_PROXY=f"{scheme}://{proxy}") == b"data: hello\n\n"


def test_a_socks_proxy_with_a_password_is_used_and_a_wrong_one_is_not_shown(secure: str) -> None:
    with microsocks("-u", "me", "-P", "se/cr@et") as proxy:
        assert call(secure, all_proxy=f"socks5h://me:se%2Fcr%40et@{proxy}") == b"data: hello\n\n"
        for address, why in (
            (f"socks5h://me:wrong-one@{proxy}", "the SOCKS proxy: it rejected the user name or password"),
            (f"socks5h://{proxy}", "the SOCKS proxy: it wants a password"),
        ):
            with pytest.raises(ModelError, match=why) as caught:
                call(secure, all_proxy=address)
            assert caught.value.transient is False and "wrong-one" not in str(caught.value)


def test_a_server_that_the_socks_proxy_cannot_reach_is_a_network_error() -> None:
    with microsocks() as proxy:
        with pytest.raises(ModelError, match=r"the SOCKS proxy: 0\.0\.0\.0:9: connection refused") as caught:
            call("http://0.0.0.0:9", all_proxy=f"socks5h://{proxy}")
        assert caught.value.transient is True


def test_a_socks_proxy_that_is_not_running_is_named() -> None:
    with pytest.raises(ModelError, match=r"cannot connect to the proxy 127\.0\.0\.1:9: Connection refused"):
        call("https://0.0.0.0:1", all_proxy="socks5h://me:secret@127.0.0.1:9")


def test_an_http_proxy_that_is_configured_as_socks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau.llm.socks.HANDSHAKE_TIMEOUT_S", 0.2)
    with tinyproxy(tmp_path) as proxy, pytest.raises(ModelError, match="it may speak another protocol"):
        call("https://0.0.0.0:1", all_proxy=f"socks5://{proxy}")


@pytest.mark.parametrize("send", [call, lambda url, **environment: small(url, environment)], ids=["model", "small"])
def test_an_http_proxy_with_a_password_is_used(tmp_path: Path, secure: str, send: Callable[..., bytes]) -> None:
    with tinyproxy(tmp_path, "BasicAuth me secret1") as proxy, model_server() as plain:
        there = f"http://me:secret1@{proxy}"
        expected = b"data: hello\n\n" if send is call else b"{}"
        assert send(secure, HTTPS_PROXY=there) == expected
        assert send(plain, HTTP_PROXY=there) == expected


def test_an_http_proxy_that_wants_another_password_is_reported(tmp_path: Path, secure: str) -> None:
    with tinyproxy(tmp_path, "BasicAuth me secret1") as proxy:
        with pytest.raises(ModelError, match=r"the proxy answered 40[17]") as caught:
            call(secure, HTTPS_PROXY=f"http://me:wrong-one@{proxy}")
        assert (caught.value.status, caught.value.transient) == (407, False)
        assert "wrong-one" not in str(caught.value)


def small(url: str, environment: dict[str, str]) -> bytes:
    return asyncio.run(fetch("GET", f"{url}/v1", {}, environment=environment)).body


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"])
def test_a_file_of_certificates_is_trusted_through_a_proxy(
    certificate: Path, variable: str, secure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NODE_EXTRA_CA_CERTS")
    with microsocks() as proxy:
        with pytest.raises(ModelError, match="CERTIFICATE_VERIFY_FAILED"):
            call(secure, all_proxy=f"socks5h://{proxy}")
        monkeypatch.setenv(variable, str(certificate))
        assert call(secure, all_proxy=f"socks5h://{proxy}") == b"data: hello\n\n"


def test_the_headers_of_a_small_response_have_names_in_lower_case() -> None:
    """google-auth recognises the metadata server of a machine by such a name."""
    with model_server() as url:
        headers = asyncio.run(fetch("GET", url, {}, environment={"no_proxy": "*"})).headers
    assert "BaseHTTP" in headers["server"] and headers["content-length"] == "2"
