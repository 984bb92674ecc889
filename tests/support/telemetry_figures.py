"""Figures of telemetry: content that got out, sessions that were mixed, and what a receiver that hangs costs."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support.library_agent import calls, opened, says
from support.otlp import Receiver, Seen
from support.otlp_check import complaints
from support.rpc_process import Agent
from support.telemetry_canaries import found, many_runs
from tau.runtime.telemetry import start

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CANARIES_OF_A_RUN = 53


class Tried(NamedTuple):
    tried: int
    found: list[str]


@contextmanager
def fresh_process(receiver: Receiver) -> Iterator[Mapping[str, str]]:
    """The environment that sends to this receiver; what this process sent before does not count.

    Nothing is sent afterwards: the threads of the exporters end.
    """
    own = logging.getLogger("tau")
    before, handlers = dict(start._of_process), list(own.handlers)
    start._of_process.clear()
    try:
        yield {ENDPOINT: receiver.url}
        start.flush()
    finally:
        for shared in start._of_process.values():
            for provider in shared.sdk._owned:
                provider.shutdown()
        start._of_process.clear()
        start._of_process.update(before)
        own.handlers[:] = handlers


def canaries(folder: Path, wanted: int) -> tuple[Tried, Tried]:
    """Canaries in exported bytes, and what is not as the conventions have it."""
    with Receiver() as receiver, fresh_process(receiver) as environment:
        made = asyncio.run(many_runs(folder, max(1, wanted // CANARIES_OF_A_RUN + 1), environment))
    wrong = complaints(receiver.spans, receiver.points, receiver.records)
    return Tried(made.count, found(receiver.bodies)), Tried(len(receiver.spans) + len(receiver.points), wrong)


def sessions(folder: Path, count: int) -> Tried:
    """Sessions at once in one process: spans whose parent or trace is that of another."""

    async def one(number: int, environment: Mapping[str, str]) -> None:
        answers = (calls("bash", command="true"), says("a"), says("b"))
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), **environment}
        async with opened(folder / str(number), *answers, telemetry=True, env=env) as agent:
            await agent.prompt("Hi")
            await agent.prompt("again")

    async def story(environment: Mapping[str, str]) -> None:
        await asyncio.gather(*(one(number, environment) for number in range(count)))

    with Receiver() as receiver, fresh_process(receiver) as environment:
        asyncio.run(story(environment))
    mixed = list(_mixed(receiver.spans))
    if len(receiver.spans) != 6 * count:
        mixed.append(f"{len(receiver.spans)} spans of {count} sessions")
    return Tried(count, mixed)


def _mixed(spans: list[Seen]) -> Iterator[str]:
    known = {span.id: span for span in spans}
    for span in spans:
        parent = known.get(span.parent)
        if span.name == "invoke_agent tau":
            if span.parent:
                yield f"{span.name} has a parent"
        elif parent is None or parent.name != "invoke_agent tau":
            yield f"{span.name} has no run"
        elif parent.trace != span.trace or _session(parent) != _session(span):
            yield f"{span.name} is in a run of another session"


def _session(span: Seen) -> object:
    return span.attributes["gen_ai.conversation.id"]


class Cost(NamedTuple):
    """Of a process with telemetry."""

    prompt_ms: float  # p50
    end_s: float
    kib: int


@contextmanager
def silent() -> Iterator[str]:
    """A receiver that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def cost(folder: Path, url: str, prompts: int) -> Cost:
    """Prompts over RPC, two spans each, and the end of the program."""
    env = {"TAU_TELEMETRY": "1", ENDPOINT: url}
    with Agent(folder, settings={}, args=["--no-session"], env=env) as agent:
        times = []
        for _ in range(prompts):
            begun = time.perf_counter()
            agent.prompt("Hi")
            times.append(time.perf_counter() - begun)
            agent.forget()
        kib = _resident_kib(agent.pid)
        begun = time.perf_counter()
        agent.close()
        assert agent.exit_code() == 0
        end_s = time.perf_counter() - begun
    return Cost(statistics.median(times) * 1000, end_s, kib)


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
