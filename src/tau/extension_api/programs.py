"""Runs programs for extensions, in the extension's process group, so that they end with it."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tau.concurrency.helper_commands import HelperProgram

TERMINATE_TIMEOUT_S = 5.0  # seconds between SIGTERM and SIGKILL


async def run_program(command: str, args: Sequence[str], timeout: int | None, cwd: str | None) -> dict[str, Any]:
    """Run a program without a shell; returns {stdout, stderr, code, killed}. `timeout` is in milliseconds.

    A program that cannot be started has code 1. What it leaves behind is not waited for.
    """
    try:
        program = await HelperProgram.start([command, *args], stdout=PIPE, stderr=PIPE, cwd=cwd or None)
    except (OSError, ValueError) as error:
        return {"stdout": "", "stderr": str(error), "code": 1, "killed": False}
    killed = True
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout / 1000 if timeout else None):
                await program.ended()
                killed = False
    finally:
        await program.close(terminate_s=TERMINATE_TIMEOUT_S)
    return {
        "stdout": program.stdout.decode("utf-8", "replace"),
        "stderr": program.stderr.decode("utf-8", "replace"),
        "code": 1 if program.code is None else program.code,
        "killed": killed,
    }
