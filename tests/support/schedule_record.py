"""The record of a schedule: what was asked and answered, what was published, and which sessions there were."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.schedule_cases import Json
from tau.records.base import to_builtins
from tau.records.events import MessageEnd, QueueUpdate


@dataclass
class Asked:
    """An operation that was started. `at` and `done` are steps of the loop, `session` the session at its start."""

    operation: Json
    at: int
    session: str
    text: str = ""  # a text that is unique to it
    source: str = "client"
    done: int | None = None
    answers: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    closing: bool = False  # it came after the session began to close

    @property
    def do(self) -> str:
        return str(self.operation["do"])

    @property
    def answer(self) -> Any:
        return self.answers[0] if self.answers else None


@dataclass
class Left:
    """A session that was current from a step on. `lines` are its entries, if it has no file."""

    at: int
    id: str
    path: Path | None
    lines: list[bytes] = field(default_factory=list)


@dataclass
class Record:
    asked: list[Asked] = field(default_factory=list)
    events: list[tuple[int, str, Any]] = field(default_factory=list)
    sessions: list[Left] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)  # steps at which the extension process was loaded
    reads: list[int] = field(default_factory=list)  # steps at which a reload began to read the files
    problems: list[tuple[str, str]] = field(default_factory=list)  # rules broken while it ran
    accepted: int = 0
    settled: int = 0
    closed_at: int | None = None
    idle: list[tuple[int, list[str]]] = field(default_factory=list)  # at each agent_settled: the texts in the queues
    ordered: bool = True  # commands start in the order in which they arrive
    queued: tuple[list[str], list[str]] | None = None  # the queues when everything was quiet, if it ever was
    steps: int = 0
    seconds: float = 0.0

    def trace(self) -> list[Any]:
        """All that a client could see, for the comparison of two runs."""
        events = [(step, tag, _shown(event)) for step, tag, event in self.events]
        return [*events, *((one.do, one.at, one.done, repr(one.answers), one.errors) for one in self.asked)]


class ErrorLog(logging.Handler):
    """Records what is logged as an error while it is active: such a message is a swallowed exception."""

    def __init__(self, record: Record) -> None:
        super().__init__(logging.ERROR)
        self._record = record

    def emit(self, message: logging.LogRecord) -> None:
        what = message.getMessage()
        if message.exc_info and message.exc_info[1] is not None:
            what += f": {message.exc_info[1]!r}"
        self._record.problems.append(("error logged", what))

    def __enter__(self) -> None:
        for name in ("tau", "asyncio"):
            logger = logging.getLogger(name)
            logger.addHandler(self)
        logging.getLogger("tau").propagate = False

    def __exit__(self, *_: object) -> None:
        for name in ("tau", "asyncio"):
            logging.getLogger(name).removeHandler(self)
        logging.getLogger("tau").propagate = True


def _shown(event: Any) -> str:
    if isinstance(event, MessageEnd):
        return repr(to_builtins(event))
    return repr(event) if isinstance(event, QueueUpdate) else ""


def plain(answer: Any) -> Any:
    try:
        return to_builtins(answer)
    except Exception:
        return str(type(answer))


def descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd")} if Path("/proc/self/fd").exists() else set()


def targets(numbers: set[int]) -> list[str]:
    found = []
    for number in numbers:
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue  # that of the listing itself
    return found
