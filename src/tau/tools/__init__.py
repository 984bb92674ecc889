"""Hands: what a model can do, and what doing it needs from the machine.

A tool is a name, a JSON schema and one coroutine. It reaches processes and
files only through the Machine it is given, so that the same tools can work on
another computer, in a sandbox, or in a test.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from tau.records.events import Outcome

T = TypeVar("T")
Stream = Literal["stdout", "stderr"]
Heard = Callable[[Stream, bytes], None]


@dataclass(frozen=True)
class Exit:
    """How a process ended. `code` is None when a signal ended it."""

    code: int | None
    signal: str | None = None
    timed_out: bool = False


class Machine(Protocol):
    """Where tools work. The real one is host/machine.py."""

    async def run(
        self, command: str, *, cwd: str, heard: Heard, timeout: float | None = None, apart: bool = False
    ) -> Exit:
        """Run a shell command in a process group of its own, with empty stdin.

        `heard` gets the output as it comes, all as "stdout" in true order
        unless `apart` is set. A command that leaves a child behind returns when
        the shell does. Cancelling the call kills the whole group before it
        returns.
        """
        ...

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do blocking file work without holding up anything else."""
        ...

    def spill(self) -> Spill:
        """A new private file for output that is too long to show."""
        ...


class Spill(Protocol):
    """A file that takes the whole output of a command, up to a limit."""

    path: str

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class ToolContext:
    """What a tool gets besides its arguments."""

    machine: Machine
    cwd: str
    progress: Callable[[Outcome], None]


@dataclass(frozen=True)
class Tool:
    """`snippet` is the tool's line in the system prompt, `guidelines` what to mind when it is there."""

    name: str
    description: str
    snippet: str
    parameters: dict[str, Any]
    run: Callable[[dict[str, Any], ToolContext], Awaitable[Outcome]]
    guidelines: tuple[str, ...] = ()
