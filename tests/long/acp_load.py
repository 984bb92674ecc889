"""Load on `tau acp`, beside RPC mode of the dialect with deltas only: the figures that docs/acp.md has.

    python tests/long/acp_load.py pieces      10,000 pieces of text: bytes and CPU, against RPC mode
    python tests/long/acp_load.py stalled     a client that does not read for 30 s: memory, the text is whole
    python tests/long/acp_load.py sessions    50 sessions in one process: memory of each, 100 rounds side by side
    python tests/long/acp_load.py replay      a session file of 60 MB: time and memory, against get_messages

Without arguments, all of them. Linux only: memory and CPU are read from /proc.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.sessions import make  # noqa: E402

from support.acp_peer import process_peer  # noqa: E402
from support.rpc_process import surroundings  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
PIECES = 10_000
TRIES = 5  # the best counts
STALL_S = 30.0
STALL_PIECES = 5_000
SESSIONS, ROUNDS = 50, 100
REPLAY_ENTRIES = 40_500  # about 60 MB
RPC = ("--mode", "rpc", "--dialect", "1.5")
Json = dict[str, Any]


class Program:
    """A started program whose lines are counted."""

    def __init__(self, folder: Path, argv: tuple[str, ...], answers: list[Json]) -> None:
        script = folder / "script.json"
        script.write_text(json.dumps({"answers": answers}))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tau", *argv, "--model", "scripted", "--script", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=surroundings(folder),
            cwd=folder / "work",
        )
        self.bytes = 0

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, message: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def lines(self) -> Iterator[bytes]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.bytes += len(line)
            yield line

    def until(self, found: Callable[[bytes], bool]) -> bytes:
        return next(line for line in self.lines() if found(line))

    def ask(self, message: Json) -> Json:
        self.send(message)
        mark = json.dumps(message["id"]).encode()
        answer = self.until(lambda line: mark in line and (b'"result"' in line or b'"response"' in line))
        found: Json = json.loads(answer)
        assert "error" not in found, found
        return found

    @property
    def cpu(self) -> float:
        """Seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory(self) -> float:
        """MB that are its own."""
        return pss(self.process.pid)

    @property
    def peak(self) -> float:
        """MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def pss(pid: int) -> float:
    return int(Path(f"/proc/{pid}/smaps_rollup").read_text().partition("Pss:")[2].split()[0]) / 1024


def check(what: str, value: float, limit: float, unit: str = "") -> bool:
    print(f"{'ok  ' if value <= limit else 'OVER'} {what}: {value:.3g}{unit} (at most {limit:g})", flush=True)
    return value <= limit


def request(id: str, method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def acp(folder: Path, answers: list[Json]) -> tuple[Program, str]:
    """`tau acp` with a session."""
    program = Program(folder, ("acp",), answers)
    program.ask(request("start", "initialize", protocolVersion=1, clientCapabilities={}))
    new = program.ask(request("new", "session/new", cwd=str(folder / "work"), mcpServers=[]))
    return program, new["result"]["sessionId"]


def prompt(session: str) -> Json:
    return request("go", "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])


def rpc_pieces(folder: Path, answer: Json) -> tuple[int, float]:
    """Bytes, and seconds of CPU."""
    with (program := Program(folder, RPC, [answer])):
        program.ask({"id": "state", "type": "get_state"})
        before, program.bytes = program.cpu, 0
        program.send({"id": "go", "type": "prompt", "message": "go"})
        program.until(lambda line: b'"agent_settled"' in line)
        return program.bytes, program.cpu - before


def acp_pieces(folder: Path, answer: Json) -> tuple[int, float]:
    """Bytes, and seconds of CPU."""
    program, session = acp(folder, [answer])
    with program:
        before, program.bytes = program.cpu, 0
        program.ask(prompt(session))
        return program.bytes, program.cpu - before


def pieces(folder: Path) -> bool:
    answer = {"blocks": [{"text": [f"word{at} " for at in range(PIECES)]}], "delayMs": 1}
    found = [(acp_pieces(folder, answer), rpc_pieces(folder, answer)) for _ in range(TRIES)]
    (acp_bytes, acp_cpu), (rpc_bytes, rpc_cpu) = (min(tries) for tries in zip(*found, strict=True))
    print(f"     {PIECES} pieces: ACP {acp_bytes} bytes, {acp_cpu:.2f} s of CPU; RPC {rpc_bytes}, {rpc_cpu:.2f} s")
    return check("bytes against RPC mode", acp_bytes / rpc_bytes, 2.5) & check("CPU", acp_cpu / rpc_cpu, 1.2)


def stalled(folder: Path) -> bool:
    words = [f"word{at} " + "x" * 200 for at in range(STALL_PIECES)]
    answer = {"blocks": [{"text": words}], "delayMs": 1}
    program, session = acp(folder, [answer])
    with program:
        before, most = program.memory, 0.0
        program.send(prompt(session))
        end = time.monotonic() + STALL_S
        while time.monotonic() < end:
            most = max(most, program.memory)
            time.sleep(0.5)
        text = ""
        for line in program.lines():
            message = json.loads(line)
            update = message.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk":
                text += update["content"]["text"]
            if message.get("id") == "go":
                break
    return check("the text is whole", int(text != "".join(words)), 0) & check("memory", most - before, 32, " MB")


def sessions(folder: Path) -> bool:
    async def main() -> tuple[float, int]:
        wrong = 0
        async with process_peer(folder, {"text": "the answer"}) as (peer, process):
            await peer.initialize()
            ids = [await peer.new(folder / "work")]
            await peer.prompt(ids[0])
            before = pss(process.pid)
            ids += [await peer.new(folder / "work") for _ in range(SESSIONS - 1)]
            wrong += sum(end != "end_turn" for end in await asyncio.gather(*map(peer.prompt, ids)))
            each = (pss(process.pid) - before) / (SESSIONS - 1)
            for at in range(ROUNDS):
                two = ids[at % SESSIONS], ids[(at + 1) % SESSIONS]
                start = len(peer.received)
                wrong += sum(end != "end_turn" for end in await asyncio.gather(*map(peer.prompt, two)))
                for id in two:
                    chunks = peer.updates("agent_message_chunk", id, start)
                    wrong += "".join(one["content"]["text"] for one in chunks) != "the answer"
        return each, wrong

    each, wrong = asyncio.run(main())
    return check(f"memory for each of {SESSIONS} sessions", each, 1, " MB") & check("wrong answers", wrong, 0)


def replay(folder: Path) -> bool:
    program, _ = acp(folder, [{"text": "ok"}])
    with program:
        pass
    with (program := Program(folder, RPC, [{"text": "ok"}])):
        state = program.ask({"id": "state", "type": "get_state"})
    place = Path(state["data"]["sessionFile"]).parent
    place.mkdir(parents=True, exist_ok=True)
    id = "0199e4a2-7c11-7f3a-9d50-3f2b8c1d4e5f"
    file = place / f"2026-09-21T14-00-00-000Z_{id}.jsonl"
    make(file, folder / "work", REPLAY_ENTRIES)
    began = time.monotonic()
    with (program := Program(folder, (*RPC, "--session", str(file)), [{"text": "ok"}])):
        program.ask({"id": "state", "type": "get_messages"})
        rpc_s, rpc_mb = time.monotonic() - began, program.peak
    began = time.monotonic()
    with (program := Program(folder, ("acp",), [{"text": "ok"}])):
        program.ask(request("start", "initialize", protocolVersion=1, clientCapabilities={}))
        program.ask(request("load", "session/load", sessionId=id, cwd=str(folder / "work"), mcpServers=[]))
        acp_s, acp_mb = time.monotonic() - began, program.peak
    size = file.stat().st_size / 1e6
    print(f"     {size:.0f} MB: ACP {acp_s:.2f} s, {acp_mb:.0f} MB; RPC {rpc_s:.2f} s, {rpc_mb:.0f} MB")
    return check("time of a replay", acp_s / rpc_s, 2) & check("its memory", acp_mb / rpc_mb, 1.3)


PARTS = {"pieces": pieces, "stalled": stalled, "sessions": sessions, "replay": replay}


def main() -> int:
    held = True
    for name in sys.argv[1:] or PARTS:
        print(f"{name}:", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            held = PARTS[name](Path(folder)) and held
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
