"""R5: broken session files and broken answers of model servers. None crashes anything, none takes longer than 5 s.

Most are opened and read in this process; a hundredth of them by the real program,
and over a real connection. What failed is written to a folder that is named on
stderr, from where it goes to tests/faults/corpus.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from traceback import format_exception_only

from faults.corpus import keep
from faults.mutations import Random
from faults.sessions import SLOW, mutated_session, use_session
from faults.streams import mutated_stream, read_over_network, read_stream
from gate.figure import Figure
from support.rpc_process import WITHIN, Agent

EACH = 5_000
LOT = 250
THOROUGHLY = 10  # every tenth file
SAMPLE = 100  # every hundredth goes the whole way

Lot = tuple[int, int]  # the first case, and how many


class Hang(Exception):
    """Longer than it may take."""


def measure(scale: float, seed: int) -> list[Figure]:
    amount = max(SAMPLE, round(EACH * scale))
    return [
        Figure("R5", "sessions that crash or hang", amount, _in_processes(amount, partial(_sessions, seed)), 0),
        Figure("R5", "streams that crash or hang", amount, _in_processes(amount, partial(_streams, seed)), 0),
        Figure("R5", "whole programs that a broken session ends", amount // SAMPLE, _by_program(amount, seed), 0),
        Figure("R5", "connections with broken answers", amount // SAMPLE, _over_network(amount, seed), 0),
    ]


def _in_processes(amount: int, work: Callable[[Lot], int]) -> int:
    """Two at a time, each with a main thread of its own, which an alarm can wake."""
    lots = [(start, min(LOT, amount - start)) for start in range(0, amount, LOT)]
    with ProcessPoolExecutor(2, get_context("forkserver")) as pool:
        return sum(pool.map(work, lots))


def _sessions(seed: int, lot: Lot) -> int:
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
        path = Path(folder) / "session.jsonl"
        for number in range(lot[0], lot[0] + lot[1]):
            data = mutated_session(Random(f"{seed}/{number}"))
            path.write_bytes(data)
            try:
                with alarm(SLOW):
                    use_session(path, thoroughly=number % THOROUGHLY == 0)
            except Exception as error:
                failed += 1
                _tell(error, keep("sessions", f"{seed}-{number}", data))
            path.unlink()
            for backup in path.parent.glob("*.bak*"):
                backup.unlink()
    return failed


def _streams(seed: int, lot: Lot) -> int:
    failed = 0

    async def main() -> None:
        nonlocal failed
        for number in range(lot[0], lot[0] + lot[1]):
            case = mutated_stream(Random(f"{seed}/{number}"))
            try:
                with alarm(SLOW):
                    await read_stream(case)
            except Exception as error:
                failed += 1
                _tell(error, keep(f"streams/{case.api}", f"{seed}-{number}", b"".join(case.portions)))

    asyncio.run(main())
    return failed


def _by_program(amount: int, seed: int) -> int:
    """One program opens them all, one after another, is asked for everything, and goes on with each."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as scratch:
        folder = Path(scratch).resolve()
        agents = [Agent(folder / "0")]
        agents[0].get("get_state")
        for number in range(0, amount // SAMPLE * SAMPLE, SAMPLE):
            path = folder / f"{number}.jsonl"
            path.write_bytes(data := mutated_session(Random(f"{seed}/{number}")))
            try:
                _switched(agents[-1], path)
            except AssertionError as error:
                failed += 1
                _tell(error, keep("sessions", f"{seed}-{number}", data))
                agents.append(Agent(folder / str(len(agents))))
        for agent in agents:
            agent.end()
    return failed


def _switched(agent: Agent, path: Path) -> None:
    before = agent.cpu
    if agent.ask("switch_session", sessionPath=str(path))["success"]:
        for kind in ("get_state", "get_entries", "get_messages", "get_tree", "get_session_stats", "get_fork_messages"):
            agent.get(kind)
        agent.get("get_last_assistant_text")
        agent.get("clear_queue")
        agent.prompt("one more")
    agent.forget()
    assert not agent.broken, agent.transcript()
    assert agent.cpu - before < SLOW, f"took {agent.cpu - before:.1f} s"


def _over_network(amount: int, seed: int) -> int:
    failed = 0
    for number in range(0, amount // SAMPLE * SAMPLE, SAMPLE):
        case = mutated_stream(Random(f"{seed}/{number}"))
        try:
            asyncio.run(read_over_network([case]))
        except Exception as error:
            failed += 1
            _tell(error, keep(f"streams/{case.api}", f"{seed}-{number}", b"".join(case.portions)))
    return failed


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise Hang in the middle of whatever takes longer: of processor time, since a machine may have much else to do.

    What waits without working is not waited for either.
    """

    def ring(*_: object) -> None:
        raise Hang(f"not done within {seconds} s")

    timers = ((signal.ITIMER_PROF, signal.SIGPROF, seconds), (signal.ITIMER_REAL, signal.SIGALRM, WITHIN))
    for timer, number, limit in timers:
        signal.signal(number, ring)
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer, number, _ in timers:
            signal.setitimer(timer, 0)
            signal.signal(number, signal.SIG_DFL)


def _tell(error: Exception, where: Path) -> None:
    print(f"{where}: {''.join(format_exception_only(error)).strip()}", file=sys.stderr, flush=True)
