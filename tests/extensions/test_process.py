"""The child process that hosts an extension, with small hosts instead of Python extensions."""

from __future__ import annotations

import asyncio
import socket
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tau.errors import ExtensionFailure
from tau.runtime.extensions.process import ExtensionProcess

WITHIN = 60.0

HOST = """
import os, signal, socket, subprocess, sys, time
line = socket.socket(fileno=int(sys.argv[1]))
def read():
    data = b""
    while not data.endswith(b"\\n"):
        data += line.recv(65536)
    return data
"""


class Seen:
    """A receiver that writes down what is reported."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.broken_by: list[str] = []
        self.closed_by: list[str] = []
        self._news = asyncio.Event()

    def received(self, message: bytes) -> None:
        self.messages.append(message)
        self._news.set()

    def broken(self, why: str) -> None:
        self.broken_by.append(why)
        self._news.set()

    def closed(self, why: str) -> None:
        self.closed_by.append(why)
        self._news.set()

    async def until(self, ready: Callable[[], Any]) -> None:
        async with asyncio.timeout(WITHIN):
            while not ready():
                self._news.clear()
                await self._news.wait()


async def started(body: str, kind: type[ExtensionProcess] = ExtensionProcess) -> tuple[ExtensionProcess, Seen]:
    process, seen = kind("/", (sys.executable, "-c", HOST + textwrap.dedent(body))), Seen()
    await process.start(seen)
    return process, seen


def test_each_message_is_one_line_in_both_directions() -> None:
    async def story() -> None:
        process, seen = await started('line.sendall(b"a " + read() + b"half"); line.sendall(b" and half\\n"); read()')
        process.send(b'{"to":"it"}')
        await seen.until(lambda: len(seen.messages) == 2)
        assert seen.messages == [b'a {"to":"it"}', b"half and half"]
        process.send(b"end")
        await seen.until(lambda: seen.closed_by)
        assert (seen.broken_by, seen.closed_by) == ([], ["Its process ended with code 0."])

    asyncio.run(story())


ENDS = {
    "sys.exit(7)": "Its process ended with code 7.",
    "os.kill(os.getpid(), signal.SIGTERM)": "Its process was ended by SIGTERM.",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_the_process_is_reported_once_after_its_last_message(end: str) -> None:
    async def story() -> None:
        process, seen = await started(f'line.sendall(b"last\\n"); {end}')
        await seen.until(lambda: seen.closed_by)
        assert (seen.messages, seen.broken_by, seen.closed_by) == ([b"last"], [], [ENDS[end]])
        process.send(b"too late")
        process.kill()

    asyncio.run(story())


class EndsEarly(ExtensionProcess):
    """A process that has ended before the event loop connects to it, as on a busy machine."""

    def _spawn(self) -> socket.socket:
        before = set(threading.enumerate())
        ours = super()._spawn()
        for thread in set(threading.enumerate()) - before:
            thread.join()
        return ours


@pytest.mark.parametrize("end", ENDS)
def test_the_last_message_of_a_process_that_ends_before_it_is_connected_arrives(end: str) -> None:
    async def story() -> None:
        _, seen = await started(f'line.sendall(b"last\\n"); {end}', EndsEarly)
        await seen.until(lambda: seen.closed_by)
        assert (seen.messages, seen.broken_by, seen.closed_by) == ([b"last"], [], [ENDS[end]])

    asyncio.run(story())


def test_a_process_that_closes_its_socket_is_reported_as_broken() -> None:
    async def story() -> None:
        process, seen = await started("line.close(); time.sleep(3600)")
        await seen.until(lambda: seen.broken_by)
        assert (seen.broken_by, seen.closed_by) == (["It closed its line to tau."], [])
        process.kill()
        await seen.until(lambda: seen.closed_by)
        assert seen.closed_by == ["Its process was ended by SIGKILL."]

    asyncio.run(story())


def test_a_line_over_the_limit_is_reported_as_broken() -> None:
    async def story() -> None:
        process, seen = await started('while True: line.sendall(b"x" * 65536)')
        await seen.until(lambda: seen.broken_by)
        assert seen.broken_by == [f"It sent a line of more than {32 * 1024 * 1024} bytes."]
        process.kill()
        await seen.until(lambda: seen.closed_by)

    asyncio.run(story())


def test_kill_ends_the_programs_that_the_process_has_started(tmp_path: Path) -> None:
    async def story() -> None:
        pipe = tmp_path / "alive"  # readers see the end of it when its last writer is gone
        process, seen = await started(
            f"""
            os.mkfifo({str(pipe)!r})
            line.sendall(b"ready\\n")
            subprocess.run(["sh", "-c", "exec > " + {str(pipe)!r} + "; echo up; sleep 3600"])
            """
        )
        await seen.until(lambda: seen.messages)
        with await asyncio.to_thread(pipe.open, "rb", 0) as program:
            assert await asyncio.to_thread(program.read, 3) == b"up\n"
            process.kill()
            await seen.until(lambda: seen.closed_by)
            assert await asyncio.wait_for(asyncio.to_thread(program.read), WITHIN) == b""

    asyncio.run(story())


def test_a_host_that_cannot_be_started_is_a_failure(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(ExtensionFailure, match=r"^Its process cannot be started: No such file or directory$"):
            await ExtensionProcess("/", (str(tmp_path / "none"),)).start(Seen())

    asyncio.run(story())
