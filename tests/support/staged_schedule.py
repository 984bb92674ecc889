"""What the schedules of all front ends share: one is played in a scheduled loop, and told as problems and a trace.

A kind of schedules (server, ACP, MCP, terminal) has a module with

    case(seed)             the schedule as JSON: `operations`, and how the surroundings behave
    play(case, workshop)   plays it and returns `Played`

An operation has `do`, `n` (its number, which makes its texts unique), and either `at`, the virtual time in seconds at
which it comes, or `on`: [EVENT, COUNT, PASSES], so many passes of the loop after the event has happened so often.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from support.schedule_cases import Json
from support.schedule_loop import ScheduleLoop, Stuck
from support.schedule_record import descriptors, targets
from support.schedule_world import Workshop, scheduled
from tau.records.base import replace
from tau.runtime.app.factory import SessionFactory
from tau.runtime.app.options import SessionOptions
from tau.runtime.app.session_choice import choose_session

Problem = tuple[str, str]
ABANDONED: list[Any] = []  # tasks of a schedule that was stuck, which must not be destroyed without their loop


@dataclass
class Played:
    """`problems` are the rules that were broken. `trace` is all that a client could see, with the steps."""

    problems: list[Problem] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0  # virtual


class Stage:
    """One schedule: its loop, the operations that wait for an event, and what was seen."""

    def __init__(self, case: Json, workshop: Workshop, *, permute: bool = False) -> None:
        self.case = case
        self.workshop = workshop
        self.played = Played()
        self.loop = ScheduleLoop(case["seed"], stall=case["stall"], permute=permute)
        self.random = self.loop.random
        self._counts: Counter[str] = Counter()
        self._waiting = [one for one in case["operations"] if "on" in one]
        self._perform: Callable[[Json], None] = lambda operation: None

    def play(
        self, main: Callable[[], Coroutine[Any, Any, None]], patches: Iterable[AbstractContextManager[Any]] = ()
    ) -> Played:
        """Run `main` to its end, and look at what is left."""
        loop, played = self.loop, self.played
        open_before = descriptors()
        try:
            with ExitStack() as entered:
                entered.enter_context(scheduled(loop, {"full": [], **self.case}, self.workshop))
                for one in patches:
                    entered.enter_context(one)
                entered.enter_context(ErrorLog(played))
                loop.run_until_complete(main())
        except Stuck as stuck:
            names = sorted(str(task.get_coro()).split(" at ")[0] for task in asyncio.all_tasks(loop))
            self.problem("hang", f"{stuck}: {names}")
        finally:
            left = [task for task in asyncio.all_tasks(loop) if task.get_name() != "fuzzer"]
            for task in left:
                if not any(rule == "hang" for rule, _ in played.problems):
                    self.problem("task left", str(task.get_coro()))
            ABANDONED.extend(left)
            played.steps, played.seconds = loop.steps, loop.time()
            loop._ready.clear()  # type: ignore[attr-defined]
            loop._scheduled.clear()  # type: ignore[attr-defined]
            loop.close()
        for text in loop.errors:
            self.problem("exception", text)
        self.let_go()
        if targets(descriptors() - open_before):
            gc.collect()  # a session has reference cycles
            if (found := targets(descriptors() - open_before)) and not left:
                self.problem("descriptor left", f"{found}")
        return played

    def let_go(self) -> None:
        """Check what remains to be checked, and drop everything that holds a descriptor."""

    # What is seen.

    def problem(self, rule: str, text: str) -> None:
        self.played.problems.append((rule, text))

    def note(self, text: str) -> None:
        self.played.trace.append(f"{self.loop.steps:6} {self.loop.time():9.3f} {text}")

    def happened(self, event: str) -> None:
        """An event, for which operations may wait."""
        self._counts[event] += 1
        for one in [*self._waiting]:
            name, count, passes = one["on"]
            if name == event and count == self._counts[event]:
                self._waiting.remove(one)
                self.loop.call_soon(self._after, passes, one)

    def _after(self, passes: int, operation: Json) -> None:
        if passes:
            self.loop.call_soon(self._after, passes - 1, operation)
        else:
            self._perform(operation)

    # What is done.

    async def perform_all(self, perform: Callable[[Json], None]) -> None:
        """Perform the operations that have a time, and return when the last has come. Others come at their events."""
        self._perform = perform
        start = self.loop.time()
        times = [one["at"] for one in self.case["operations"] if "at" in one]
        for operation in self.case["operations"]:
            if "at" in operation:
                self.loop.call_at(start + operation["at"], perform, operation)
        await asyncio.sleep(max(times, default=0.0) + 0.001)

    def stop_performing(self) -> None:
        self._waiting.clear()


def numbered(*kinds: type) -> Iterator[AbstractContextManager[Any]]:
    """Let the order of sets of these objects depend on when they were made, not on their addresses."""
    numbers = itertools.count(1)

    def number(self: Any) -> int:
        return int(self.__dict__.setdefault("schedule_number", next(numbers)))

    for kind in kinds:
        yield patch.object(kind, "__hash__", number)


class ErrorLog(logging.Handler):
    """Adds what is logged as an error while it is active: such a message is a swallowed exception."""

    def __init__(self, played: Played) -> None:
        super().__init__(logging.ERROR)
        self._played = played

    def emit(self, message: logging.LogRecord) -> None:
        what = message.getMessage()
        if message.exc_info and message.exc_info[1] is not None:
            what += f": {message.exc_info[1]!r}"
        self._played.problems.append(("error logged", what))

    def __enter__(self) -> None:
        for name in ("tau", "asyncio"):
            logging.getLogger(name).addHandler(self)
        logging.getLogger("tau").propagate = False

    def __exit__(self, *_: object) -> None:
        for name in ("tau", "asyncio"):
            logging.getLogger(name).removeHandler(self)
        logging.getLogger("tau").propagate = True


# Making cases.

TIMES = (0.0, 0.0, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0)


def timed(random: Random, operations: list[Json], events: tuple[str, ...], *, on_event: float = 0.45) -> list[Json]:
    """Give each operation a number, and a time or an event at which it comes."""
    moment = 0.0
    for number, operation in enumerate(operations):
        operation |= {"n": number, "pick": random.randrange(100)}
        if number and random.random() < on_event:
            operation["on"] = [random.choice(events), random.choice((1, 1, 1, 2, 2, 3, 5)), random.randrange(6)]
        else:
            moment += random.choice(TIMES)
            operation["at"] = moment
    return operations


def make_small(found: Json, breaks: Callable[[Json], bool], plain: Json) -> Json:
    """Remove what is not needed for the case to break the same rule. `plain`: the simplest value of other fields."""
    small = found
    for name in ("operations", "answers"):
        if name not in small:
            continue
        at = len(small[name]) - (2 if name == "answers" else 1)  # the last answer is repeated: it must call no tool
        while at >= 0 and len(small[name]) > 1:
            smaller = {**small, name: small[name][:at] + small[name][at + 1 :]}
            if breaks(smaller):
                small = smaller
            at -= 1
    for name, value in plain.items():
        if small[name] != value and breaks({**small, name: value}):
            small = {**small, name: value}
    return small


def factory_at(cwd: str, known: SessionFactory, options: SessionOptions) -> SessionFactory:
    """The factory of a session in a folder, without reading the same configuration again."""
    config = copy.copy(known.config)
    config.cwd = config.start = Path(cwd)
    _, resumed = choose_session(config.agent_dir, options.session, cwd)
    return replace(known, config=config, options=options, resumed=resumed)
