"""Hostile and broken proxies and TLS servers: an error in words, nothing hangs, and no key goes to the wrong place."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import tempfile
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from inspect import signature
from pathlib import Path

import pytest

from tau.errors import ModelError
from tau.llm import socks
from tau.llm.http import Http
from tau.llm.http_request import fetch
from tau.llm.proxies import proxy_for
from tau.llm.types import ModelRequest

KEY = "sk-proxy-1234567890-abcdef"
PASSWORD = "proxy-password-12345"
MODEL = "https://model.example/v1"
WITHIN = 60.0

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def no_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the system take long to load, and no test needs them."""
    (tmp_path / "none.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.delenv("NODE_EXTRA_CA_CERTS", raising=False)
    monkeypatch.delenv("SSLKEYLOGFILE", raising=False)


class Listener:
    """A server on loopback. `heard` is everything that clients sent, `connections` how many there were."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.heard = b""
        self.connections = 0

    @asynccontextmanager
    async def listening(self, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        tasks: set[asyncio.Task[None] | None] = set()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            tasks.add(asyncio.current_task())
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
                await self._serve(reader, writer)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        try:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in filter(None, tasks):
                task.cancel()
            await asyncio.gather(*filter(None, tasks), return_exceptions=True)


async def post(url: str, environment: Mapping[str, str], *, connect: float = WITHIN) -> list[bytes]:
    http = Http(WITHIN, connect, environment=environment)
    try:
        request = ModelRequest(url, {"authorization": f"Bearer {KEY}"}, {"text": "secret question"})
        async with asyncio.timeout(WITHIN):
            return [portion async for portion in http.post(request)]
    finally:
        await http.close()


def failure(work: Awaitable[object]) -> ModelError:
    async def main() -> None:
        await work

    with pytest.raises(ModelError) as caught:
        asyncio.run(main())
    text = str(caught.value)
    assert KEY not in text and PASSWORD not in text and "secret question" not in text
    assert text.isprintable() and len(text) <= 4200, text
    return caught.value


# HTTP proxies: the answer to CONNECT, and what follows it. What the user reads of it, and whether a retry may help.
CONNECTS: dict[str, tuple[bytes, str, bool]] = {
    "it hangs up": (b"", "closed the connection without an answer", True),
    "it speaks another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not HTTP", True),
    "it answers half": (b"HTTP/1.1 200 Connec", "in the middle of its answer", True),
    "it answers as in 1991": (b"<html>hello</html>\r\n\r\n", "not HTTP", True),
    "it connects and hangs up": (b"HTTP/1.1 200 OK\r\n\r\n", "TLS handshake with model.example", True),
    "it answers for the server": (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\ndata: evil\n\n", "", True),
    "it connects with a body": (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "", True),
    "it connects with chunks": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "",
        True,
    ),
    "it says no content": (b"HTTP/1.1 204 No Content\r\n\r\n", "", True),
    "it points elsewhere": (
        b"HTTP/1.1 302 Found\r\nlocation: http://evil.example/\r\n\r\n",
        "the proxy answered 302",
        False,
    ),
    "it wants a password": (b"HTTP/1.1 407 Who\r\n\r\n", "the proxy answered 407 Who", False),
    "it takes us for the client of a server": (b"HTTP/1.1 401 Who\r\n\r\n", "the proxy answered 401 Who", False),
    "it is forbidden": (b"HTTP/1.1 403 No\r\n\r\n", "the proxy answered 403 No", False),
    "it is too busy": (b"HTTP/1.1 429 Later\r\n\r\n", "the proxy answered 429", True),
    "it cannot reach the server": (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "the proxy answered 502", True),
    "it is overloaded": (b"HTTP/1.1 503 Busy\r\n\r\n", "the proxy answered 503", True),
    "it writes to the terminal": (b"HTTP/1.1 403 \x1b[2J\x07\r\n\r\n", "answered 403 ?[2J?", False),
    "it has a long reason": (b"HTTP/1.1 403 " + b"x" * 10_000 + b"\r\n\r\n", "the proxy answered 403 xxx", False),
    "it never comes to the point": (b"HTTP/1.1 100 Continue\r\n\r\n" * 30, "interim responses", True),
    "it changes the protocol": (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "", True),
    "its headers do not end": (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 40_000, "headers", True),
    "one of its headers does not end": (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000, "headers", True),
    "two lengths": (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\n", "", True),
}


@pytest.mark.parametrize(("said", "text", "helps"), CONNECTS.values(), ids=CONNECTS.keys())
def test_a_proxy_that_does_not_do_its_work_is_an_error_and_hears_no_key(said: bytes, text: str, helps: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.heard += await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        with suppress(OSError):
            await writer.drain()
            if said.startswith(b"HTTP/1.1 20") and b"\r\n\r\n" in said:  # what it makes of the handshake
                proxy.heard += await reader.read(65536)

    async def ask() -> None:
        async with proxy.listening() as place:
            await post(MODEL, {"https_proxy": f"http://user:{PASSWORD}@{place}"})

    proxy = Listener(serve)
    error = failure(ask())
    assert text in str(error) and error.transient is helps
    assert proxy.heard.startswith(b"CONNECT model.example:443 HTTP/1.1\r\n") and proxy.connections == 1
    assert KEY.encode() not in proxy.heard and b"secret question" not in proxy.heard


def test_a_proxy_that_never_answers_is_left_after_the_time_for_a_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def ask() -> None:
        async with Listener(serve).listening() as place:
            await post(MODEL, {"https_proxy": f"http://{place}"}, connect=0.1)

    error = failure(ask())
    assert str(error) == f"Connection timed out after 0.1 s: {MODEL}" and error.transient


# SOCKS proxies. Each row: what the proxy says, step by step.
OK = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
SOCKS: dict[str, tuple[list[bytes], str, bool]] = {
    "it hangs up": ([], "it closed the connection", True),
    "it is of version 4": ([b"\x00\x5a"], "it does not speak SOCKS5", False),
    "it is a server of pages": ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], "it does not speak SOCKS5", False),
    "it accepts nothing": ([b"\x05\xff"], "it accepts no password", False),
    "it chose what was not offered": ([b"\x05\x01"], "it accepts no password", False),
    "it does not know the password": ([b"\x05\x02", b"\x01\x01"], "it rejected the user name or password", False),
    "it hangs up after the password": ([b"\x05\x02"], "it closed the connection", True),
    "it fails": ([b"\x05\x00", b"\x05\x01\x00\x01"], "general failure", True),
    "a rule forbids it": ([b"\x05\x00", b"\x05\x02\x00\x01"], "the rules of the proxy do not allow", False),
    "it cannot reach the network": ([b"\x05\x00", b"\x05\x03\x00\x01"], "network unreachable", True),
    "it cannot reach the host": ([b"\x05\x00", b"\x05\x04\x00\x01"], "host unreachable", True),
    "the server refuses": ([b"\x05\x00", b"\x05\x05\x00\x01"], "connection refused", True),
    "an error that is none": ([b"\x05\x00", b"\x05\xfe\x00\x01"], "error 254", True),
    "half a reply": ([b"\x05\x00", b"\x05\x00\x00\x01\x00"], "it closed the connection", True),
    "half a name": ([b"\x05\x00", b"\x05\x00\x00\x03\xffabc"], "it closed the connection", True),
    "an address that is none": ([b"\x05\x00", b"\x05\x00\x00\x09\x00\x00"], "", True),
    "it connects and hangs up": ([b"\x05\x00", OK], "", True),
    "it answers for the server": ([b"\x05\x00", OK + b"HTTP/1.1 200 OK\r\n\r\ndata: evil\n\n"], "", True),
}


@pytest.mark.parametrize(("steps", "text", "helps"), SOCKS.values(), ids=SOCKS.keys())
def test_a_socks_proxy_that_does_not_do_its_work_is_an_error(steps: list[bytes], text: str, helps: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for step in steps:
            proxy.heard += await reader.read(4096)
            writer.write(step)
            await writer.drain()

    async def ask() -> None:
        async with proxy.listening() as place:
            await post(MODEL, {"all_proxy": f"socks5h://user:{PASSWORD}@{place}"})

    proxy = Listener(serve)
    error = failure(ask())
    assert text in str(error) and error.transient is helps
    assert KEY.encode() not in proxy.heard


def test_a_socks_proxy_that_never_answers_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socks, "HANDSHAKE_TIMEOUT_S", 0.1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def ask() -> None:
        async with Listener(serve).listening() as place:
            await post(MODEL, {"all_proxy": f"socks5h://{place}"})

    assert "it did not answer within 0.1 s" in str(failure(ask()))


# Which proxy.


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://127.0.0.1:1/v1", True),
        ("http://127.1/v1", True),
        ("http://localhost/v1", True),
        ("http://[::1]:8/v1", True),
        ("http://127.0.0.1.evil.example/v1", False),
        ("http://127.evil.example/v1", False),
        ("http://localhost.evil.example/v1", False),
        ("http://evil.example/127.0.0.1", False),
        ("http://127.0.0.1@evil.example/v1", False),
    ],
)
def test_only_this_machine_is_reached_without_the_proxy(url: str, is_local: bool) -> None:
    found = proxy_for(url, {"http_proxy": "http://proxy.example:3128"})
    assert found == (None if is_local else "http://proxy.example:3128")


@pytest.mark.parametrize("evil", ["http://proxy\r\nx: y/", "http://\0/", "http://[::1/", "http://:1/", "//"])
def test_an_address_of_a_proxy_that_is_none_is_an_error_without_a_connection(evil: str) -> None:
    error = failure(post(MODEL, {"https_proxy": evil.replace("http://", f"http://user:{PASSWORD}@")}))
    assert error.transient is False or "cannot connect to the proxy" in str(error)


# TLS.


@cache
def authority() -> tuple[object, object]:
    """A key and a certificate that signs others."""
    ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec", reason="needs cryptography")
    key = ec.generate_private_key(ec.SECP256R1())
    return key, _signed(key.public_key(), "lab authority", key, "lab authority", None, 0, 2)


def _signed(public: object, name: str, signer: object, issuer: str, host: str | None, first: int, last: int) -> object:
    """A certificate with everything that RFC 5280 requires, since Python 3.13 verifies with X509_STRICT."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    day, now = datetime.timedelta(days=1), datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(public)  # type: ignore[arg-type]
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + first * day - day / 24)
        .not_valid_after(now + last * day)
        .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)  # type: ignore[arg-type]
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),  # type: ignore[attr-defined]
            critical=False,
        )
    )
    if host is None:
        uses = dict.fromkeys(signature(x509.KeyUsage).parameters, False)
        built = built.add_extension(x509.KeyUsage(**{**uses, "key_cert_sign": True}), critical=True)
    else:
        try:
            general: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            general = x509.DNSName(host)
        built = built.add_extension(x509.SubjectAlternativeName([general]), critical=False)
    return built.sign(signer, hashes.SHA256())  # type: ignore[arg-type]


