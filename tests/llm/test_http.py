from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tau.errors import ModelError
from tau.llm.calls import Request
from tau.llm.http import Http, masked, retry_after_ms
from tau.records.base import parse

KEY = "sk-very-secret-key"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    """The address of a real server on this machine; each connection is one request, handed to `serve`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/messages"
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *fields = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    return line, headers, parse(await reader.readexactly(int(headers["content-length"])))


def says(*portions: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for portion in portions:
            writer.write(portion)
            await writer.drain()

    return serve


def refusing(status: str, body: bytes = b"", *headers: str) -> Serve:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    return says("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def post(serve: Serve, *, idle: float = 5, headers: dict[str, str] | None = None) -> list[bytes]:
    """The portions of an answer, or the ModelError it ends with."""

    async def main() -> list[bytes]:
        async with serving(serve) as url:
            http = Http(idle, 5)
            try:
                request = Request(url, headers or {"x-api-key": KEY}, {"model": "m", "text": "\ud800é"})
                return [portion async for portion in http.post(request)]
            finally:
                await http.close()

    return asyncio.run(main())


def error(serve: Serve, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        post(serve, **options)
    return caught.value


def test_the_bytes_come_as_the_server_sends_them() -> None:
    assert b"".join(post(says(STREAM, b"data: 1\n\n", b"data: 2\n\n"))) == b"data: 1\n\ndata: 2\n\n"


def test_bytes_are_given_before_the_answer_is_over() -> None:
    async def main() -> None:
        got_it = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(STREAM + b"first")
            await writer.drain()
            await got_it.wait()
            writer.write(b"second")

        async with asyncio.timeout(5), serving(serve) as url:
            portions = []
            http = Http()
            async for portion in http.post(Request(url, {}, {})):
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
        ("201 Created", b"made", "201 made"),
    ],
)
def test_any_status_but_200_is_told_with_its_number_and_body(status: str, body: bytes, text: str) -> None:
    found = error(refusing(status, body))
    assert (str(found), found.status, found.retry_after_ms) == (text, int(status[:3]), None)


@pytest.mark.parametrize("size", [5_000, 1_000_000])
@pytest.mark.parametrize("character", ["x", "é"])
def test_an_error_text_is_cut_to_4_kib(size: int, character: str) -> None:
    text = str(error(refusing("500 Oops", character.encode() * size)))
    assert text.startswith(f"500 {character * 1000}")
    assert len(text.encode()) <= 4096


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
    assert masked("a b tau-agent", {"x-api-key": "a", "user-agent": "tau-agent"}) == "a b tau-agent"


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "TEXT/HTML", "text/plain"])
def test_a_page_is_no_answer(kind: str) -> None:
    found = error(says(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n<html>".encode()))
    assert str(found).startswith("The model server answered with text/")
    assert found.transient is False


def test_a_server_without_a_content_type_is_believed() -> None:
    assert post(says(b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n")) == [b"data: 1\n\n"]


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
    found = error(says(*portions))
    assert str(found).startswith("Connection error: ")
    assert found.transient is True


def test_nobody_there_may_be_there_next_time() -> None:
    async def main() -> None:
        async with serving(says()) as url:
            pass
        async for _ in Http().post(Request(url, {}, {})):
            pass

    with pytest.raises(ModelError, match="Connection error: ") as caught:
        asyncio.run(main())
    assert caught.value.transient is True


@pytest.mark.parametrize("url", ["", "no-address", "ftp://x/", "http://"])
def test_an_address_that_is_none_is_not_tried_again(url: str) -> None:
    async def main() -> None:
        http = Http(1, 1)
        try:
            async for _ in http.post(Request(url, {}, {})):
                pass
        finally:
            await http.close()

    with pytest.raises(ModelError) as caught:
        asyncio.run(main())
    assert caught.value.transient is False


def test_one_client_serves_many_requests() -> None:
    async def main() -> list[bytes]:
        async with serving(says(STREAM, b"data: 1\n\n")) as url:
            http = Http()
            http.warm()
            portions = [portion for _ in range(3) async for portion in http.post(Request(url, {}, {}))]
            await http.close()
            await http.close()
            return portions

    assert asyncio.run(main()) == [b"data: 1\n\n"] * 3


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


def test_the_wait_travels_with_the_error() -> None:
    assert error(refusing("429 Slow", b"slow", "Retry-After: 7")).retry_after_ms == 7000
