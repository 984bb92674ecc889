"""What a server may do to a connection, and what comes of it."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tau.llm.http_connection import MAX_BUFFERED_BYTES, BrokenResponse
from tau.llm.http_pool import ConnectionPool, ProxyRefused

pytestmark = pytest.mark.process

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Where the server is."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[list[str], bytes]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    size = next((int(line[15:]) for line in lines if line.startswith("content-length")), 0)
    return lines, await reader.readexactly(size)


@asynccontextmanager
async def connections(context: ssl.SSLContext | None = None) -> AsyncIterator[ConnectionPool]:
    made = ConnectionPool(lambda: context or ssl.create_default_context())
    try:
        yield made
    finally:
        await made.close()


async def ask(open_ones: ConnectionPool, url: str, body: bytes = b"{}", proxy: str | None = None) -> tuple[int, bytes]:
    answer = await open_ones.post(url, {"content-length": str(len(body))}, [body], proxy=proxy, connect=60)
    portions = []
    while portion := await answer.read():
        portions.append(portion)
    answer.finish()
    return answer.status, b"".join(portions)


def answers(*bodies: bytes) -> list[tuple[int, bytes] | str]:
    """What asking comes to when the server says each of these once, on as many connections as it takes."""

    async def main() -> list[tuple[int, bytes] | str]:
        left = list(bodies)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(left.pop(0))
            await writer.drain()

        found: list[tuple[int, bytes] | str] = []
        async with asyncio.timeout(30), serving(serve) as place, connections() as open_ones:
            for _ in bodies:
                try:
                    found.append(await ask(open_ones, f"http://{place}/"))
                except BrokenResponse as error:
                    found.append(str(error))
        return found

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (OK, (200, b"ok")),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", (200, b"until the end")),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK, (200, b"ok")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nx-after: all\r\n\r\n",
            (200, b"ok"),
        ),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\nuntil the end", (200, b"until the end")),
        (CHUNKED + b"2;" + b"x" * 60_000 + b"\r\nok\r\n0\r\n\r\n", (200, b"ok")),
        (CHUNKED + b"2\r\nok\r\n0\r\nx-after: " + b"x" * 60_000 + b"\r\n\r\n", (200, b"ok")),
        (OK + OK, (200, b"ok")),
        (OK + b"rubbish", (200, b"ok")),
    ],
    ids=[
        "sized",
        "until the end",
        "words in between",
        "no body",
        "chunks with a trailer",
        "not coded at all",
        "chunks with much about them",
        "much behind the chunks",
        "two answers",
        "rubbish behind",
    ],
)
def test_an_answer_is_read_to_its_end_and_no_further(said: bytes, found: tuple[int, bytes]) -> None:
    assert answers(said) == [found]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"", "the server closed the connection without an answer"),
        (b"HTTP/1.1 200", "the server closed the connection in the middle of its answer"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
            "the server closed the connection in the middle of its answer",
        ),
        (b"SSH-2.0-OpenSSH_9\r\n", "the server's answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok", "the server's answer is not HTTP"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n\x81",
            "the server wants to switch to another protocol",
        ),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000, "the server's answer begins with more than 64 KiB of headers"),
    ],
    ids=[
        "nothing",
        "half a line",
        "half a body",
        "another protocol",
        "two lengths",
        "a web socket",
        "headers without end",
    ],
)
def test_half_an_answer_is_none(said: bytes, told: str) -> None:
    [found] = answers(said)
    assert isinstance(found, str) and found.startswith(told)


ENDLESS = {
    "status line": (b"HTTP/1.1 200 ", b"x" * 5_000),
    "header": (b"HTTP/1.1 200 OK\r\nx: ", b"x" * 5_000),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 1_000),
    "interim responses": (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "interim responses in one piece": (b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 1_000),
    "chunk size": (CHUNKED, b"0" * 5_000),
    "chunk extension": (CHUNKED + b"2;", b"x" * 5_000),
    "trailer": (CHUNKED + b"2\r\nok\r\n0\r\nx-after: ", b"x" * 5_000),
    "trailers": (CHUNKED + b"2\r\nok\r\n0\r\n", b"x-after: y\r\n" * 500),
    "trailers in one piece": (CHUNKED + b"2\r\nok\r\n0\r\n" + b"x-after: y\r\n" * 20_000, b""),
    "headers of one piece": (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000 + b"\r\n", b""),
}


@pytest.mark.parametrize("part", ENDLESS)
def test_no_part_of_an_answer_goes_on_without_end(part: str) -> None:
    first, more = ENDLESS[part]
    hung_up: list[bool] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(first)
        with suppress(ConnectionError):
            while more:
                writer.write(more)
                await writer.drain()
                await asyncio.sleep(0)
            await reader.read()
        hung_up.append(True)

    async def main() -> None:
        async with asyncio.timeout(60), serving(serve) as place, connections() as open_ones:
            with pytest.raises(BrokenResponse, match=r"more than (64 KiB|20 interim responses)|not HTTP"):
                await ask(open_ones, f"http://{place}/")
            while not hung_up:
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_connection_that_was_closed_while_it_rested_costs_nothing() -> None:
    async def main() -> tuple[list[tuple[int, bytes]], int]:
        made = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal made
            made += 1
            await read_request(reader)
            writer.write(OK)
            await writer.drain()
            if made == 1:
                await reader.readexactly(1)  # the next request is there, and is not answered

        async with asyncio.timeout(30), serving(serve) as place, connections() as open_ones:
            return [await ask(open_ones, f"http://{place}/", b"x" * 300_000) for _ in range(3)], made

    assert asyncio.run(main()) == ([(200, b"ok")] * 3, 3)


def test_an_answer_that_we_cut_off_is_not_taken_for_a_whole_one() -> None:
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nuntil the")
            await reader.read()

        async with asyncio.timeout(10), serving(serve) as place, connections() as open_ones:
            answer = await open_ones.post(f"http://{place}/", {"content-length": "0"}, [])
            assert await answer.read() == b"until the"
            await open_ones.close()
            await answer.read()

    with pytest.raises(BrokenResponse, match="in the middle of its answer"):
        asyncio.run(main())


def test_what_is_sent_once_is_not_asked_twice() -> None:
    """On a fresh connection a request that got no answer may have been heard."""
    assert answers(b"", OK) == ["the server closed the connection without an answer", (200, b"ok")]


def test_a_long_request_waits_for_a_slow_reader_and_arrives_whole() -> None:
    body = [bytes([65 + number % 26]) * 50_000 for number in range(200)]

    async def main() -> tuple[bool, int]:
        heard = b""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal heard
            await asyncio.sleep(0.05)
            heard = (await read_request(reader))[1]
            writer.write(OK)

        async with asyncio.timeout(30), serving(serve) as place, connections() as open_ones:
            given = list(body)
            size = str(sum(map(len, body)))
            answer = await open_ones.post(f"http://{place}/", {"content-length": size}, given)
            answer.drop()
        return heard == b"".join(body), len(given)

    assert asyncio.run(main()) == (True, 0)


def test_a_server_that_refuses_a_long_request_early_is_heard() -> None:
    async def main() -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(60)

        async with asyncio.timeout(30), serving(serve) as place, connections() as open_ones:
            body = [b"x" * 100_000 for _ in range(500)]
            answer = await open_ones.post(f"http://{place}/", {"content-length": "50000000"}, body)
            answer.drop()
            return answer.status

    assert asyncio.run(main()) == 413


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    folder = tmp_path_factory.mktemp("certificate")
    wishes = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=lab -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(
        ["openssl", *wishes.split(), "-keyout", folder / "key.pem", "-out", folder / "it.pem"],
        check=True,
        capture_output=True,
    )
    return folder


def contexts(certificate: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For a server, and for those who trust it."""
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    theirs.load_cert_chain(certificate / "it.pem", certificate / "key.pem")
    return theirs, ssl.create_default_context(cafile=str(certificate / "it.pem"))


