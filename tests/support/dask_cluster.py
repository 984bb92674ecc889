"""A dask cluster of processes: a scheduler and workers, each of which can be killed."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from support.fleets import FleetRun

MISSING = "dask.distributed is not installed: make test-fleet"


def is_installed() -> bool:
    return importlib.util.find_spec("distributed") is not None


class DaskCluster:
    """`prefix` is put before the command of each process, to start it elsewhere (another network namespace).

    All have the credentials in `config`.
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.host = host
        self.config = folder / "credentials"
        words = [sys.executable, "-m", "tau", "fleet", "credentials", str(self.config)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", ["scheduler", "--host", host, "--port", "0", "--no-dashboard"])
        self.address = self._wait_for_address()

    def _start(self, name: str, words: Sequence[str], prefix: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "DASK_CONFIG": str(self.config),
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "15s",
            "DASK_DISTRIBUTED__COMM__RETRY__COUNT": "0",
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _wait_for_address(self) -> str:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            text = (self.folder / "scheduler.log").read_text()
            if found := re.search(r"Scheduler at:\s+(tls://\S+)", text):
                return found[1]
            assert self.scheduler.poll() is None, text
            time.sleep(0.05)
        raise AssertionError("the scheduler did not start")

    def add_worker(
        self, name: str, host: str | None = None, prefix: Sequence[str] = (), scratch: Path | None = None
    ) -> subprocess.Popen[bytes]:
        words = ["worker", self.address, "--name", name, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        words += [
            "--host",
            host or self.host,
            "--local-directory",
            str(scratch or self.folder / name),
            "--death-timeout",
            "60",
        ]
        return self._start(name, words, prefix)

    def flags(self, fleet: FleetRun) -> tuple[str, str]:
        """Of a fleet that uses this cluster, and now has its credentials."""
        fleet.variables["DASK_CONFIG"] = str(self.config)
        return ("--engine", f"dask:{self.address}")

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def fleet_workers(folder: Path) -> list[int]:
    """The processes `tau fleet worker` whose files are below a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"worker" in words and b"fleet" in words and any(word.startswith(bytes(folder)) for word in words):
                found.append(int(entry.name))
    return found
