"""What is measured. Every job has a floor: the least that plain Python does for the same, in the same run.

Only the ratio to the floor means something; the seconds depend on the machine
and on what else it does. Contenders take turns, so that a slow minute hits all.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from program import Program, seconds

PI = str(Path(sys.executable).parent / "pi")
GET_STATE = b'{"type":"get_state"}\n'
PROMPT = b'{"type":"prompt","message":"go"}\n'
PIECE = "word, "
# One model of an API that is never called, so that tau and its peer have the same to do at their start.
MODEL = {
    "id": "m",
    "name": "M",
    "reasoning": False,
    "input": ["text"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 100_000,
    "maxTokens": 4_096,
}
PROVIDER = {"baseUrl": "http://127.0.0.1:9", "api": "anthropic-messages", "apiKey": "none", "models": [MODEL]}
RPC = ("--mode", "rpc", "--no-session", "--provider", "bench", "--model", "m")

ANSWERER = """\
import json, sys
state = json.loads(sys.argv[1])
for line in sys.stdin.buffer:
    command = json.loads(line)
    sys.stdout.buffer.write(json.dumps(state).encode() + b"\\n")
    sys.stdout.buffer.flush()
"""
SPEAKER = """\
import json, sys, time
count, pause, piece = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
text = ""
for line in sys.stdin.buffer:
    for _ in range(count):
        if pause:
            time.sleep(pause / 1000)
        text += piece
        message = {"role": "assistant", "content": [{"type": "text", "text": text}], "usage": {"input": 1, "output": 1}}
        delta = {"type": "text_delta", "contentIndex": 0, "delta": piece, "partial": message}
        record = {"type": "message_update", "message": message, "assistantMessageEvent": delta}
        sys.stdout.buffer.write(json.dumps(record).encode() + b"\\n")
        sys.stdout.buffer.flush()
    sys.stdout.buffer.write(b'{"type":"agent_settled"}\\n')
    sys.stdout.buffer.flush()