def server_context(folder: Path, host: str, first: int = 0, last: int = 2, *, trusted: bool = True) -> ssl.SSLContext:
    """What a server shows; the file `authority.pem` has the certificate to trust."""
    signer, root = authority()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    pem, key = serialization.Encoding.PEM, ec.generate_private_key(ec.SECP256R1())
    made = _signed(key.public_key(), "lab", signer if trusted else key, "lab authority", host, first, last)
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.pem").write_bytes(made.public_bytes(pem) + private)  # type: ignore[attr-defined]
    (folder / "authority.pem").write_bytes(root.public_bytes(pem))  # type: ignore[attr-defined]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context


def _old(context: ssl.SSLContext) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")


def _wants_a_certificate(context: ssl.SSLContext) -> None:
    context.verify_mode = ssl.CERT_REQUIRED


# The certificate (host, first and last day, signed by whom we trust), what else the server wants, what the user reads.
Certificate = tuple[str, int, int, bool]
FINE: Certificate = ("127.0.0.1", 0, 2, True)
SERVERS: dict[str, tuple[Certificate, Callable[[ssl.SSLContext], None] | None, str, bool]] = {
    "for another host": (("other.example", 0, 2, True), None, "IP address mismatch", False),
    "for a name like ours": (("127.0.0.1.evil.example", 0, 2, True), None, "IP address mismatch", False),
    "that has ended": (("127.0.0.1", -3, -1, True), None, "certificate has expired", False),
    "that has not begun": (("127.0.0.1", 1, 2, True), None, "certificate is not yet valid", False),
    "signed by itself": (("127.0.0.1", 0, 2, False), None, "certificate verify failed", False),
    "of an old version": (FINE, _old, "", True),
    "that wants ours": (FINE, _wants_a_certificate, "", True),
}


