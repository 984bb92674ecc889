"""How many connections stay open after their answers: few for the whole process, whatever number of pools it has."""

from __future__ import annotations

import asyncio
import gc
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from long.idle_connections import measure
from support.keep_alive_server import KeepAliveServer
from tau.llm import http_pool, idle_connections
from tau.llm.http_pool import ConnectionPool
from tau.llm.idle_connections import IDLE_CONNECTIONS, idle_limit

pytestmark = pytest.mark.process

LIMIT = 3


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeepAliveServer]:
    monkeypatch.setattr(http_pool, "IDLE_TIMEOUT_S", 600)
    monkeypatch.setattr(idle_connections, "MIN_IDLE", LIMIT)
    monkeypatch.setattr(idle_connections, "MAX_IDLE", LIMIT)
    IDLE_CONNECTIONS.forget()  # those that other tests have left
    with KeepAliveServer() as started:
        yield started


async def ask(pool: ConnectionPool, server: KeepAliveServer) -> None:
    url = server.models["providers"]["mock"]["baseUrl"]
    answer = await pool.post(url, {"content-length": "2"}, [b"{}"], connect=60)
    while await answer.read():
        pass
    answer.finish()


async def until(server: KeepAliveServer, connections: int) -> None:
    async with asyncio.timeout(60):
        while server.connections != connections:
            await asyncio.sleep(0.01)


@pytest.mark.promise("Z06")
def test_sessions_that_have_just_answered_do_not_use_up_the_descriptors(tmp_path: Path) -> None:
    """60 sessions need a descriptor each, of 110; with a connection each they would need more than there are."""
    found = measure(tmp_path, sessions=60, descriptors=110)
    assert (found.failed, found.said) == (0, "")
    assert found.idle <= 110 // idle_connections.SHARE


@pytest.mark.promise("Z06")
def test_the_connections_that_are_idle_for_longest_are_closed(server: KeepAliveServer) -> None:
    async def main() -> None:
        pools = [ConnectionPool(ssl.create_default_context) for _ in range(LIMIT + 2)]
        for pool in pools:
            await ask(pool, server)
        await until(server, LIMIT)
        assert [sum(map(len, pool._idle.values())) for pool in pools] == [0, 0, 1, 1, 1]
        for pool in pools[2:]:  # they go on with the connections that they have
            await ask(pool, server)
        assert (server.connections, len(IDLE_CONNECTIONS)) == (LIMIT, LIMIT)
        for pool in pools[:2]:
            await ask(pool, server)
        await until(server, LIMIT)
        for pool in pools:
            await pool.close()
        await until(server, 0)
        assert len(IDLE_CONNECTIONS) == 0

    asyncio.run(main())


def test_connections_of_other_threads_count_and_are_closed_by_their_own_event_loop(server: KeepAliveServer) -> None:
    ended = threading.Event()

    async def other(ready: threading.Event) -> None:
        pools = [ConnectionPool(ssl.create_default_context) for _ in range(LIMIT)]
        for pool in pools:
            await ask(pool, server)
        ready.set()
        await asyncio.to_thread(ended.wait)
        assert sum(len(idle) for pool in pools for idle in pool._idle.values()) == 0
        for pool in pools:
            await pool.close()

    async def main() -> None:
        ready = threading.Event()
        running = asyncio.create_task(asyncio.to_thread(asyncio.run, other(ready)))
        await asyncio.to_thread(ready.wait)
        pools = [ConnectionPool(ssl.create_default_context) for _ in range(LIMIT)]
        for pool in pools:
            await ask(pool, server)
        await until(server, LIMIT)
        ended.set()
        await running
        for pool in pools:
            await pool.close()

    asyncio.run(main())


def test_an_event_loop_that_ended_without_closing_its_pool_keeps_no_connection_alive(server: KeepAliveServer) -> None:
    async def main() -> None:
        await ask(ConnectionPool(ssl.create_default_context), server)

    with pytest.warns(ResourceWarning):
        asyncio.run(main())
        gc.collect()
    assert len(IDLE_CONNECTIONS) == 0


FORKED = """
import asyncio, os
from tau.llm.idle_connections import IDLE_CONNECTIONS, IdleConnection

async def main():
    kept = IdleConnection(600, print)
    IDLE_CONNECTIONS.add(kept)
    child = os.fork()
    if child == 0:
        os._exit(len(IDLE_CONNECTIONS))
    print(len(IDLE_CONNECTIONS), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

asyncio.run(main())
"""


def test_a_forked_process_does_not_count_the_connections_of_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("1 0\n", "")


def test_the_limit_follows_that_of_the_descriptors() -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = {1024: 128, 256: 32, 64: 8}
    try:
        for descriptors, limit in limits.items():
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
            assert idle_limit() == limit
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
