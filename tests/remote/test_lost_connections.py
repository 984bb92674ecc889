"""Connections that are cut: at every byte, and again and again. Nothing is missing, nothing arrives twice."""

from __future__ import annotations

import asyncio
import random
from itertools import chain, repeat
from pathlib import Path

import pytest

from support.reconnects import exchange, reconnect_often
from support.socket_host import UNCUT, socket_host

WORDS = [f"w{number} " for number in range(12)]
TURN = {"blocks": [{"text": WORDS[:6]}, {"tool": "bash", "arguments": {"command": "echo hi"}}]}
LONG = {"blocks": [{"text": WORDS * 20}], "delayMs": 1}


@pytest.mark.promise("N10")
@pytest.mark.parametrize("direction", ["out", "in"])
def test_a_connection_is_cut_after_any_byte(direction: str, tmp_path: Path) -> None:
    """tests/long/reconnects.py does it for every byte."""

    async def main() -> None:
        async with asyncio.timeout(60), socket_host(tmp_path, TURN, {"text": "done"}) as served:
            uncut = await exchange(served)
            cuts = random.Random(17).sample(range(1, uncut.bytes_out if direction == "out" else uncut.bytes_in), 25)
            for cut in [1, *cuts]:
                setattr(served, f"cuts_{direction}", chain([UNCUT, cut], repeat(UNCUT)))  # the first one opens it
                assert (await exchange(served)).heard == uncut.heard, f"cut after {cut} bytes"

    asyncio.run(main())


@pytest.mark.promise("N10")
def test_200_reconnects_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), socket_host(tmp_path, LONG) as served:
            done = await reconnect_often(served, 200, random.Random(4))
            assert (done.unexpected, done.wrong_texts) == ([], 0)
            assert done.connections >= 200

    asyncio.run(main())


def test_a_client_that_cannot_resume_gets_snapshots_and_the_texts_add_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), socket_host(tmp_path, LONG) as served:
            done = await reconnect_often(served, 12, random.Random(5), forget=True)
            assert (done.unexpected, done.wrong_texts) == ([], 0)
            assert done.snapshots > 6

    asyncio.run(main())
