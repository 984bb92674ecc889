from __future__ import annotations

import asyncio
import email.utils
import gzip
import shutil
import socket
import ssl
import subprocess
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.virtual_clock import Clock, played
from tau.core.checks.secrets import header_secrets, mask_secrets
from tau.core.models.failures import classify
from tau.errors import ModelError
from tau.llm.http import MAX_RESPONSE_BYTES, Http, retry_after_ms
from tau.llm.types import ModelRequest
from tau.records.base import parse

pytestmark = pytest.mark.process

KEY = "sk-very-secret-key"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of a real server on this machine; each connection is one request, handed to `serve`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/messages"
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *fields = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    return line, headers, parse(await reader.readexactly(int(headers["content-length"])))


def serve_portions(*portions: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for portion in portions:
            writer.write(portion)
            await writer.drain()

    return serve


def refusing(status: str, body: bytes = b"", *headers: str) -> Serve:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    return serve_portions("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


async def posted(
    serve: Serve,
    *,
    idle: float = 30,
    connect: float = 30,
    first_byte: float | None = None,
    headers: dict[str, str] | None = None,
) -> list[bytes]:
    """The portions of an answer, or the ModelError it ends with."""
    async with serving(serve) as url:
        http = Http(idle, connect, first_byte)
        try:
            request = ModelRequest(url, headers or {"x-api-key": KEY}, {"model": "m", "text": "\ud800é"})
            return [portion async for portion in http.post(request)]
        finally:
            await http.close()


def post(serve: Serve, **options: Any) -> list[bytes]:
    return asyncio.run(posted(serve, **options))


def error(serve: Serve, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        post(serve, **options)
    return caught.value


def test_the_bytes_come_as_the_server_sends_them() -> None:
    assert b"".join(post(serve_portions(STREAM, b"data: 1\n\n", b"data: 2\n\n"))) == b"data: 1\n\ndata: 2\n\n"


def test_bytes_are_given_before_the_answer_is_over() -> None:
    async def main() -> None:
        got_it = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(STREAM + b"first")
            await writer.drain()
            await got_it.wait()
            writer.write(b"second")

        async with asyncio.timeout(30), serving(serve) as url:
            portions = []
            http = Http()
            async for portion in http.post(ModelRequest(url, {}, {})):
                portions.append(portion)
                got_it.set()
            await http.close()
        assert portions == [b"first", b"second"]

    asyncio.run(main())


def test_the_request_is_json_and_wants_no_compression() -> None:
    seen: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend(await read_request(reader))
        writer.write(STREAM)

    post(serve)
    line, headers, body = seen
    assert line == "POST /v1/messages HTTP/1.1"
    assert body == {"model": "m", "text": "\ud800é"}
    wanted = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
    assert {name: headers[name] for name in (*wanted, "x-api-key")} == {**wanted, "x-api-key": KEY}


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        ("400 Bad", b'{"error": {"message": "no \\u00fc"}}', '400 {"error":{"message":"no ü"}}'),
        ("401 Unauthorized", b"no key\n", "401 no key"),
        ("404 Not Found", b"<html>nginx</html>", "404 <html>nginx</html>"),
        ("429 Slow", b"", "429 status code (no body)"),
        ("500 Oops", b"\xff\xfe", "500 \ufffd\ufffd"),
        ("529 Over", b'{"type":"error"}', '529 {"type":"error"}'),
        ("302 Found", b"elsewhere", "302 elsewhere"),
    ],
)
def test_any_status_of_failure_is_reported_with_its_number_and_body(status: str, body: bytes, text: str) -> None:
    found = error(refusing(status, body))
    assert (str(found), found.status, found.retry_after_ms) == (text, int(status[:3]), None)


@pytest.mark.parametrize(
    ("there", "shown"),
    [
        ("https://other.example/v2", "https://other.example/v2"),
        ("//me:word@other.example/?key=abc", "http://***@other.example/?key=***"),
        ("v2", "http://127.0.0.1:{port}/v1/v2"),
    ],
)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_where_a_server_points_to_is_reported_and_not_followed(status: int, there: str, shown: str) -> None:
    ports: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.append(writer.get_extra_info("sockname")[1])
        await refusing(f"{status} Moved", b"", f"Location: {there}")(reader, writer)

    found = error(serve)
    where = shown.format(port=ports[0])
    assert str(found) == f"{status} The server points to {where}, which tau does not follow: status code (no body)"
    assert (len(ports), classify(str(found)).is_transient) == (1, False)


@pytest.mark.promise("E15")
@pytest.mark.parametrize("size", [5_000, 1_000_000])
@pytest.mark.parametrize("character", ["x", "é"])
def test_an_error_text_is_cut_to_4_kib(size: int, character: str) -> None:
    text = str(error(refusing("500 Oops", character.encode() * size)))
    assert text.startswith(f"500 {character * 1000}")
    assert len(text.encode()) <= 4096


@pytest.mark.promise("G12")
@pytest.mark.parametrize("header", ["x-api-key", "Authorization", "api-key"])
def test_our_own_key_is_never_shown(header: str) -> None:
    value = f"Bearer {KEY}" if header == "Authorization" else KEY
    body = f'{{"error":"invalid key {KEY}, really: {value}"}}'.encode()
    text = str(error(refusing("401 No", body), headers={header: value}))
    assert KEY not in text
    assert "***" in text


def test_a_key_at_the_edge_of_the_cut_is_not_shown_in_part() -> None:
    text = str(error(refusing("401 No", b"x" * 4085 + KEY.encode())))
    assert KEY[:5] not in text


def test_masking_leaves_short_values_and_other_headers_alone() -> None:
    assert (
        mask_secrets("a b tau-agent", header_secrets({"x-api-key": "a", "user-agent": "tau-agent"})) == "a b tau-agent"
    )


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "TEXT/HTML", "text/plain"])
@pytest.mark.parametrize("page", ["<html>", "Please log in: ...", ""])
def test_a_page_is_no_answer(kind: str, page: str) -> None:
    found = error(serve_portions(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n{page}".encode()))
    assert str(found).startswith("The model server answered with text/")
    assert found.transient is False


@pytest.mark.parametrize("kind", ["text/plain; charset=utf-8", "text/html"])
@pytest.mark.parametrize(
    "stream", [b"data: 1\n\n", b"event: x\ndata: 1\n\n", b": hello\n\n", b"\n\ndata:1\n\n", b"\xef\xbb\xbfid: 1\n"]
)
def test_a_stream_of_events_is_one_whatever_its_type(kind: str, stream: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n".encode()
    assert b"".join(post(serve_portions(head, stream))) == stream
    pieces = [b"4\r\n" + stream[:4] + b"\r\n", b"%x\r\n" % len(stream[4:]) + stream[4:] + b"\r\n0\r\n\r\n"]
    chunked = head.replace(b"\r\n\r\n", b"\r\ntransfer-encoding: chunked\r\n\r\n")
    assert b"".join(post(serve_portions(chunked, *pieces))) == stream


@pytest.mark.parametrize("status", ["201 Created", "202 Accepted", "206 Partial Content", "299 Fine"])
def test_every_status_of_success_has_an_answer(status: str) -> None:
    assert post(serve_portions(f"HTTP/1.1 {status}\r\n\r\ndata: 1\n\n".encode())) == [b"data: 1\n\n"]


def test_an_answer_without_a_body_is_an_error() -> None:
    assert str(error(serve_portions(b"HTTP/1.1 204 No Content\r\n\r\n"))) == "204 status code (no body)"


def test_a_server_without_a_content_type_is_believed() -> None:
    assert post(serve_portions(b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n")) == [b"data: 1\n\n"]


def test_a_server_that_falls_silent_is_left() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + b"data: 1\n\n")
        await reader.read()  # the request, and then until the client hangs up

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    for server in (serve, silent):
        found = error(server, idle=0.1)
        assert str(found) == "The model server sent nothing for 0.1 s (timed out)."
        assert found.transient is True


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "portions",
    [[], [b"HTTP/1.1 200"], [b"rubbish\r\n\r\n"], [CHUNKED], [CHUNKED, b"5\r\nhel"], [CHUNKED, b"zz\r\n"]],
    ids=["nothing", "half a status", "rubbish", "no chunk", "half a chunk", "no length"],
)
def test_a_connection_that_breaks_off_may_work_next_time(portions: list[bytes]) -> None:
    found = error(serve_portions(*portions))
    assert str(found).startswith("Connection error: ")
    assert found.transient is True


def test_a_refused_connection_is_transient() -> None:
    async def main() -> None:
        async with serving(serve_portions()) as url:
            pass
        http = Http()
        try:
            async for _ in http.post(ModelRequest(url, {}, {})):
                pass
        finally:
            await http.close()

    with pytest.raises(ModelError, match="Connection error: ") as caught:
        asyncio.run(main())
    assert caught.value.transient is True


@pytest.mark.parametrize("url", ["", "no-address", "ftp://x/", "http://"])
def test_an_address_that_is_none_is_not_retried(url: str) -> None:
    async def main() -> None:
        http = Http(1, 1)
        try:
            async for _ in http.post(ModelRequest(url, {}, {})):
                pass
        finally:
            await http.close()

    with pytest.raises(ModelError) as caught:
        asyncio.run(main())
    assert caught.value.transient is False


def test_one_client_serves_many_requests() -> None:
    async def main() -> list[bytes]:
        async with serving(serve_portions(STREAM, b"data: 1\n\n")) as url:
            http = Http()
            http.preload()
            portions = [portion for _ in range(3) async for portion in http.post(ModelRequest(url, {}, {}))]
            await http.close()
            await http.close()
            return portions

    assert asyncio.run(main()) == [b"data: 1\n\n"] * 3


@pytest.mark.promise("G12")
@pytest.mark.parametrize("login", ["me:word", "me:wo/rd"])
def test_a_password_in_an_address_is_not_shown(login: str) -> None:
    async def main() -> None:
        http = Http(1, 1)
        async for _ in http.post(ModelRequest(f"http://{login}@127.0.0.1:none/v1", {}, {})):
            pass

    with pytest.raises(ModelError) as caught:
        asyncio.run(main())
    what = "its port is not a number from 1 to 65535"
    assert str(caught.value) == f"Bad model server address or header for 'http://***@127.0.0.1:none/v1': {what}"


# Retry-After.


@pytest.mark.parametrize(
    ("headers", "ms"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2000),
        ({"retry-after": " 2 "}, 2000),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "1.5"}, 1500),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Zork, 99 Abc 2026 99:99:99 GMT"}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "750"}, 750),
        ({"retry-after-ms": "750", "retry-after": "2"}, 750),
        ({"retry-after-ms": "-1"}, 0),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after-ms": "inf"}, None),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2000),
    ],
)
def test_how_long_the_server_asks_us_to_wait(headers: dict[str, str], ms: int | None) -> None:
    assert retry_after_ms(headers) == ms


