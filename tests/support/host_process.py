"""`tau serve` as a real process, and clients on its socket. Every wait is for a record, with a deadline."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.rpc_process import WITHIN, surroundings

Json = dict[str, Any]


class HostProcess:
    """A host in folders of its own, below `folder`. Started again in the same folders, it finds what is there."""

    def __init__(self, folder: Path, *answers: Json, args: Sequence[str] = ("--no-tcp",)) -> None:
        self.folder = folder
        env = surroundings(folder)
        self.socket_path = folder / "agent" / "serve" / "host.sock"
        script = folder / "script.json"
        script.write_text(json.dumps({"answers": answers or [{"text": "ok"}]}))
        argv = [sys.executable, "-m", "tau", "serve", "--model", "scripted", "--script", str(script), *args]
        self._stderr = folder / "stderr"
        with self._stderr.open("ab") as stderr:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, cwd=folder / "work", env=env
            )
        assert self.process.stdout is not None
        self.greeting = self.process.stdout.readline().decode()
        assert self.greeting.startswith("listening on "), self.stderr

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def client(self, **hello: Any) -> SocketClient:
        client = SocketClient(self.socket_path)
        client.greeting = client.get("hello", version=1, **hello)
        return client

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(WITHIN)
        self._close()
        return code

    def memory(self) -> int:
        """The resident memory, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.stop()
        assert "Traceback" not in self.stderr, self.stderr


class SocketClient:
    """A client on the socket of a host. `records` is everything that it received."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(WITHIN)
        self.socket.connect(str(path))
        self.records: list[Json] = []
        self.lines: list[bytes] = []
        self.greeting: Json = {}
        self._rest = b""
        self._count = 0
        self._next = 0

    def send(self, type: str, **fields: Any) -> str:
        self._count += 1
        id = f"r{self._count}"
        self.socket.sendall(json.dumps({"id": id, "type": type, **fields}).encode() + b"\n")
        return id

    def ask(self, type: str, **fields: Any) -> Json:
        id = self.send(type, **fields)
        return self.until(lambda record: record["type"] == "response" and record.get("id") == id)

    def get(self, type: str, **fields: Any) -> Any:
        answer = self.ask(type, **fields)
        assert answer["success"], answer
        return answer.get("data")

    def until(self, wanted: Callable[[Json], bool] | str, start: int | None = None) -> Json:
        """The first record that is wanted after the one that was returned last: it may have come together with that."""
        accepts = (lambda record: record["type"] == wanted) if isinstance(wanted, str) else wanted
        at = self._next if start is None else start
        until = time.monotonic() + WITHIN
        while True:
            for number, record in enumerate(self.records[at:], at):
                if accepts(record):
                    self._next = number + 1
                    return record
            at = len(self.records)
            assert time.monotonic() < until, self.records[-5:]
            if not self.read():
                raise ConnectionResetError(f"the host has closed the connection; received {self.records[-3:]}")

    def read(self) -> bool:
        """Read what is there. False at the end."""
        data = self.socket.recv(1 << 20)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.lines += lines
        self.records += map(json.loads, lines)
        return bool(data)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def processes_with(mark: str) -> list[int]:
    """The processes whose command line has this mark."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                line = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(int(entry))
    return found
