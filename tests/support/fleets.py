"""Fleets as processes: a task file, `tau fleet run`, its folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.rpc_process import Json
from tau import __version__


def wait_for(condition: Callable[[], object], what: str = "it did not happen", timeout: float = 60) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def can_mount() -> bool:
    probe = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs -o size=1m none /mnt"]
    return shutil.which("unshare") is not None and subprocess.run(probe, capture_output=True).returncode == 0


class FleetRun:
    """`folder` gets everything; the model is scripted unless a task says otherwise."""

    def __init__(self, folder: Path, answers: Sequence[Json] = ({"text": "ok"},)) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.file = folder / "tasks.jsonl"
        self.script = folder / "script.json"
        self.script.write_text(json.dumps({"answers": list(answers)}))
        self.variables: dict[str, str] = {}
        (folder / "agent").mkdir(exist_ok=True)

    def tasks(self, tasks: Iterable[Mapping[str, Any]]) -> None:
        usual = {"prompt": "Do it.", "model": "scripted", "script": str(self.script)}
        self.file.write_text("".join(json.dumps({**usual, **task}) + "\n" for task in tasks))

    def argv(self, *flags: str) -> list[str]:
        """The command line; `--sandbox none` unless it is among the flags."""
        sandbox = [] if "--sandbox" in flags else ["--sandbox", "none"]
        return [
            *(sys.executable, "-m", "tau", "fleet", "run", str(self.file), "--out", str(self.out)),
            *sandbox,
            *flags,
        ]

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "PI_CODING_AGENT_DIR": str(self.folder / "agent"), **self.variables}

    def run(self, *flags: str, timeout: float = 100) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*flags),
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(self, *flags: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv(*flags), env=self.env, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    @contextmanager
    def running(self, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
        """The same, killed at the end: its workers stop their agents then."""
        process = self.start(*flags)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "tau", "fleet", *words]
        return subprocess.run(
            argv, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )

    def results(self) -> dict[str, Json]:
        """By id. Each task must be there once."""
        lines = [json.loads(line) for line in (self.out / "results.jsonl").read_text().splitlines()]
        found = {line["id"]: line for line in lines}
        assert len(found) == len(lines), "a task has two results"
        return found

    def stub_worker(self, slots: int = 8) -> str:
        """A command for `--worker`: a worker that starts at once and has no agent."""
        stub = Path(__file__).with_name("stub_fleet_worker.py")
        return f"{sys.executable} -S -E {stub} {__version__} {slots} 50 worker {self.out / 'local'}"

    def workers(self) -> list[int]:
        """The process ids of the workers of this fleet."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if b"worker" in words and str(self.out / "local").encode() in words:
                    found.append(int(entry.name))
        return found


def repository(folder: Path, files: Mapping[str, str] | None = None) -> Path:
    """A git repository with one commit."""
    folder.mkdir(parents=True)
    for name, text in (files or {"a.txt": "one\n"}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)
    return folder
