"""Command specification and start-up errors, shared by both process back ends."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tau.errors import ToolError
from tau.records.base import Value
from tau.records.settings import SandboxLevel

NUL = "Neither a command nor its environment can contain a NUL character"


class CommandSpec(Value):
    """A program to run: its argument vector, working folder, environment, and the descriptors for its output.

    `folder` is a descriptor of the working folder; if it is set, `cwd` is only the name used in messages. Without
    `stdin`, the program reads an empty file.
    """

    words: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    stdout: int
    stderr: int
    folder: int | None = None
    stdin: int | None = None

    @property
    def descriptors(self) -> set[int]:
        return {end for end in (self.stdout, self.stderr, self.folder, self.stdin) if end is not None}


if TYPE_CHECKING:

    class ConfinedBy(Protocol):
        """The sandbox as the machine sees it: how to start its launcher, and what commands in it receive."""

        @property
        def level(self) -> SandboxLevel: ...

        @property
        def environment(self) -> Mapping[str, str]: ...

        @property
        def output(self) -> str:
            """Folder for the output of commands, which they can read but not write."""

        def words(self) -> list[str]:
            """The command line of the launcher. Its stdin is the connection to the supervisor."""

        def clear(self) -> None:
            """Remove the private folders of a sandbox that has ended, or was never started."""

    class ProcessHandle(Protocol):
        """A started command of either back end. It reports with the messages of supervisor.py; b"" is the end."""

        def kill(self) -> None: ...

        def terminate(self) -> None:
            """Send SIGTERM to the process group of the command. Does not wait."""

        def is_alive(self) -> bool: ...


def start_error(what: str, number: int, spec: CommandSpec) -> ToolError:
    """Return the error for a command that could not be started, or that was killed for its number of processes."""
    if number == errno.E2BIG:
        return ToolError("The command is too long for the system; write it to a file and run that")
    if what == "limit":
        return ToolError(f"The command had more than {number} processes at once. It was killed with all of them.")
    why = os.strerror(number)
    if what == "cwd":
        return ToolError(f"Cannot work in {spec.cwd}: {why}")
    return ToolError(f"Cannot start {spec.words[0]!r}: {why}" if what == "exec" else f"Cannot run the command: {why}")
