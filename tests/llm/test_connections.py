"""What a server may do to a connection, and what comes of it."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tau.llm.connections import HELD_LIMIT, Broken, Connections, ProxyRefused

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
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
async def connections(context: ssl.SSLContext | None = None) -> AsyncIterator[Connections]:
    made = Connections(lambda: context or ssl.create_default_context())
    try:
        yield made
    finally:
        await made.close()


async def ask(open_ones: Connections, url: str, body: bytes = b"{}", proxy: str | None = None) -> tuple[int, bytes]:
    answer = await open_ones.post(url, {"content-length": str(len(body))}, [body], proxy=proxy, connect=5)
    portions = []
    while portion := await answer.read():
        portions.append(portion)
    answer.done()
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
                except Broken as error:
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
        (OK + OK, (200, b"ok")),
        (OK + b"rubbish", (200, b"ok")),
    ],
    ids=[
        "sized",
        "until the end",
        "words in between",
        "no body",
        "chunks with a trailer",
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
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000, "the server's answer begins with more than 64 KiB of headers"),
    ],
    ids=["nothing", "half a line", "half a body", "another protocol", "two lengths", "headers without end"],
)
def test_half_an_answer_is_none(said: bytes, told: str) -> None:
    [found] = answers(said)
    assert isinstance(found, str) and found.startswith(told)


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
            held = len(answer.taken())
            assert await answer.read()
            answer.drop()
        return held

    assert 0 < asyncio.run(main()) < 3 * HELD_LIMIT


@pytest.mark.parametrize(
    ("address", "line", "fields"),
    [
        ("/a b/ü?q=ä#part", "POST /a%20b/%C3%BC?q=%C3%A4 HTTP/1.1", []),
        ("?x=1&y=%2F", "POST /?x=1&y=%2F HTTP/1.1", []),
    ],
)
def test_an_address_is_written_as_servers_want_it(address: str, line: str, fields: list[str]) -> None:
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


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


def test_a_secure_server_is_reached_through_a_proxy_and_kept(certificate: Path) -> None:
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    theirs.load_cert_chain(certificate / "it.pem", certificate / "key.pem")
    ours = ssl.create_default_context(cafile=str(certificate / "it.pem"))
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
