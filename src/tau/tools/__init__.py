"""Hands: what a model can do, and what doing it needs from the machine.

A tool is a name, a JSON schema and one coroutine. It reaches processes and
files only through the Machine it is given, so that the same tools can work on
another computer, in a sandbox, or in a test.
"""

from __future__ import annotations

import io
import os
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar

from tau.errors import ToolError
from tau.records.base import Value, field
from tau.records.events import Outcome
from tau.tools.read_tracking import Seen

T = TypeVar("T")
Stream = Literal["stdout", "stderr"]
Heard = Callable[[Stream, bytes], None]


class Exit(Value):
    """How a process ended. `code` is None when a signal ended it."""

    code: int | None
    signal: str | None = None
    timed_out: bool = False


class Entry(Value):
    """A name in a folder."""

    name: str
    is_folder: bool


class OpenFile(io.FileIO):
    """A file open for reading. `path` is the real path of what is open."""

    def __init__(self, descriptor: int, path: str) -> None:
        super().__init__(descriptor, "rb")
        self.path = path


class OpenFolder:
    """An open folder. `path` is its real path; `descriptor` stays on it even if the path later leads elsewhere.

    `descriptor` is None on systems where a command cannot be started by one.
    """

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path = path
        self.descriptor = descriptor
        # Also when it is collected: a cancelled call does not wait for the thread that opens it.
        self._close = None if descriptor is None else weakref.finalize(self, os.close, descriptor)

    def close(self) -> None:
        if self._close is not None:
            self._close()

    def __enter__(self) -> OpenFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Files(Protocol):
    """The files of a machine. These calls block: make them inside `Machine.in_thread`.

    What cannot be done is a ToolError, with the sentence the model reads.
    """

    def open(self, path: str) -> OpenFile:
        """A regular file to read from. Anything else, and what nobody should read, is refused."""
        ...

    def folder(self, path: str) -> OpenFolder:
        """A folder to run a search in."""
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Write a file whole or not at all, making its folders; mode, owner and links are kept."""
        ...

    def real(self, path: str) -> str:
        """The path with all links followed; two names of one file give the same."""
        ...

    def kind(self, path: str) -> Literal["file", "folder", "other"] | None:
        """What is there; None if nothing is."""
        ...

    def is_secret(self, path: str, at: OpenFolder | None = None) -> bool:
        """Whether `open` would refuse it because nobody should read it; also True if that cannot be found out.

        A relative path starts at the open folder `at`. Quick, and never an error.
        """
        ...

    def entries(self, path: str) -> list[Entry]:
        """The names in a folder, in no order; what vanishes meanwhile is left out."""
        ...


class Machine(Protocol):
    """Where tools work. The real one is runtime/machine/local.py."""

    files: Files

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | OpenFolder,
        heard: Heard,
        timeout: float | None = None,
        apart: bool = False,
    ) -> Exit:
        """Run a command in a session of its own, with empty stdin: text in a shell, words as they are.

        A `cwd` that is an open folder is the folder the command runs in, whatever its path means to other processes.
        `heard` gets the output as it comes, all as "stdout" in true order
        unless `apart` is set. A command that leaves a child behind returns when
        the shell does. Cancelling the call, or `timeout` seconds, kills it with
        everything it started before the call returns.
        """
        ...

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do blocking file work without holding up anything else."""
        ...

    def part(self) -> Machine:
        """The same machine for a piece of work: what is killed through it is what was started through it."""
        ...

    def kill_background(self) -> None:
        """Kill what was left behind by commands that have returned. Does not wait."""
        ...

    def spill(self) -> Spill:
        """A new private file for output that is too long to show."""
        ...


class Spill(Protocol):
    """A file that takes the whole output of a command, up to a limit."""

    path: str

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class ToolContext(Value):
    """What a tool gets besides its arguments. `seen` is what the session's model knows of files.

    Pictures that are too large for models are made smaller unless `resize` is off.
    `withheld` says of a path whether what is in that file must not be shown.
    `checked` says whether the permission check of this call was about a real path.
    """

    machine: Machine
    cwd: str
    progress: Callable[[Outcome], None]
    seen: Seen = field(default_factory=Seen)
    resize: bool = True
    call_id: str = ""
    withheld: Callable[[str], bool] | None = None
    checked: Callable[[str], bool] | None = None

    def confirm(self, named: str, real: str) -> None:
        """Raises ToolError if `named` leads to another file or folder than when the permission was checked."""
        if self.checked is not None and not self.checked(real):
            raise ToolError(f"{named} leads to {real}, which is not what the permission was checked for")


class Tool(Value):
    """`snippet` is the tool's line in the system prompt, `guidelines` what to mind when it is there.

    `parameters` is the schema that models are shown. A tool that takes more than it
    shows names the schema that arguments have to fit with `schema_for`.
    """

    name: str
    description: str
    snippet: str
    parameters: dict[str, Any]
    run: Callable[[dict[str, Any], ToolContext], Awaitable[Outcome]]
    guidelines: tuple[str, ...] = ()
    schema_for: Callable[[dict[str, Any]], dict[str, Any]] | None = None