REFUSAL = b"HTTP/1.1 413 Too Large\r\ncontent-length: 9\r\nconnection: close\r\n\r\ntoo large"


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("how", ["refuses and hangs up", "hangs up", "says that nothing will come"])
def test_a_long_request_that_the_server_stops_reading_is_not_sent_completely(
    secure: bool, how: str, certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(1_000_000)
        if how == "refuses and hangs up":
            writer.write(REFUSAL)
            await writer.drain()
        elif how == "says that nothing will come" and writer.can_write_eof():
            writer.write_eof()
            await reader.read(2_000_000)

    async def main() -> list[tuple[int, bytes] | str]:
        theirs, ours = contexts(certificate) if secure else (None, None)
        found: list[tuple[int, bytes] | str] = []
        async with asyncio.timeout(30), serving(serve, theirs) as place, connections(ours) as open_ones:
            for _ in range(5):
                body = [b"x" * 100_000 for _ in range(300)]
                try:
                    url = f"{'https' if secure else 'http'}://{place}/"
                    answer = await open_ones.post(url, {"content-length": "30000000"}, body)
                    found.append((answer.status, await answer.read()))
                    answer.finish()
                except BrokenResponse as error:
                    found.append(str(error))
                assert body
        return found

    refused = (413, b"too large")
    unheard = "the server closed the connection without an answer"
    assert asyncio.run(main()) == [refused if how == "refuses and hangs up" else unheard] * 5
    assert caplog.messages == []  # a word of asyncio's for every portion that went to nobody


def test_a_server_that_is_faster_than_its_reader_waits() -> None:
    async def main() -> int:
        sent = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while sent < 200_000_000:
                writer.write(b"x" * 100_000)
                await writer.drain()
                sent += 100_000

        async with asyncio.timeout(30), serving(serve) as place, connections() as open_ones:
            answer = await open_ones.post(f"http://{place}/", {"content-length": "0"}, [])
            before = -1
            while not sent or before != sent:  # until it has to wait
                before = sent
                await asyncio.sleep(0.1)
            held = len(answer.take())
            assert await answer.read()
            answer.drop()
        return held

    assert 0 < asyncio.run(main()) < 3 * MAX_BUFFERED_BYTES


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("/a b/ü?q=ä#part", "POST /a%20b/%C3%BC?q=%C3%A4 HTTP/1.1"),
        ("?x=1&y=%2F", "POST /?x=1&y=%2F HTTP/1.1"),
    ],
)
def test_an_address_is_written_as_servers_want_it(address: str, line: str) -> None:
    async def main() -> list[str]:
        lines: list[str] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            lines.extend((await read_request(reader))[0])
            writer.write(OK)

        async with asyncio.timeout(30), serving(serve) as place, connections() as open_ones:
            await ask(open_ones, f"http://me:p%40ss@{place}{address}")
            assert f"host: {place}" in lines
        return lines

    lines = asyncio.run(main())
    assert lines[0] == line and "authorization: Basic bWU6cEBzcw==" in lines


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


