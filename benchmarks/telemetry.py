"""What telemetry costs: nothing that can be measured while it is off, and little while it is on.

    python -m benchmarks.telemetry [--only off|on] [--rounds 5]

Off is compared with a copy of tau from which every call of an observer is removed, in instructions (valgrind). On is
compared with off, in instructions and in processor time, the threads that send included; the receiver is on loopback.
A piece and a turn are differences between a long and a short run of the same program.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PIECES, TURNS = 5_000, 50  # for instructions
CPU_PIECES, CPU_TURNS = 100_000, 300  # for processor time
LIMIT_OFF = 0.001
# It takes a million instructions, and one object more or less moves it: two programs could not be compared.
NO_GARBAGE_COLLECTION = """
import gc

gc.disable()
gc.enable = lambda: None
gc.collect = lambda generation=2: 0
"""
LIMIT_TURN_MS, LIMIT_PIECE_US = 0.5, 0.2

# Every place in which a run tests for an observer, and the same without it.
SEAMS: Mapping[str, Sequence[tuple[str, str]]] = {
    "runtime/session/session.py": (
        ("None if services.observe is None else services.observe(self)", "None"),
        ("        self.tool_runner.observer = self.observer\n", ""),
        ("        if self.observer is not None:\n            self.observer.run_started()\n", ""),
        ("        if self.observer is not None:\n            self.observer.accepted(trace_parent)\n", ""),
        ("        if self.observer is not None:\n            self.observer.on_event(event)\n", ""),
    ),
    "runtime/runs/model_client.py": (
        ("        observed = None if self._observer is None else self._observer.model_call(draft)\n", ""),
        (
            "        if observed is not None and (headers := observed.sent(model, options, context)):\n"
            "            model = replace(model, headers={**(model.headers or {}), **headers})\n",
            "",
        ),
        ("                if observed is not None:\n                    observed.received(facts)\n", ""),
        (
            "                    if observed is not None:\n                        observed.done(facts[-1].message)\n",
            "",
        ),
        ("            if observed is not None:\n                observed.ended(sys.exception())\n", ""),
    ),
    "runtime/runs/tool_runner.py": (
        ("None if self.observer is None else self.observer.command_environment()", "None"),
    ),
    "runtime/app/factory.py": (
        (
            "            observe=self._telemetry(front_end or mode,"
            " processes.sandbox.level if processes.sandbox else None),\n",
            "",
        ),
    ),
}


class Job(NamedTuple):
    """A prompt of a scripted model, and how many pieces or turns it has more than the short one."""

    name: str
    script: Mapping[str, Any]
    count: int


def jobs(pieces: int, turns: int) -> dict[str, Job]:
    last = {"text": "done"}
    call = {"blocks": [{"tool": "ls", "arguments": {"path": "."}}]}
    return {
        "short": Job("short", {"answers": [last]}, 1),
        "pieces": Job("pieces", {"answers": [{"blocks": [{"text": ["word "]}], "repeat": pieces}]}, pieces),
        "turns": Job("turns", {"answers": [*[call] * turns, last]}, turns),
    }


class Counted(NamedTuple):
    instructions: float
    cpu_s: float


def run(source: Path, job: Job | None, environment: Mapping[str, str], *, count: bool) -> Counted:
    """One process over RPC: a start, and a prompt if there is a job. `count` its instructions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        (folder / "script.json").write_text(json.dumps(job.script if job else {"answers": [{"text": "ok"}]}))
        log = folder / "log"
        before = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        before += [f"--log-file={log}", "--child-silent-after-fork=yes"]
        flags = ["--mode", "rpc", "--no-session", "--model", "scripted", "--script", str(folder / "script.json")]
        argv = [*(before if count else ()), sys.executable, "-m", "tau", *flags, "--tools", "ls"]
        if count:
            (folder / "sitecustomize.py").write_text(NO_GARBAGE_COLLECTION)
        own = {"PYTHONPATH": f"{source}:{folder}", "PYTHONHASHSEED": "0", "PI_CODING_AGENT_DIR": name}
        other = ("OTEL_", "TAU_", "PI_", "PYTHON")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(other)}
        with subprocess.Popen(
            argv,
            cwd=folder / "work",
            env={**kept, **own, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            cpu = _converse(process, job)
        found = re.search(r"I\s+refs:\s+([\d,]+)", log.read_text()) if count else None
    return Counted(float(found[1].replace(",", "")) if found else 0.0, cpu)


def _converse(process: subprocess.Popen[bytes], job: Job | None) -> float:
    assert process.stdin is not None and process.stdout is not None
    line = {"type": "prompt", "message": "go"} if job else {"type": "get_state"}
    until = b'{"type":"agent_settled"' if job else b'"type":"response"'
    process.stdin.write(json.dumps(line).encode() + b"\n")
    process.stdin.flush()
    for answer in process.stdout:
        if until in answer[:60]:
            break
    process.stdin.close()
    process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_utime + used.ru_stime


def copy(folder: Path, changed: Mapping[str, Sequence[tuple[str, str]]]) -> Path:
    """A copy of tau, with these changes: that files change while it is measured does not matter then."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name, changes in changed.items():
        file = folder / "src" / "tau" / name
        text = file.read_text()
        for old, new in changes:
            if text.count(old) != 1:
                sys.exit(f"{name} has no longer:\n{old}")
            text = text.replace(old, new)
        file.write_text(text)
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder / "src"], check=True)
    return folder / "src"


@contextmanager
def sink() -> Iterator[Mapping[str, str]]:
    """A receiver in this process that takes everything; the environment that sends to it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"TAU_TELEMETRY": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        server.shutdown()


def off(rounds: int) -> list[tuple[str, float, str, bool]]:
    """Rows: what, the figure, its unit, and whether it holds."""
    with tempfile.TemporaryDirectory() as name:
        all_jobs = jobs(PIECES, TURNS)
        here, bare = copy(Path(name) / "with", {}), copy(Path(name) / "none", SEAMS)

        def least(source: Path, job: Job | None) -> float:
            return min(run(source, job, {}, count=True).instructions for _ in range(rounds))

        def more(source: Path, job: str) -> float:
            return least(source, all_jobs[job]) - least(source, all_jobs["short"])

        figures: dict[str, Callable[[Path], float]] = {
            "start": lambda source: least(source, None),
            "a piece": lambda source: more(source, "pieces") / PIECES,
            "a turn": lambda source: more(source, "turns") / TURNS,
        }
        rows = []
        for what, figure in figures.items():
            with_seam, without = figure(here), figure(bare)
            share = with_seam / without - 1
            rows.append((f"off: {what}, {without:,.0f} instructions", share * 100, "%", share <= LIMIT_OFF))
        return rows


def on(rounds: int) -> list[tuple[str, float, str, bool]]:
    fewer, more, here = jobs(PIECES, TURNS), jobs(CPU_PIECES, CPU_TURNS), ROOT / "src"
    taken: dict[tuple[str, str], list[float]] = {}
    with sink() as sending:
        switched = {"on": sending, "off": {}}
        for _ in range(rounds):  # in turns, so that a slow minute hits all
            for job in more.values():
                for which, environment in switched.items():
                    one = run(here, job, environment, count=False)
                    taken.setdefault((job.name, which), []).append(one.cpu_s)
        counts = {
            (job.name, which): run(here, job, environment, count=True).instructions
            for job in fewer.values()
            for which, environment in switched.items()
        }

    def difference(found: Mapping[tuple[str, str], float], job: Job) -> float:
        """Of one piece or turn, on and off."""
        on, off = (found[job.name, which] - found["short", which] for which in ("on", "off"))
        return (on - off) / job.count

    def instructions(job: str) -> float:
        return difference(counts, fewer[job])

    times = {key: median(found) for key, found in taken.items()}
    turn, piece = difference(times, more["turns"]) * 1e3, difference(times, more["pieces"]) * 1e6

    return [
        (f"on: a turn with a tool call, {instructions('turns'):+,.0f} instructions", turn, "ms", turn <= LIMIT_TURN_MS),
        (f"on: a piece, {instructions('pieces'):+,.0f} instructions", piece, "us", piece <= LIMIT_PIECE_US),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what telemetry costs.")
    parser.add_argument("--only", choices=("off", "on"))
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rows = [*(off(given.rounds) if given.only != "on" else ()), *(on(given.rounds) if given.only != "off" else ())]
    for what, figure, unit, holds in rows:
        print(f"{what:56} {figure:+8.3f} {unit:3} {'holds' if holds else 'OVER'}")
    return 0 if all(row[3] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
