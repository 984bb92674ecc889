"""`tau serve` as a process, with a scripted model and folders of its own. It can be killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.rpc_process import surroundings


class HostProcess:
    """The agent folder has a short path, because it contains a socket."""

    def __init__(self, folder: Path, *answers: Any, args: Sequence[str] = ()) -> None:
        self._short = tempfile.TemporaryDirectory(prefix="tau-serve-")
        agent = Path(self._short.name) / "agent"
        self.env = {**surroundings(folder), "PI_CODING_AGENT_DIR": str(agent), "PYTHONUNBUFFERED": "1"}
        agent.mkdir()
        self.cwd = folder / "work"
        script = folder / "script.json"
        script.write_text(json.dumps({"answers": answers or [{"text": "ok"}]}))
        self._argv = [sys.executable, "-m", "tau", "serve", "--model", "scripted", "--script", str(script)]
        self._argv += args or ["--no-tcp"]
        self.socket = agent / "serve" / "host.sock"
        self.url = f"unix:{self.socket}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it listens."""
        self.process = subprocess.Popen(self._argv, env=self.env, cwd=self.cwd, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert b"listening" in self.process.stdout.readline()

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            finally:
                self.kill()
        self._short.cleanup()

    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.env}