def test_a_secure_server_is_reached_through_a_proxy_and_kept(certificate: Path) -> None:
    theirs, ours = contexts(certificate)
    heads: list[list[str]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(OK)

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await read_request(reader))[0])
        host, _, port = heads[-1][0].split()[1].partition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as both:
            both.create_task(carry(reader, back))
            both.create_task(carry(there, writer))

    async def main() -> list[tuple[int, bytes]]:
        async with asyncio.timeout(30), serving(serve, theirs) as place, serving(proxy) as way:
            async with connections(ours) as open_ones:
                found = [await ask(open_ones, f"https://{place}/", proxy=f"http://user:word@{way}") for _ in range(2)]
            assert heads[0][:3] == [
                f"CONNECT {place} HTTP/1.1",
                f"host: {place}",
                "proxy-authorization: Basic dXNlcjp3b3Jk",
            ]
            return found

    assert asyncio.run(main()) == [(200, b"ok")] * 2
    assert len(heads) == 1


def test_a_certificate_that_is_shown_behind_a_secure_proxy_is_checked(certificate: Path) -> None:
    theirs, ours = contexts(certificate)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        async with asyncio.timeout(10), serving(serve, theirs) as place, serving(proxy, theirs) as way:
            where.append(int(place.partition(":")[2]))
            async with connections(ours) as open_ones:
                await ask(open_ones, "https://model.example/", proxy=f"https://{way}")

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        there, back = await asyncio.open_connection("127.0.0.1", where[0])
        writer.write(b"HTTP/1.1 204 As you like\r\n\r\n")
        async with asyncio.TaskGroup() as both:
            both.create_task(carry(reader, back))
            both.create_task(carry(there, writer))

    where: list[int] = []
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'model\.example'"):
        asyncio.run(main())