def test_a_date_is_a_time_from_now() -> None:
    found = retry_after_ms({"retry-after": email.utils.formatdate(time.time() + 30, usegmt=True)})
    assert found is not None and 25_000 < found <= 31_000


def test_a_date_without_a_zone_is_not_in_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XYZ+8")
    time.tzset()
    try:
        then = time.gmtime(time.time() + 30)
        for form in ("%a %b %d %H:%M:%S %Y", "%A, %d-%b-%y %H:%M:%S GMT", "%a, %d %b %Y %H:%M:%S -0000"):
            found = retry_after_ms({"retry-after": time.strftime(form, then)})
            assert found is not None and 25_000 < found <= 31_000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_wait_travels_with_the_error() -> None:
    assert error(refusing("429 Slow", b"slow", "Retry-After: 7")).retry_after_ms == 7000


# Deadlines.


def test_the_beginning_of_an_answer_has_a_deadline_of_its_own() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    assert str(error(silent, idle=60, first_byte=0.1)) == "The model server sent nothing for 0.1 s (timed out)."

    async def story(clock: Clock) -> list[bytes]:
        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            clock.let_pass(2)
            writer.write(STREAM)
            await writer.drain()
            await asyncio.sleep(0.001)
            clock.let_pass(2)
            writer.write(b"data: 1\n\n")

        return await posted(slow, idle=1, first_byte=30)

    assert played(story) == [b"data: 1\n\n"]