"""


@dataclass(frozen=True)
class Row:
    """A result. `limit` is what the ratio should stay under, where that was promised."""

    job: str
    unit: str
    value: float
    floor: float
    floor_is: str
    limit: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.value / self.floor


@dataclass(frozen=True)
class Bench:
    home: Path
    starts: int
    pieces: int
    trips: int
    peer: Sequence[str] = ()

    def prepare(self) -> None:
        (self.home / "models.json").write_text(json.dumps({"providers": {"bench": PROVIDER}}))

    def rows(self) -> Iterator[Row]:
        yield from self.starting()
        yield from self.helping()
        yield from self.streaming()
        yield from self.answering()
        yield from self.resting()

    # Starting.

    def starting(self) -> Iterator[Row]:
        contenders: dict[str, Callable[[], float]] = {
            "tau": lambda: self.first_answer([PI, *RPC]),
            "python": lambda: seconds([sys.executable, "-c", "pass"], self.home),
            "asyncio": lambda: seconds([sys.executable, "-c", "import asyncio, json"], self.home),
        }
        if self.peer:
            contenders["peer"] = lambda: self.first_answer([*self.peer, *RPC])
        taken = turns(self.starts, contenders)
        job = "start to the first get_state"
        yield Row(job, "ms", taken["tau"] * 1e3, taken["python"] * 1e3, "bare python")
        yield Row(job, "ms", taken["tau"] * 1e3, taken["asyncio"] * 1e3, "import asyncio, json")
        if self.peer:
            yield Row(job, "ms", taken["tau"] * 1e3, taken["peer"] * 1e3, "the peer")

    def first_answer(self, argv: Sequence[str]) -> float:
        with Program(argv, self.home) as program:
            program.say(GET_STATE)
            answer = json.loads(program.hear())
            taken = time.perf_counter() - program.started
        assert answer["success"], answer
        return taken

    def helping(self) -> Iterator[Row]:
        taken = turns(
            self.starts,
            {
                "tau": lambda: seconds([PI, "--help"], self.home),
                "argparse": lambda: seconds([sys.executable, "-c", "import argparse, json"], self.home),
            },
        )
        yield Row("pi --help", "ms", taken["tau"] * 1e3, taken["argparse"] * 1e3, "import argparse, json", limit=1.5)

    # Streaming. Processor time of a long answer less that of a short one: starting is not counted.

    def streaming(self) -> Iterator[Row]:
        for how, pause, times in (("as fast as it can", 0, 5), ("1 ms apart", 1, 1)):
            value, records = self.per_piece(partial(self.scripted, pause), times)
            floor, _ = self.per_piece(partial(self.plain, pause), times)
            note = f"{self.pieces} pieces in {records} records"
            yield Row(f"a piece, {how}", "us CPU", value * 1e6, floor * 1e6, "json.dumps of each record", note=note)

    def per_piece(self, argv: Callable[[int], Sequence[str]], times: int) -> tuple[float, int]:
        short = median(self.answer_cost(argv(1))[0] for _ in range(5))
        long = [self.answer_cost(argv(self.pieces)) for _ in range(times)]
        return (median(cost for cost, _ in long) - short) / (self.pieces - 1), long[0][1]

    def answer_cost(self, argv: Sequence[str]) -> tuple[float, int]:
        with Program(argv, self.home) as program:
            program.say(PROMPT)
            records, _ = program.hear_until(b'"agent_settled"')
            return program.end(), records

    def plain(self, pause: int, count: int) -> list[str]:
        return [sys.executable, "-c", SPEAKER, str(count), str(pause), PIECE]

    def scripted(self, pause: int, count: int) -> list[str]:
        script = self.home / f"script-{count}-{pause}.json"
        answer = {"blocks": [{"text": PIECE}], "repeat": count, "delayMs": pause}
        script.write_text(json.dumps({"answers": [answer]}))
        return [PI, "--mode", "rpc", "--model", "scripted", "--script", str(script)]

    # Answering.

    def answering(self) -> Iterator[Row]:
        with Program([PI, *RPC], self.home) as program:
            program.say(GET_STATE)
            state = program.hear().decode()
        tau, plain = [PI, *RPC], [sys.executable, "-c", ANSWERER, state]
        floor = "a loop of json.loads and json.dumps"
        one_by_one = turns(1, {"tau": lambda: self.round_trips(tau), "plain": lambda: self.round_trips(plain)})
        yield Row("get_state, one by one", "us", one_by_one["tau"] * 1e6, one_by_one["plain"] * 1e6, floor)
        at_once = turns(1, {"tau": lambda: self.all_at_once(tau), "plain": lambda: self.all_at_once(plain)})
        note = f"{self.trips} lines"
        yield Row("get_state, all at once", "us", at_once["tau"] * 1e6, at_once["plain"] * 1e6, floor, note=note)

    def round_trips(self, argv: Sequence[str]) -> float:
        with Program(argv, self.home) as program:
            program.say(GET_STATE)
            program.hear()
            started = time.perf_counter()
            for _ in range(self.trips):
                program.say(GET_STATE)
                program.hear()
            return (time.perf_counter() - started) / self.trips

    def all_at_once(self, argv: Sequence[str]) -> float:
        with Program(argv, self.home) as program:
            program.say(GET_STATE)
            program.hear()
            started = time.perf_counter()
            writer = threading.Thread(target=program.say, args=(GET_STATE * self.trips,))
            writer.start()
            program.hear_lines(self.trips)
            taken = time.perf_counter() - started
            writer.join()
        return taken / self.trips

    # Resting.

    def resting(self) -> Iterator[Row]:
        floor = self.memory([sys.executable, "-c", f"import asyncio, json\n{ANSWERER}", "{}"])
        offline = self.memory([PI, "--mode", "rpc", "--model", "demo"])
        online = self.memory([PI, *RPC])
        if floor is None or offline is None or online is None:
            return
        yield Row("idle memory, offline model", "MiB PSS", offline, floor, "import asyncio, json")
        yield Row("idle memory, HTTP model", "MiB PSS", online, floor, "import asyncio, json")
        if self.peer and (peer := self.memory([*self.peer, *RPC])) is not None:
            yield Row("idle memory, HTTP model", "MiB PSS", online, peer, "the peer")

    def memory(self, argv: Sequence[str]) -> float | None:
        with Program(argv, self.home) as program:
            program.say(GET_STATE)
            program.hear()
            return program.idle_memory()


def turns(count: int, contenders: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each, taking turns. A first turn warms the caches and is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(count + (count > 1)):
        for name, measure in contenders.items():
            value = measure()
            if turn or count == 1:
                taken[name].append(value)
    return {name: median(values) for name, values in taken.items()}
