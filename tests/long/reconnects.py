"""Clients of a host whose connections are lost, very often.

    python tests/long/reconnects.py 10000       at random moments of runs; prints what was missing or came twice
    python tests/long/reconnects.py bytes       after every byte of a short exchange, in both directions

The host is in this process, on a Unix socket; memory must stay as it is.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import tempfile
import tracemalloc
from itertools import chain, repeat
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.reconnects import Outcome, exchange, reconnect_often
from support.socket_host import UNCUT, socket_host

WORDS = [f"w{number} " for number in range(12)]
TURN = {"blocks": [{"text": WORDS[:6]}, {"tool": "bash", "arguments": {"command": "echo hi"}}]}
LONG = {"blocks": [{"text": WORDS * 20}], "delayMs": 1}
PORTION = 500  # reconnects of one session: it grows
MAX_GROWTH = 5_000_000  # bytes


async def reconnects(times: int, seed: int) -> int:
    """Returns the number of failures."""
    failures, grown = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        async with socket_host(Path(folder), LONG) as served:
            for number in range(0, times, PORTION):
                done: Outcome = await reconnect_often(
                    served, min(PORTION, times - number), random.Random(seed + number)
                )
                for live in served.host.sessions:
                    await served.host.close_session(live)
                gc.collect()
                if not number:
                    tracemalloc.start()
                    before = tracemalloc.get_traced_memory()[0]
                grown = tracemalloc.get_traced_memory()[0] - before
                failures += len(done.unexpected) + done.wrong_texts
                print(
                    f"{number + PORTION}: {done.prompts} prompts, {done.connections} connections,"
                    f" {len(done.unexpected)} gaps or doubles, {done.wrong_texts} wrong texts, {grown:+,} bytes",
                    flush=True,
                )
    return failures + (grown > MAX_GROWTH)


async def every_byte() -> int:
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        async with socket_host(Path(folder), TURN, {"text": "done"}) as served:
            uncut = await exchange(served)
            for direction, size in (("in", uncut.bytes_in), ("out", uncut.bytes_out)):
                for cut in range(1, size):
                    setattr(served, f"cuts_{direction}", chain([UNCUT, cut], repeat(UNCUT)))
                    if (await exchange(served)).heard != uncut.heard:
                        failures += 1
                        print(f"cut after byte {cut} {direction}: something is missing or came twice")
                    for live in served.host.sessions:
                        await served.host.close_session(live)
                setattr(served, f"cuts_{direction}", repeat(UNCUT))
                print(f"{direction}: {size} bytes, {failures} failures", flush=True)
    return failures


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else "10000"
    sys.exit(1 if asyncio.run(every_byte() if wanted == "bytes" else reconnects(int(wanted), 1)) else 0)