def test_no_deadline_is_none() -> None:
    assert post(serve_portions(STREAM, b"data: 1\n\n"), idle=0, connect=0, first_byte=0) == [b"data: 1\n\n"]


def test_a_connection_has_a_deadline_too() -> None:
    async def main() -> None:
        with socket.socket() as full, socket.socket() as first, socket.socket() as second:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for waiting in (first, second):  # nobody accepts them, and there is no room for a third
                waiting.setblocking(False)
                waiting.connect_ex(full.getsockname())
            http = Http(30, 0.2)
            try:
                async for _ in http.post(ModelRequest(f"http://127.0.0.1:{full.getsockname()[1]}/", {}, {})):
                    pass
            finally:
                await http.close()

    with pytest.raises(ModelError, match=r"^Connection timed out after 0\.2 s: http://127") as caught:
        asyncio.run(main())
    assert caught.value.transient is True


# What a status means.


@pytest.mark.parametrize(
    ("status", "body", "helps"),
    [
        ("429 Slow", b"slow down", True),
        ("503 Busy", b"", True),
        ("599 Odd", b"", True),
        ("400 Bad", b"at most 500 tokens", False),
        ("401 No", b"bad key", False),
        ("429 Slow", b"insufficient_quota", False),
    ],
)
def test_a_refusal_says_whether_asking_again_may_help(status: str, body: bytes, helps: bool) -> None:
    assert classify(str(error(refusing(status, body)))).is_transient is helps


