"""The limits that uvicorn does not have, with real sockets: decision 11 has the table."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from serve.raw_client import ask, listening, read_to_end, request, send
from tau.serve.web.bodies import BODY_GRACE_S, MIN_BYTES_PER_S, BadBody, deadline, read_body
from tau.serve.web.connections import EXTENSION, MAX_UNPROVED, PROOF_GRACE_S, ConnectionTable


async def echo(scope: Any, receive: Any, respond: Any) -> None:
    """Answers with the path; proves connections that ask for /prove; WebSockets get their text back."""
    if scope["type"] == "websocket":
        await receive()
        await respond({"type": "websocket.accept", "subprotocol": "tau.v1"})
        while (message := await receive())["type"] == "websocket.receive":
            if message.get("text") == "much":
                await respond({"type": "websocket.send", "text": "x" * 20_000_000})
                continue
            if message.get("text") == "prove":
                scope["extensions"][EXTENSION].prove("one")
            await respond({"type": "websocket.send", "text": str(len(message.get("text") or ""))})
        return
    if scope["path"] == "/prove":
        scope["extensions"][EXTENSION].prove("one")
    body = scope["path"].encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await respond({"type": "http.response.start", "status": 200, "headers": headers})
    await respond({"type": "http.response.body", "body": body})


def status(answer: bytes) -> bytes:
    return answer[9:12]


def test_a_request_is_answered_and_the_connection_is_kept() -> None:
    async def run() -> None:
        async with listening(echo) as (port, _):
            assert status(await ask(port, request("GET", "/a", port))) == b"200"
            two = request("GET", "/a", port).replace(b"Connection: close\r\n", b"") + request("GET", "/b", port)
            answer = await ask(port, two)
            assert (answer.count(b"200 OK"), answer[-2:]) == (2, b"/b")

    asyncio.run(run())


def test_no_write_waits_until_the_one_before_is_acknowledged() -> None:
    async def run() -> None:
        async with listening(echo) as (port, listener):
            reader, _ = await send(port, request("GET", "/a", port).replace(b"Connection: close\r\n", b""))
            await reader.readuntil(b"\r\n\r\n/a")
            [connection] = listener._state.connections
            found = connection.transport.get_extra_info("socket")
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    asyncio.run(run())


@pytest.mark.promise("N04")
@pytest.mark.parametrize(
    "half", [b"", b"G", b"GET /a HTTP/1.1\r\nHost: x\r\n", b"GET /a HTTP/1.1\r\nHost: x\r\nX: y"], ids=repr
)
def test_a_head_that_does_not_end_is_closed(half: bytes) -> None:
    async def run() -> None:
        async with listening(echo, head_timeout_s=0.2) as (port, _):
            assert status(await ask(port, half)) == b"408"

    asyncio.run(run())


@pytest.mark.promise("N04")
def test_the_second_head_of_a_connection_has_a_deadline_too() -> None:
    async def run() -> None:
        async with listening(echo, head_timeout_s=0.2) as (port, _):
            answer = await ask(port, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\n")
            assert b"/aHTTP/1.1 408" in answer

    asyncio.run(run())


@pytest.mark.promise("N04")
@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        (b"GET /a HTTP/1.1\r\nX: " + b"y" * 16_500, b"431"),  # it need not end
        (b"GET /" + b"a" * 16_500, b"431"),
        (b"GET /a HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 16_500 + b"\r\n\r\n", b"431"),
        (b"GET /a HTTP/1.1\r\n" + b"X: y\r\n" * 65 + b"\r\n", b"431"),
        (b"GET http://127.0.0.1/a HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET http://evil.example/a HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"CONNECT evil.example:80 HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", b"400"),
        (b"GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (b"GET /a HTTP/9.9\r\nHost: x\r\n\r\n", b"400"),
        (b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"400"),
    ],
    ids=lambda value: value[:30],
)
def test_a_bad_head_is_refused(head: bytes, wanted: bytes) -> None:
    async def run() -> None:
        async with listening(echo, head_timeout_s=5) as (port, _):
            assert status(await ask(port, head)) == wanted

    asyncio.run(run())


@pytest.mark.promise("N04")
def test_the_oldest_connection_without_a_credential_makes_room() -> None:
    async def run() -> None:
        table = ConnectionTable(max_unproved=0, max_new=3)
        async with listening(echo, table=table) as (port, _):
            proved = [await _proved(port) for _ in range(2)]
            half = [await send(port, b"GET /") for _ in range(3)]
            await _until(lambda: len(table) == 5)
            for reader, _writer in half:
                await send(port, b"GET /")
                assert await read_to_end(reader) == b""
            assert status(await ask(port, request("GET", "/a", port))) == b"200"
            for reader, writer in proved:
                writer.write(request("GET", "/b", port))
                assert (await reader.read()).endswith(b"/b")
            assert table.closed == {"unproved": 4}

    asyncio.run(run())


@pytest.mark.promise("N04")
def test_clients_with_a_token_that_connect_at_once_are_all_served() -> None:
    """The event loop has accepted many of them before it reads the first token."""

    async def run() -> None:
        async with listening(echo) as (port, listener):
            silent = [await send(port, b"GET /") for _ in range(MAX_UNPROVED)]
            data = request("GET", "/prove", port).replace(b"Connection: close\r\n", b"")
            clients = await asyncio.gather(*(send(port, data) for _ in range(300)))
            for reader, _ in clients:
                assert (await reader.readuntil(b"/prove"))[9:12] == b"200"
            assert listener.connections.counts == {"no": len(silent), "yes": len(clients)}
            assert not listener.connections.closed

    asyncio.run(run())


class Connected:
    """A connection in a table that no socket belongs to."""

    open = True

    def abort(self) -> None:
        self.open = False


@pytest.mark.promise("N04")
def test_a_new_connection_has_time_to_show_its_credential(caplog: pytest.LogCaptureFixture) -> None:
    table, old, new = ConnectionTable(max_unproved=2, max_new=10), *([Connected() for _ in range(5)] for _ in "ab")
    for one in old:
        table.add(one, 100.0)
    table.add(new[0], 100.0 + PROOF_GRACE_S)
    assert all(one.open for one in (*old, new[0]))  # none is late
    table.prove(old[0], "one")
    for one in new[1:]:
        table.add(one, 101.0 + PROOF_GRACE_S)
    assert [one.open for one in old] == [True, False, False, False, False]  # with its credential it is safe
    assert all(one.open for one in new)  # though they are more than two: they are new
    for _ in range(5):
        table.add(Connected(), 101.0 + PROOF_GRACE_S)
    assert all(one.open for one in new)
    table.add(Connected(), 101.0 + PROOF_GRACE_S)
    assert [one.open for one in new] == [False, True, True, True, True]  # more than ten
    assert table.closed == {"unproved": 5}
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "too many connections without a credential"
    ]


def test_a_websocket_has_that_time_again_after_its_upgrade() -> None:
    table, first, upgraded = ConnectionTable(max_unproved=0), Connected(), Connected()
    table.add(first, 0.0)
    table.replace(first, upgraded, 2.0)
    table.add(Connected(), 2.0 + PROOF_GRACE_S)
    assert upgraded.open and table.counts == {"no": 2, "yes": 0}


def test_the_log_has_one_line_a_minute_for_closed_connections(caplog: pytest.LogCaptureFixture) -> None:
    table = ConnectionTable(max_unproved=0, max_new=1)
    for second in range(150):
        table.add(Connected(), float(second))
    assert table.closed == {"unproved": 149}
    assert len(caplog.records) == 3


@pytest.mark.promise("N04")
def test_connections_are_limited() -> None:
    async def run() -> None:
        table = ConnectionTable(max_connections=2)
        async with listening(echo, table=table) as (port, _):
            proved = [await _proved(port) for _ in range(2)]
            assert table.full
            assert await ask(port, request("GET", "/a", port)) == b""
            proved[0][1].close()
            await _until(lambda: not table.full)
            assert status(await ask(port, request("GET", "/a", port))) == b"200"

    asyncio.run(run())


async def _proved(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await send(port, request("GET", "/prove", port).replace(b"Connection: close\r\n", b""))
    await reader.readuntil(b"/prove")
    return reader, writer


async def _until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


def _connect(port: int, **options: Any) -> connect:
    return connect(f"ws://127.0.0.1:{port}/v1/ws", subprotocols=["tau.v1"], proxy=None, **options)  # type: ignore[list-item]


@pytest.mark.promise("N05")
def test_a_message_is_limited_to_16_kib_until_the_client_is_known() -> None:
    async def run() -> None:
        async with listening(echo) as (port, _):
            async with _connect(port) as client:
                await client.send("x" * 16_384)
                assert await client.recv() == "16384"
                await client.send("x" * 16_385)
                assert await _code(client) == 1009
            async with _connect(port) as client:
                await client.send("prove")
                await client.recv()
                await client.send("x" * 1_000_000)
                assert await client.recv() == "1000000"

    asyncio.run(run())


@pytest.mark.promise("N05")
@pytest.mark.parametrize("size", [8 * 1024 * 1024, 0], ids=["large fragments", "empty fragments"])
def test_a_message_without_end_is_closed(size: int) -> None:
    async def run() -> None:
        async with listening(echo) as (port, _), _connect(port) as client:
            await client.send("prove")
            await client.recv()

            async def fragments() -> Any:
                part = "x" * size
                while True:
                    yield part
                    await asyncio.sleep(0)

            with pytest.raises(ConnectionClosed):
                async with asyncio.timeout(30):
                    await client.send(fragments())
            assert client.close_code == 1009

    asyncio.run(run())


@pytest.mark.promise("N05")
def test_pings_of_a_client_that_does_not_read_are_not_answered_without_end() -> None:
    async def run() -> None:
        async with listening(echo) as (port, listener):
            head = request("GET", "/v1/ws", port, "Upgrade: websocket", "Sec-WebSocket-Version: 13")
            head = head.replace(b"Connection: close", b"Connection: Upgrade")
            head = head[:-2] + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: tau.v1\r\n\r\n"
            reader, writer = await send(port, head)
            assert b"101 Switching" in await reader.readuntil(b"\r\n\r\n")
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            ping = b"\x89\xfd\0\0\0\0" + bytes(125)
            for _ in range(64):
                writer.write(ping * 1000)
                await writer.drain()
            writer.write(b"\x81\x85\0\0\0\0prove")
            (connection,) = listener._state.connections
            async with asyncio.timeout(30):
                while connection not in listener.connections._proved:
                    await asyncio.sleep(0.005)
            assert connection.transport.get_write_buffer_size() < 1_000_000

    asyncio.run(run())


@pytest.mark.promise("N05")
def test_a_frame_that_claims_100_mb_is_refused_at_its_header() -> None:
    async def run() -> None:
        async with listening(echo) as (port, _):
            head = request("GET", "/v1/ws", port, "Upgrade: websocket", "Sec-WebSocket-Version: 13")
            head = head.replace(b"Connection: close", b"Connection: Upgrade")
            head = head[:-2] + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: tau.v1\r\n\r\n"
            reader, writer = await send(port, head)
            assert b"101 Switching" in await reader.readuntil(b"\r\n\r\n")
            writer.write(b"\x81\xff" + (100_000_000).to_bytes(8, "big") + b"mask")
            assert (await reader.read())[:4].hex()[:2] == "88"
            writer.close()

    asyncio.run(run())


def test_text_that_is_not_utf8_closes_the_connection_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with listening(echo) as (port, _), _connect(port) as client:
            await client.send(b"\xff\xfe", text=True)
            assert await _code(client) == 1007

    asyncio.run(run())
    assert [record for record in caplog.records if record.exc_info] == []


async def _code(client: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed):
        while True:
            await client.recv()
    return client.close_code


def test_closing_the_listener_ends_all_connections() -> None:
    async def run() -> None:
        async with listening(echo) as (port, listener):
            kept = await send(port, request("GET", "/a", port).replace(b"Connection: close\r\n", b""))
            await kept[0].readuntil(b"/a")
            client = await _connect(port)
            await listener.close()
            assert await read_to_end(kept[0]) == b""
            await _code(client)

    asyncio.run(run())


def test_a_slow_body_has_a_deadline() -> None:
    assert deadline(100.0, 0) == 100.0 + BODY_GRACE_S
    assert deadline(100.0, MIN_BYTES_PER_S * 5) == 100.0 + BODY_GRACE_S + 5


def test_a_body_is_read_up_to_its_limit() -> None:
    def source(*parts: bytes) -> Any:
        left = list(parts)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

        return receive

    assert asyncio.run(read_body(source(b"ab", b"", b"c"), 3)) == b"abc"
    with pytest.raises(BadBody):
        asyncio.run(read_body(source(b"ab", b"", b"cd"), 3))


@pytest.mark.promise("N04")
def test_a_websocket_that_answers_no_ping_is_closed() -> None:
    async def run() -> None:
        async with listening(echo, ping_interval_s=0.2) as (port, _):
            client = await _connect(port)
            head = request("GET", "/v1/ws", port, "Upgrade: websocket", "Sec-WebSocket-Version: 13")
            head = head.replace(b"Connection: close", b"Connection: Upgrade")
            head = head[:-2] + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: tau.v1\r\n\r\n"
            silent, _ = await send(port, head)
            await silent.readuntil(b"\r\n\r\n")
            received = await read_to_end(silent)  # pings, and the end
            assert received.startswith(b"\x89\x00\x88") and b"\x03\xf3" in received  # 1011
            await client.send("still here")  # this one has answered its pings
            assert await client.recv() == "10"
            await client.close()

    asyncio.run(run())


def test_a_websocket_that_is_half_closed_does_not_disturb_the_end() -> None:
    """Its client has sent a close frame, but does not read what was sent before."""

    async def run() -> None:
        async with listening(echo) as (port, listener):
            head = request("GET", "/v1/ws", port, "Upgrade: websocket", "Sec-WebSocket-Version: 13")
            head = head.replace(b"Connection: close", b"Connection: Upgrade")
            head = head[:-2] + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: tau.v1\r\n\r\n"
            reader, writer = await send(port, head)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"\x81\x84\x00\x00\x00\x00much")  # masked with zeros
            await reader.readexactly(1000)
            writer.write(b"\x88\x80\x00\x00\x00\x00")
            other = await _connect(port)
            await other.send("hello")
            assert await other.recv() == "5"
            await listener.close()
            with pytest.raises(ConnectionClosed):
                await other.recv()

    asyncio.run(run())
