"""Processes that serve the protocol for the model-based test: in this process, or real ones.

Both give a descriptor to write commands to, and one to read records from.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from long.protocol_rules import Json
from support.rpc_process import is_gone, surroundings
from tau.rpc.server import Server
from tau.runtime.app.factory import load
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.protocol.pipes import PipeTransport
from tau.wire.dialects import DEFAULT

GONE_WITHIN = 10.0


class Life:
    """`records` are those that were read and not looked at yet."""

    def __init__(self, folder: Path, options: Json) -> None:
        self.folder = folder
        self.options = options
        self.stdin = self.stdout = -1
        self._rest = b""
        self._records: list[Json] = []
        self._news = asyncio.Event()
        self.ended = False

    async def start(self) -> None:
        raise NotImplementedError

    async def finish(self) -> tuple[int, str]:
        """After stdin was closed: the exit code, and what was said on stderr."""
        raise NotImplementedError

    def _listen(self) -> None:
        os.set_blocking(self.stdout, False)
        os.set_blocking(self.stdin, False)
        asyncio.get_running_loop().add_reader(self.stdout, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self.stdout, 1 << 20)
        except BlockingIOError:
            return
        if not data:
            self.ended = True
            asyncio.get_running_loop().remove_reader(self.stdout)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._records += [json.loads(line) for line in lines]
        self._news.set()

    async def read(self, within: float) -> list[Json]:
        """The records that have come; none if there were none in time."""
        if not self._records and not self.ended:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._news.wait()
        records, self._records = self._records, []
        return records

    async def write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self.stdin, data) :]
            except BlockingIOError:
                await asyncio.sleep(0)

    async def end(self) -> Json:
        """Close stdin and wait for the end. The records that come meanwhile can still be read."""
        os.close(self.stdin)
        code, stderr = await self.finish()
        return {
            "code": code,
            "stderr": stderr,
            "files": session_files(self.folder / "sessions"),
            "processes": await asyncio.get_running_loop().run_in_executor(None, left_running, self.folder),
        }


class ServedHere(Life):
    """The real server in this process. Its own event loop tasks, descriptors and log are looked at when it ends."""

    async def start(self) -> None:
        options, folder = self.options, self.folder
        self._noise = Noise()
        logging.getLogger("tau").addHandler(self._noise)
        theirs_in, self.stdin = os.pipe()
        self.stdout, theirs_out = os.pipe()
        self._theirs = theirs_in, theirs_out
        self._tasks = asyncio.all_tasks()
        self._server = Server(PipeTransport(theirs_in, theirs_out), DEFAULT)
        wishes = SessionOptions(
            model=options.get("model") and f"lab/{options['model']}",
            script=json.dumps({"answers": options["script"]}).encode(),
            session=SessionTarget(folder=str(folder / "sessions"), named=options.get("session")),
        )
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
        opening = load(folder / "agent", wishes, environment, cwd=str(folder / "work"))
        self._handle = opening.open(self._server.publish, shared=True)
        self._serving = asyncio.create_task(self._server.serve(self._handle))
        self._listen()

    async def finish(self) -> tuple[int, str]:
        code, why = 0, ""
        try:
            async with asyncio.timeout(GONE_WITHIN):
                await self._serving
                await self._handle.close()
                await self._server.drain()
        except Exception as error:
            code, why = 1, f"{type(error).__name__}: {error}"
        self._handle.kill()
        self._read()
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.stdout)
        await self._server.close()
        self.ended = True
        for handle in (self.stdout, *self._theirs):
            os.close(handle)
        await asyncio.sleep(0)
        left = [task for task in asyncio.all_tasks() - self._tasks if not task.done()]
        logging.getLogger("tau").removeHandler(self._noise)
        return code, "\n".join([*filter(None, [why]), *self._noise.told, *(f"a task is left: {task}" for task in left)])


class Noise(logging.Handler):
    """What would be on stderr."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(f"{self.format(record)}")


class RealProcess(Life):
    async def start(self) -> None:
        options, folder = self.options, self.folder
        (folder / "script.json").write_text(json.dumps({"answers": options["script"]}))
        argv = [sys.executable, "-m", "tau", "--mode", "rpc", "--script", str(folder / "script.json")]
        argv += ["--session-dir", str(folder / "sessions")]
        if "model" in options:
            argv += ["--model", f"lab/{options['model']}"]
        if "session" in options:
            argv += ["--session", options["session"]]
        pipe = subprocess.PIPE
        with (folder / "stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=stderr, cwd=folder / "work", env=surroundings(folder), bufsize=0
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self.stdin, self.stdout = os.dup(self._process.stdin.fileno()), self._process.stdout.fileno()
        self._process.stdin.close()
        self._listen()

    async def finish(self) -> tuple[int, str]:
        loop = asyncio.get_running_loop()
        try:
            code = await loop.run_in_executor(None, lambda: self._process.wait(GONE_WITHIN))
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        while not self.ended:
            self._news.clear()
            await self._news.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code, (self.folder / "stderr").read_text(errors="replace")


def session_files(folder: Path) -> dict[str, list[Any]]:
    found = {}
    for path in sorted(folder.rglob("*.jsonl")):
        data = path.read_bytes()
        assert data.endswith(b"\n"), f"{path} ends inside a line"
        found[str(path)] = [json.loads(line) for line in data.splitlines()]
    return found


def left_running(folder: Path) -> list[str]:
    """Processes that work in this folder and do not end."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                inside = os.readlink(f"/proc/{name}/cwd").startswith(str(folder))
                line = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                # The tool runner of this process is shared by all that is served here, and stays.
                shared = "runtime/machine/supervisor.py" in line and int(name) in below(os.getpid())
                if inside and not shared and not is_gone(int(name), within=GONE_WITHIN):
                    found.append(line)
    return found


def below(pid: int) -> set[int]:
    """The children of a process, and theirs."""
    found: set[int] = set()
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                found |= {int(child), *below(int(child))}
    return found