@pytest.mark.parametrize("secure_proxy", [False, True], ids=["plain proxy", "TLS proxy"])
@pytest.mark.parametrize("does", ["sends no TLS", "sends no TLS later", "hangs up", "hangs up later", "says nothing"])
def test_a_handshake_that_fails_behind_a_proxy_ends_with_a_network_error(
    certificate: Path, secure_proxy: bool, does: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = contexts(certificate)

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 204 As you like\r\n\r\n")
        if does.endswith("later"):
            await reader.read(10)
        if does.startswith("sends"):
            writer.write(b"this is not TLS" * 100)
        if not does.startswith("hangs"):
            await reader.read()

    async def main() -> None:
        context, kind = (theirs, "https") if secure_proxy else (None, "http")
        async with asyncio.timeout(60), serving(proxy, context) as way, connections(ours) as open_ones:
            await ask(open_ones, "https://model.example/", proxy=f"{kind}://{way}")

    if does == "says nothing":
        monkeypatch.setattr("tau.llm.http_connection.HANDSHAKE_TIMEOUT_S", 0.2)
    with pytest.raises(OSError) as failed:
        asyncio.run(main())
    assert not isinstance(failed.value, TimeoutError) and str(failed.value)
    if does == "says nothing":
        assert "through the proxy did not end within 0.2 s" in str(failed.value)


def test_a_proxy_may_refuse() -> None:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n")

    async def main() -> None:
        async with asyncio.timeout(30), serving(proxy) as way, connections() as open_ones:
            await ask(open_ones, "https://model.example/", proxy=f"http://{way}")

    with pytest.raises(ProxyRefused, match="the proxy answered 407 Who are you"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("http://", {}),
        ("file:///etc/passwd", {}),
        ("http://model.example:port/", {}),
        ("http://127.0.0.1/", {"x": "a\r\nb: c"}),
        ("http://127.0.0.1/", {"a b": "c"}),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anybody_is(url: str, headers: dict[str, str]) -> None:
    async def main() -> None:
        async with connections() as open_ones:
            await open_ones.post(url, headers, [])

    with pytest.raises(ValueError):
        asyncio.run(main())


@pytest.mark.parametrize(
    "said",
    [OK, OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), b"HTTP/1.1 200 OK\r\n\r\nok", b"", b"HTTP/1.1 200"],
    ids=["kept", "closed", "until the end", "nothing", "half"],
)
def test_many_calls_leave_nothing_behind(said: bytes) -> None:
    """No line that is closed is remembered, and no clock runs for one that was taken from its rest."""

    def clocks() -> int:
        scheduled: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        return sum(not timer.cancelled() for timer in scheduled)

    async def main() -> tuple[int, int]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while not writer.is_closing():
                await read_request(reader)
                writer.write(said)
                if said != OK:
                    return

        async with asyncio.timeout(20), serving(serve) as place, connections() as open_ones:
            before = clocks()
            for _ in range(50):
                with suppress(BrokenResponse):
                    await ask(open_ones, f"http://{place}/")
            for _ in range(3):  # the loop closes them in its next turns
                await asyncio.sleep(0)
            return len(open_ones._open), clocks() - before

    assert asyncio.run(main()) == ((1, 1) if said == OK else (0, 0))


def test_the_zone_of_an_address_is_for_us_and_not_for_the_server() -> None:
    async def main() -> tuple[list[str], str]:
        lines: list[str] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            lines.extend((await read_request(reader))[0])
            writer.write(OK)
            writer.close()

        server = await asyncio.start_server(serve, "::1", 0)
        port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(10), server, connections() as open_ones:
            await ask(open_ones, f"http://[::1%251]:{port}/")
        return lines, f"host: [::1]:{port}"

    try:
        socket.getaddrinfo("::1%1", 80)
    except OSError:
        pytest.skip("no IPv6 here")
    lines, host = asyncio.run(main())
    assert host in lines


def test_connections_outlive_the_loop_that_they_were_made_in() -> None:
    """What rests there is of no use in the next loop, nor in a process that was forked meanwhile."""

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.wfile.write(OK)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    open_ones = ConnectionPool(ssl.create_default_context)

    async def main() -> tuple[int, bytes]:
        async with asyncio.timeout(10):
            return await ask(open_ones, f"http://127.0.0.1:{server.server_port}/", b"")

    loops = [asyncio.new_event_loop() for _ in range(2)]  # which are not closed: nobody closes what rests
    try:
        assert [loop.run_until_complete(main()) for loop in loops] == [(200, b"ok")] * 2
        for loop in loops:
            loop.run_until_complete(open_ones.close())
    finally:
        for loop in loops:
            loop.close()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection_is_reported_in_words(host: str) -> None:
    async def main() -> None:
        async with serving(nobody) as place:
            port = place.partition(":")[2]
        async with asyncio.timeout(10), connections() as open_ones:
            await ask(open_ones, f"http://{host}:{port}/")

    async def nobody(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...

    with pytest.raises(ConnectionError, match=rf"^cannot connect to {host}:\d+: Connection refused$"):
        asyncio.run(main())
