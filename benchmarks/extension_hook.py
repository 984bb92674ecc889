"""What a `tool_call` handler costs, there and back through the extension's process: benchmarks/extension_hook.py

The promise is at most 1 ms at the median. The floor is the least that two Python
processes need to hand each other one line over a socket.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from tau.records.settings import Settings
from tau.runtime.extensions.loader import load_extensions
from tau.runtime.extensions.registry import ExtensionRegistry

PROMISED_MS = 1.0
ROUNDS = 2_000
GATE = """
def setup(pi):
    @pi.on("tool_call")
    def gate(event, ctx):
        if "rm -rf" in event.input["command"]:
            return {"block": True, "reason": "no"}
"""
ECHO = """
import json, socket, sys
line = socket.socket(fileno=int(sys.argv[1])).makefile("rwb")
for message in line:
    line.write(json.dumps({"id": json.loads(message)["id"]}).encode() + b"\\n")
    line.flush()
"""
CALL = {"toolName": "bash", "toolCallId": "call_1", "input": {"command": "echo " + "x" * 200}}


class Found(NamedTuple):
    path: Path
    given: bool = True


async def measured(work: Callable[[], Awaitable[Any]]) -> list[float]:
    taken = []
    for _ in range(ROUNDS):
        before = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - before) * 1000)
    return taken


async def hooks(count: int) -> tuple[float, list[float]]:
    """Seconds until `count` extensions are loaded, and milliseconds of each round trip."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"gate{number}.py") for number in range(count)]
        for file in files:
            file.write_text(GATE)
        extensions = ExtensionRegistry(Settings, lambda error: sys.exit(str(error)))

        async def act(*asked: Any) -> None: ...

        facts = {"cwd": folder, "hasUI": True, "mode": "rpc", "isIdle": False}
        before = time.perf_counter()
        running = await load_extensions(
            extensions, list(map(Found, files)), act, lambda: facts, folder, folder, "rpc", True, {}
        )
        loaded = time.perf_counter() - before
        try:
            return loaded, await measured(lambda: extensions.fire("tool_call", CALL))
        finally:
            await running.stop()


async def floor() -> list[float]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-S", "-c", ECHO, str(theirs.fileno())]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()]), ours, theirs:
        line = ours.makefile("rwb")

        async def ask() -> None:
            line.write(json.dumps({"id": 1, "params": CALL}).encode() + b"\n")
            line.flush()
            json.loads(line.readline())

        try:
            return await measured(ask)
        finally:
            line.close()
            ours.shutdown(socket.SHUT_RDWR)


def main() -> int:
    bare = median(asyncio.run(floor()))
    print(f"floor: {bare:.3f} ms; {os.cpu_count()} processors")
    ok = True
    for count in (1, 3):
        loaded, taken = asyncio.run(hooks(count))
        middle, late = median(taken), quantiles(taken, n=100)[98]
        print(f"{count} extension(s): loaded in {loaded:.3f} s; median {middle:.3f} ms, 99 % within {late:.3f} ms")
        ok = ok and (count > 1 or middle <= PROMISED_MS)
    print("as promised" if ok else f"more than the {PROMISED_MS} ms that are promised")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
