"""Clients come and go, and nothing of them stays: no descriptor, no task, no thread, no process."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

from tau import RpcClient, sync

FAKE = [sys.executable, str(Path(__file__).parent / "fake.py")]


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def threads() -> set[threading.Thread]:
    """Without those that end by themselves: who waits for a process ends right after it."""
    for thread in threading.enumerate():
        if thread.name.startswith(("waitpid", "tau-")):
            thread.join(10)
    return set(threading.enumerate())


def test_fifty_lives_of_a_client_leave_nothing() -> None:
    async def life(client: RpcClient) -> None:
        async def handler(event: object) -> None:
            pass

        async with client:
            client.on_event(handler)
            stream = client.events()
            await client.prompt('[["say", {"type": "one"}]]')
            await anext(stream)

    async def main() -> None:
        await life(RpcClient(executable=FAKE))
        before, others, tasks = descriptors(), children(), len(asyncio.all_tasks())
        for _ in range(10):
            await asyncio.gather(*(life(RpcClient(executable=FAKE)) for _ in range(5)))
        assert len(asyncio.all_tasks()) == tasks
        # What other tests of this process leave for a moment may go or come meanwhile; fifty lives would show.
        assert len(descriptors()) < len(before) + 10
        assert children() <= others

    before = threads()
    asyncio.run(main())
    assert len(threads() - before) < 10


def test_a_client_whose_start_was_cancelled_leaves_nothing() -> None:
    async def main() -> None:
        before, others = descriptors(), children()
        client = RpcClient(executable=[sys.executable, "-c", "import time; time.sleep(60)"])
        starting = asyncio.ensure_future(client.start())
        while client.pid is None:
            await asyncio.sleep(0.01)
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled() and children() <= others
        assert len(descriptors()) <= len(before)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_clients_that_wait_leave_nothing_either() -> None:
    def life() -> None:
        with sync.RpcClient(executable=FAKE) as client:
            client.on_event(lambda event: None)
            client.prompt('[["say", {"type": "one"}]]')

    life()
    threads_before, before, others = threads(), len(descriptors()), children()
    for _ in range(10):
        life()
    # Less than one for each: what other tests of this process have left may come or go meanwhile.
    assert len(threads() - threads_before) < 5
    assert len(descriptors()) < before + 5
    assert children() <= others