def test_a_status_counts_even_if_its_body_never_comes() -> None:
    found = error(serve_portions(b"HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\nhalf a"))
    assert (found.status, classify(str(found)).is_transient) == (503, True)


# Headers.


def test_a_header_of_ours_is_replaced_however_it_is_spelled() -> None:
    seen: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).lower())
        writer.write(STREAM)

    post(serve, headers={"User-Agent": "mine"})
    assert (seen[0].count(b"user-agent:"), b"user-agent: mine" in seen[0]) == (1, True)


@pytest.mark.promise("G12")
@pytest.mark.parametrize(
    ("behind", "what"),
    [
        ("\r\nx-evil: 1", "a line break"),
        ("\n", "a line break"),
        ("\u201d", "the character U+201D"),
        ("ключ", "the character U+043A"),
        ("\x1b", "the character U+001B"),
        ("\ud83d", "the character U+D83D"),
    ],
)
def test_a_key_that_cannot_be_sent_is_reported_by_its_header_and_not_retried(behind: str, what: str) -> None:
    found = error(serve_portions(STREAM), headers={"x-api-key": KEY + behind})
    assert found.transient is False
    assert str(found).endswith(f"the header 'x-api-key' contains {what}, which cannot be sent")
    assert KEY not in str(found)


def test_where_a_request_ends_is_not_for_headers_to_say() -> None:
    seen: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend(await read_request(reader))
        writer.write(STREAM)

    post(serve, headers={"Content-Length": "5", "Transfer-Encoding": "chunked", "x-name": "é"})
    _, headers, body = seen
    assert body == {"model": "m", "text": "\ud800é"}
    assert "transfer-encoding" not in headers and headers["x-name"] == "é"


@pytest.mark.parametrize("name", ["x-portkey-api-key", "Cookie", "X-Auth-Token", "proxy-authorization"])
def test_whatever_may_be_a_secret_is_masked(name: str) -> None:
    assert mask_secrets(f"you sent {KEY}", header_secrets({name: KEY})) == "you sent ***"


# Packed answers, which we do not ask for.


