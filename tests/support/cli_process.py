"""Runs `pi` as a person or a script does: once, to its end, in folders of its own, with a scripted model."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from support.rpc_process import WITHIN, Json, as_record, kinds, surroundings

PROGRAMS = {name: [sys.executable, "-c", f"from tau.cli.main import {name}; {name}()"] for name in ("pi", "tau")}
PI = PROGRAMS["pi"]
QUICK_RETRIES = {"retry": {"baseDelayMs": 1, "maxRetries": 2}}


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def records(self) -> list[Json]:
        """Every line of stdout, each of which must be a record."""
        found = [as_record(line) for line in self.out.encode().splitlines()]
        assert None not in found, self.out
        return [record for record in found if record is not None]

    @property
    def kinds(self) -> list[str]:
        return kinds(self.records)


def scripted(folder: Path, *answers: Json) -> list[str]:
    script = folder / "script.json"
    folder.mkdir(parents=True, exist_ok=True)
    script.write_text(json.dumps({"answers": answers or [{"text": "ok"}]}))
    return ["--model", "scripted", "--script", str(script)]


def start(
    folder: Path, *argv: str, answers: Sequence[Json] = (), settings: Json | None = None, **how: Any
) -> subprocess.Popen[bytes]:
    """The program, under way. Without a word about it, it is `pi`, and stdin is empty."""
    program = PROGRAMS[how.pop("program", "pi")]
    env = {**surroundings(folder, settings), **how.pop("env", {})}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    model = [] if "--model" in argv else scripted(folder, *answers)
    return subprocess.Popen([*program, *model, *argv], cwd=folder / "work", env=env, **streams)


def run(folder: Path, *argv: str, piped: str | None = None, **how: Any) -> Done:
    if piped is not None:
        how["stdin"] = subprocess.PIPE
    process = start(folder, *argv, **how)
    try:
        out, err = process.communicate(piped.encode() if piped is not None else None, timeout=WITHIN)
    finally:
        process.kill()
        process.wait()
    done = Done(process.returncode, (out or b"").decode(), (err or b"").decode())
    assert "Traceback" not in done.err, done.err
    return done


def asked(folder: Path) -> list[Any]:
    """What the user said, in the only session of this folder: the content of each message."""
    (file,) = (folder / "agent" / "sessions").rglob("*.jsonl")
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    messages = [entry["message"] for entry in entries if entry["type"] == "message"]
    return [message["content"] for message in messages if message["role"] == "user"]
