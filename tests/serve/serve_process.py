"""`tau serve` as a process, and a plain HTTP client for it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from support.cli_process import scripted
from support.rpc_process import WITHIN, Json, surroundings

TAU = [sys.executable, "-c", "from tau.cli.main import tau; tau()"]


class Reply(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ServeProcess:
    """A host on a free port. It ends with `stop`, or at the end of a `with` block."""

    def __init__(self, folder: Path, *argv: str, answers: tuple[Json, ...] = ()) -> None:
        self.folder = folder
        self.env = surroundings(folder)
        listen = [] if "--listen" in argv or "--no-tcp" in argv else ["--listen", "127.0.0.1:0"]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - not a pipe, which could fill up
        self.process = subprocess.Popen(
            [*TAU, "serve", *listen, *scripted(folder, *answers), *argv],
            cwd=folder / "work",
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self) -> ServeProcess:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), self.errors
        self.url = line.split(" and ")[-1].strip()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._errors.close()

    def stop(self) -> tuple[int, str]:
        """Ask it to end. Returns its exit code and stderr."""
        self.process.terminate()
        try:
            self.process.communicate(timeout=WITHIN)
        finally:
            self.process.kill()
            self.process.wait()
        return self.process.returncode, self.errors

    @property
    def errors(self) -> str:
        """What it has written to stderr."""
        self._errors.seek(0)
        return self._errors.read()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def token(self) -> str:
        return (self.folder / "agent" / "serve" / "token").read_text().strip()

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN)
        given = self.token if token is None else token
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            return Reply(answer.status, answer.read())
        finally:
            connection.close()

    def command(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command of tau beside the host."""
        return run_tau(self.folder, *argv)


def run_tau(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = surroundings(folder)
    return subprocess.run(
        [*TAU, *argv],
        cwd=folder / "work",
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