def packed(data: bytes, coding: str = "gzip") -> Serve:
    kind = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS, "raw deflate": -zlib.MAX_WBITS}[coding]
    squeeze = zlib.compressobj(wbits=kind)
    body = squeeze.compress(data) + squeeze.flush()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: {coding.split()[-1]}\r\n\r\n"
    return serve_portions(head.encode(), body[:10], body[10:])


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate"])
def test_a_packed_answer_is_unpacked(coding: str) -> None:
    assert b"".join(post(packed(b"data: 1\n\n" * 1000, coding))) == b"data: 1\n\n" * 1000


def test_an_answer_that_is_packed_event_by_event_is_unpacked_to_its_end() -> None:
    head = STREAM.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    events = [b"data: %d\n\n" % number for number in range(100)]
    pieces = [gzip.compress(event) for event in events]
    assert b"".join(post(serve_portions(head, *pieces))) == b"".join(events)
    assert b"".join(post(serve_portions(head, b"".join(pieces) + bytes(8)))) == b"".join(
        events
    )  # zeros that fill a block


@pytest.mark.parametrize("empty", [gzip.compress(b""), bytes(30)], ids=["empty members", "padding"])
def test_a_packed_answer_that_never_says_anything_is_limited_too(empty: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau.llm.http.MAX_RESPONSE_BYTES", 1 << 20)
    head = STREAM.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    portion = empty * 1_000
    found = error(serve_portions(head, gzip.compress(b""), *[portion] * ((1 << 20) // len(portion) + 1)))
    assert str(found) == "The answer is larger than 1 MiB."


def test_the_text_of_an_error_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that goes on sending a byte now and then is never idle."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 500 Oh\r\n\r\n")
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.01)

    monkeypatch.setattr("tau.llm.http.ERROR_BODY_TIMEOUT_S", 0.3)
    assert str(error(serve, idle=60)).startswith("500 x")


def test_a_packed_answer_cannot_burst() -> None:
    found = error(packed(bytes(MAX_RESPONSE_BYTES + 1)))
    assert (str(found), found.transient) == ("The answer is larger than 64 MiB.", False)


def test_an_answer_that_is_packed_in_another_way_is_refused() -> None:
    found = error(serve_portions(b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\n\r\nxx"))
    assert (str(found), found.transient) == (
        "The model server used the content encoding br, which was not requested.",
        False,
    )


def test_a_packed_answer_that_is_broken_may_be_whole_next_time() -> None:
    found = error(serve_portions(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nno gzip at all"))
    assert found.transient is True


# Connections.


def test_a_connection_serves_the_next_request_though_the_reader_stopped_at_the_last_word() -> None:
    async def main(clock: Clock) -> int:
        connections = 0
        kept = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            while True:
                try:
                    await read_request(reader)
                except asyncio.IncompleteReadError:
                    return
                writer.write(CHUNKED + b"5\r\nwords\r\n")
                await kept.wait()
                writer.write(b"0\r\n\r\n")

        async with asyncio.timeout(30), serving(serve) as url:
            http = Http()
            for _ in range(2):
                async with aclosing(http.post(ModelRequest(url, {}, {}))) as portions:
                    assert await anext(portions) == b"words"
                kept.set()
                await asyncio.gather(*http._draining)
            await http.close()
        return connections

    assert played(main) == 1


def test_an_answer_that_goes_on_and_on_is_hung_up() -> None:
    async def main() -> None:
        hung_up = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(CHUNKED + b"5\r\nwords\r\n")
            await reader.read()
            hung_up.set()

        async with asyncio.timeout(30), serving(serve) as url:
            http = Http()
            async with aclosing(http.post(ModelRequest(url, {}, {}))) as portions:
                await anext(portions)
            await hung_up.wait()
            await http.close()

    asyncio.run(main())


# Proxies and certificates.


def environment(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_a_proxy_that_is_not_there_is_told_from_a_server_that_is_not() -> None:
    async def main() -> None:
        async with serving(serve_portions()) as url:
            proxies = {"https_proxy": url.replace("http://", "http://me:pass@")}
        async for _ in Http(environment=proxies).post(ModelRequest("https://model.example/v1", {}, {})):
            pass

    told = r"^Connection error: cannot connect to the proxy 127\.0\.0\.1:\d+: Connection refused$"
    with pytest.raises(ModelError, match=told) as caught:
        asyncio.run(main())
    assert caught.value.transient is True


def test_a_request_goes_through_the_proxy() -> None:
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, headers, _ = await read_request(reader)
        seen.extend([line, headers["proxy-authorization"]])
        writer.write(STREAM + b"data: 1\n\n")

    async def main() -> list[bytes]:
        async with serving(serve) as url:
            http = Http(environment={"http_proxy": url.replace("http://", "http://me:pass@")})
            portions = [portion async for portion in http.post(ModelRequest("http://model.example/v1", {}, {}))]
            await http.close()
            return portions

    assert asyncio.run(main()) == [b"data: 1\n\n"]
    assert seen == ["POST http://model.example/v1 HTTP/1.1", "Basic bWU6cGFzcw=="]


@pytest.mark.parametrize(("status", "helps"), [("407 Proxy Authentication Required", False), ("503 Busy", True)])
def test_a_proxy_that_refuses_is_told_from_the_server(status: str, helps: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode())

    async def main() -> None:
        async with serving(serve) as url:
            http = Http(environment={"https_proxy": url})
            try:
                async for _ in http.post(ModelRequest("https://model.example/v1", {}, {})):
                    pass
            finally:
                await http.close()

    with pytest.raises(ModelError, match=f"^Connection error: the proxy answered {status}") as caught:
        asyncio.run(main())
    assert caught.value.transient is helps


def certificate(folder: Path, *days: str) -> tuple[Path, ssl.SSLContext]:
    """One for this machine, and what a server shows that has it."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    key, wish, names, made = (folder / name for name in ("key.pem", "wish.pem", "names", "made.pem"))
    names.write_text("subjectAltName=IP:127.0.0.1")
    steps: list[list[str | Path]] = [
        ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=lab", "-keyout", key, "-out", wish],
        ["x509", "-req", "-in", wish, "-signkey", key, "-extfile", names, "-out", made, "-days", *days],
    ]
    for words in steps:
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made, key)
    return made, context


def secure_answer(context: ssl.SSLContext) -> list[bytes]:
    async def main() -> list[bytes]:
        async with serving(serve_portions(STREAM, b"data: 1\n\n"), context) as url:
            http = Http()
            try:
                return [portion async for portion in http.post(ModelRequest(url, {}, {}))]
            finally:
                await http.close()

    return asyncio.run(main())


def test_certificates_are_checked_against_those_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trusted, context = certificate(tmp_path, "2")
    environment(monkeypatch)
    with pytest.raises(ModelError, match=r"certificate verify failed.*SSL_CERT_FILE may name") as caught:
        secure_answer(context)
    assert caught.value.transient is False
    for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"):
        environment(monkeypatch, **{name: str(trusted)})
        assert secure_answer(context) == [b"data: 1\n\n"]


@pytest.mark.parametrize("content", [None, "no certificate"], ids=["missing", "rubbish"])
def test_more_certificates_that_are_none_are_reported_and_do_no_harm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    trusted, context = certificate(tmp_path, "2")
    more = tmp_path / "more.pem"
    if content is not None:
        more.write_text(content)
    environment(monkeypatch, SSL_CERT_FILE=str(trusted), NODE_EXTRA_CA_CERTS=str(more))
    assert secure_answer(context) == [b"data: 1\n\n"]
    [told] = caplog.messages
    assert told.startswith(f"cannot load NODE_EXTRA_CA_CERTS={more}: ")


def test_a_certificate_that_is_over_is_reported_and_not_retried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    try:
        over, context = certificate(tmp_path, "-1")
    except subprocess.CalledProcessError:
        pytest.skip("this openssl makes no certificates that are over")
    environment(monkeypatch, SSL_CERT_FILE=str(over))
    with pytest.raises(ModelError, match=r"^Connection error: .*certificate has expired") as caught:
        secure_answer(context)
    assert caught.value.transient is False and "SSL_CERT_FILE" not in str(caught.value)
