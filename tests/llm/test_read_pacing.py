"""Reading less often than pieces of an answer arrive, for the interface."""

from __future__ import annotations

import asyncio

import pytest

from support.virtual_clock import leapt
from tau.concurrency.read_pacing import ReadPacer
from tau.llm.http import Http
from tau.llm.types import ModelRequest

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


async def calls_for(*reads: float) -> list[tuple[str, float]]:
    """What a pacer of 0.5 s calls, and when, if data is read at these times."""
    clock, calls = asyncio.get_running_loop().time, list[tuple[str, float]]()
    pacer = ReadPacer(0.5, lambda: calls.append(("pause", clock())), lambda: calls.append(("resume", clock())))
    for at in reads:
        await asyncio.sleep(at - clock())
        pacer.after_read()
    await asyncio.sleep(5)
    return calls


def test_the_first_piece_and_pieces_that_come_slowly_are_read_at_once() -> None:
    assert leapt(calls_for(0.0, 1.0, 2.0)) == []


def test_reading_pauses_while_pieces_come_fast() -> None:
    assert leapt(calls_for(0.0, 0.25)) == [("pause", 0.25), ("resume", 0.75)]
    # What came during the pause is read right after it, and the next pause begins.
    assert leapt(calls_for(0.0, 0.25, 0.75)) == [("pause", 0.25), ("resume", 0.75), ("pause", 0.75), ("resume", 1.25)]


@pytest.mark.process
def test_no_byte_of_an_answer_is_lost_or_late_for_good() -> None:
    pieces = [b"data: %d\n\n" % number for number in range(2000)]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        for number, piece in enumerate(pieces):
            writer.write(piece * (100 if number % 10 == 0 else 1))  # more than is kept without being taken
            await asyncio.sleep(0)
        writer.close()

    async def main() -> bytes:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        http = Http(read_interval_s=0.002)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        try:
            return b"".join([portion async for portion in http.post(ModelRequest(url, {}, {}))])
        finally:
            await http.close()
            server.close()

    expected = b"".join(piece * (100 if number % 10 == 0 else 1) for number, piece in enumerate(pieces))
    assert asyncio.run(main()) == expected
