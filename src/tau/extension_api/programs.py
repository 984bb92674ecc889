"""Runs programs for extensions, in the extension's process group, so that they end with it."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

TERMINATED = 5.0  # seconds between SIGTERM and SIGKILL
LAST_WORDS = 1.0  # seconds to drain the pipes, which a grandchild may hold open


async def run(command: str, args: Sequence[str], timeout: int | None, cwd: str | None) -> dict[str, Any]:
    """Run a program without a shell; returns {stdout, stderr, code, killed}. `timeout` is in milliseconds.

    A program that cannot be started has code 1.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            command, *args, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=cwd or None
        )
    except (OSError, ValueError) as error:
        return {"stdout": "", "stderr": str(error), "code": 1, "killed": False}
    reading = asyncio.ensure_future(process.communicate())
    killed = False
    try:
        await asyncio.wait([reading], timeout=timeout / 1000 if timeout else None)
        killed = not reading.done()
    finally:
        if not reading.done():
            await _end(process)
    await asyncio.wait([reading], timeout=LAST_WORDS)
    stdout, stderr = reading.result() if reading.done() else (b"", b"")
    reading.cancel()
    return {
        "stdout": stdout.decode("utf-8", "replace"),
        "stderr": stderr.decode("utf-8", "replace"),
        "code": process.returncode if process.returncode is not None else 1,
        "killed": killed,
    }


async def _end(process: Process) -> None:
    for signal, seconds in ((process.terminate, TERMINATED), (process.kill, LAST_WORDS)):
        with suppress(ProcessLookupError):
            signal()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), seconds)
            return
