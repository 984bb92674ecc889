"""Lose the connection to a host again and again: nothing is missing and nothing comes twice.

    python tests/long/host_reconnects.py [RECONNECTS] [--seed SEED]

A client reads some batches of a session that streams, loses its connection in the middle of a line, and comes back with
the last number that it has. Another client hears everything. The memory of the process must not grow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.rpc_process import calls
from support.served import Client, Json, close_hosts, make_host
from support.stream_fold import Fold
from tau.records.base import parse
from tau.serve.host import Host

RECONNECTS = 10_000
WORDS = [f"w{at} " for at in range(40)]
SPOKEN: Json = {"blocks": [{"text": WORDS}], "delayMs": 1}
ANSWERS: tuple[Json, ...] = (SPOKEN, calls("echo a; echo b"), SPOKEN)


class Unsteady:
    """A client whose connection is lost again and again, also in the middle of a line. It keeps the last number."""

    def __init__(self, host: Host, session: str, chance: random.Random) -> None:
        self.fold = Fold()
        self.seqs: list[int] = []
        self.snapshots = 0
        self._host, self._session, self._chance = host, session, chance

    async def connect(self, reads: int, **fields: Any) -> None:
        """Read some batches, the last one only in part."""
        client = Client(self._host)
        after = {"after": {"stream": self.fold.stream, "seq": self.fold.seq}} if self.fold.stream else {}
        hello = {"id": "h", "type": "hello", "version": 1, "session": self._session, "dialect": "1.5", "numbers": True}
        await client.write(json.dumps({**hello, **after, **fields}).encode() + b"\n")
        rest = b""
        for at in range(reads):
            try:
                async with asyncio.timeout(0.004):
                    data = await client.transport.client.read()
            except TimeoutError:
                break
            if at == reads - 1:
                data = data[: self._chance.randrange(len(data) + 1)]
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(parse(line))
        client.cut()

    def _take(self, record: Json) -> None:
        if record["type"] == "response":
            attached = record["data"]["attached"]
            self.fold.stream = attached["stream"]
            return
        if record["type"] == "snapshot":
            self.snapshots += 1
        elif "seq" in record:
            self.seqs.append(record["seq"])
        self.fold.apply(record)


async def reconnect(host: Host, times: int, seed: int = 17) -> int:
    """Returns the number of prompts that were run meanwhile."""
    chance = random.Random(seed)
    steady = Client(host)
    await steady.hello()
    session = (await steady.get("open_session", attach=False))["session"]
    steady = Client(host)
    await steady.hello(session=session, numbers=True, dialect="1.5")
    reading = asyncio.create_task(steady.ended())
    live = host.live(session)
    assert live is not None
    client = Unsteady(host, session, chance)
    prompts = 0
    for at in range(times):
        if not live.streaming and at < times - 10:
            prompts += 1
            await steady.send("prompt", message=f"prompt {prompts}")
        await client.connect(chance.randrange(1, 6), pace=chance.choice([0, 0, 5]))
    await asyncio.wait_for(live.handle.runs.idle(), 30)
    while client.fold.seq < live.stream.last:
        await client.connect(50)
    assert client.seqs == sorted(set(client.seqs))
    assert client.snapshots <= 2  # the first connection may end before its hello is answered
    assert client.fold.gaps == []
    assert client.fold.settled == prompts
    whole = Fold()
    for record in steady.records:
        whole.apply(record)
    assert whole.state()["messages"] == client.fold.state()["messages"]
    reading.cancel()
    return prompts


def memory() -> int:
    """The resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def measure(folder: Path, times: int, seed: int) -> float:
    """Reconnect in several sessions. Returns by how many MiB the memory grew after the first."""
    grown = 0.0
    before = 0
    lot = 500
    for at in range(max(2, -(-times // lot))):
        host = make_host(folder / f"{at}", *ANSWERS)
        await reconnect(host, min(lot, times), seed + at)
        await close_hosts()
        if at == 0:
            before = memory()
        grown = (memory() - before) / 2**20
    return grown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reconnects", type=int, nargs="?", default=RECONNECTS)
    parser.add_argument("--seed", type=int, default=17)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        grown = asyncio.run(measure(Path(folder), given.reconnects, given.seed))
    print(f"{given.reconnects} reconnects, memory +{grown:.1f} MiB")


if __name__ == "__main__":
    main()