@pytest.mark.parametrize(("certificate", "change", "text", "helps"), SERVERS.values(), ids=SERVERS.keys())
def test_a_server_with_a_certificate_or_wish_that_does_not_fit_gets_no_key(
    tmp_path: Path,
    certificate: Certificate,
    change: Callable[[ssl.SSLContext], None] | None,
    text: str,
    helps: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    *given, trusted = certificate
    context = server_context(tmp_path, *given, trusted=trusted)  # type: ignore[arg-type]
    if change is not None:
        change(context)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.heard += await reader.read(65536)

    async def ask() -> None:
        async with listener.listening(context) as place:
            await post(f"https://{place}/v1", {})

    listener = Listener(serve)
    error = failure(ask())
    assert text in str(error) and error.transient is helps
    assert KEY.encode() not in listener.heard or change is _wants_a_certificate  # which TLS 1.3 tells after the request


PLAIN: dict[str, bytes] = {
    "hangs up": b"",
    "speaks without TLS": b"HTTP/1.1 400 Bad Request\r\n\r\nThis is a plain HTTP server\n",
    "sends an alert": b"\x15\x03\x03\x00\x02\x02\x28",
    "sends half a record": b"\x16\x03\x03\x40\x00" + b"\0" * 100,
    "sends noise": bytes(range(256)) * 8,
    "sends records without end": b"\x16\x03\x03\x00\x04\x01\x00\x00\x00" * 5000,
}


@pytest.mark.parametrize("said", PLAIN.values(), ids=PLAIN.keys())
def test_a_server_that_breaks_the_handshake_is_a_network_error(said: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.heard += await reader.read(65536)
        writer.write(said)
        await writer.drain()

    async def ask() -> None:
        async with listener.listening() as place:
            await post(f"https://{place}/v1", {})

    listener = Listener(serve)
    error = failure(ask())
    assert str(error).startswith("Connection error: ") and error.transient
    assert KEY.encode() not in listener.heard


@pytest.mark.parametrize("cut", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ndata"])
def test_a_secure_answer_that_is_cut_is_not_a_whole_one(
    tmp_path: Path, cut: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the connection, without the farewell of TLS: anybody on the way can cause it."""
    context = server_context(tmp_path, *FINE[:3])
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(cut)
        await writer.drain()
        writer.transport.abort()

    async def ask() -> None:
        async with Listener(serve).listening(context) as place:
            await post(f"https://{place}/v1", {})

    assert failure(ask()).transient


def test_a_file_for_the_keys_of_tls_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("SSLKEYLOGFILE", f"{folder}/missing/keys")
        error = failure(post("https://127.0.0.1:9/v1", {}))
    assert "SSLKEYLOGFILE" in str(error) or "missing/keys" in str(error)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_small_requests_follow_no_redirect_either(status: int) -> None:
    """Those that exchange tokens of a login."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} There\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()

    async def ask() -> int:
        async with listener.listening() as place:
            answer = await fetch("POST", f"http://{place}/token", {"x": KEY}, b"refresh", environment={})
            return answer.status

    listener = Listener(serve)
    assert (asyncio.run(ask()), listener.connections) == (status, 1)
