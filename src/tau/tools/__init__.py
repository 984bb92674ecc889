"""Tools that a model can call, and the interface of the machine they work on.

A tool is a name, a JSON schema and one coroutine. It reaches processes and files only through the Machine it is given,
so the same tools work on another computer, in a sandbox, or in a test.
"""

from __future__ import annotations

import io
import os
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from tau.errors import ToolError
from tau.records.base import Value, field
from tau.records.events import Outcome
from tau.records.settings import FileTexts
from tau.tools.read_tracking import ReadTracker

T = TypeVar("T")
Stream = Literal["stdout", "stderr"]
OutputCallback = Callable[[Stream, bytes], None]
FileChanged = Callable[[str, bytes | None, bytes], None]  # `None`: the file is new


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
        # Closed on garbage collection too: a cancelled call does not wait for the thread that opens the folder.
        self._close = None if descriptor is None else weakref.finalize(self, os.close, descriptor)

    def close(self) -> None:
        if self._close is not None:
            self._close()

    def __enter__(self) -> OpenFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if TYPE_CHECKING:

    class Files(Protocol):
        """The files of a machine. These calls block: make them inside `Machine.in_thread`.

        A failure is a ToolError whose text the model reads.
        """

        def open(self, path: str) -> OpenFile:
            """Open a regular file for reading. Anything else is refused, and so are files with secrets."""
            ...

        def folder(self, path: str) -> OpenFolder:
            """Open a folder to run a search in."""
            ...

        def replace(self, path: str, data: bytes) -> None:
            """Write a file atomically and create missing parent folders. Mode, owner and links are kept."""
            ...

        def real(self, path: str) -> str:
            """Return the path with all links resolved; two names of one file give the same path."""
            ...

        def kind(self, path: str) -> Literal["file", "folder", "other"] | None:
            """Return the kind of file at a path; None if there is none."""
            ...

        def is_secret(self, path: str, at: OpenFolder | None = None) -> bool:
            """True if `open` would refuse the file because it contains secrets, or if that cannot be determined.

            A relative path starts at the open folder `at`. Fast; raises nothing.
            """
            ...

        def entries(self, path: str) -> list[Entry]:
            """List a folder, in no particular order; entries that vanish meanwhile are left out."""
            ...

    class Machine(Protocol):
        """The machine on which tools run. The real implementation is runtime/machine/local.py."""

        files: Files

        async def run(
            self,
            command: str | Sequence[str],
            *,
            cwd: str | OpenFolder,
            on_output: OutputCallback,
            timeout: float | None = None,
            separate_streams: bool = False,
        ) -> Exit:
            """Run a command in its own process session, with empty stdin: a string in a shell, a list directly.

            If `cwd` is an open folder, the command runs in exactly that folder, whatever its path means to other
            processes. `on_output` receives output as it arrives; unless `separate_streams` is set, all of it as
            "stdout", in the order in which it was written. A command that leaves a child behind returns when the
            shell does. If the call is cancelled or `timeout` seconds pass, the command and everything it started
            are killed before the call returns.
            """
            ...

        async def in_thread(self, work: Callable[[], T]) -> T:
            """Run blocking file work in a thread, so that it does not block the event loop."""
            ...

        def sub_machine(self, variables: Mapping[str, str | None] | None = None) -> Machine:
            """Return a view of the same machine with its own processes: it kills only what was started through it.

            `variables` are added to the environment of its commands; None removes one.
            """
            ...

        def kill_background(self) -> None:
            """Kill processes left behind by commands that have returned. Does not wait."""
            ...

        def spill(self) -> Spill:
            """Create a private file for output that is too long to show."""
            ...

    class Spill(Protocol):
        """A file that receives the whole output of a command, up to a limit.

        `problem` says why it has only a part of the output, such as a full disk; it is empty if there is no problem.
        """

        path: str
        problem: str

        def write(self, data: bytes) -> None: ...

        def close(self) -> None: ...


class ToolContext(Value):
    """The second argument of a tool. `seen` tracks which file contents the session's model knows.

    Images that are too large for models are scaled down unless `resize` is False.
    `withheld(path)` is True if the contents of that file must not be shown.
    `checked(real_path)` is True if the permission check of this call covered that path.
    `file_changed` takes the path and the contents before and after a change. It is called in a thread.
    `file_texts` is the release of pi whose words `edit` and `write` use.
    """

    machine: Machine
    cwd: str
    progress: Callable[[Outcome], None]
    seen: ReadTracker = field(default_factory=ReadTracker)
    resize: bool = True
    call_id: str = ""
    withheld: Callable[[str], bool] | None = None
    checked: Callable[[str], bool] | None = None
    file_changed: FileChanged | None = None
    file_texts: FileTexts = "0.87"

    def confirm(self, named: str, real: str) -> None:
        """Raise ToolError if `named` leads to another file or folder than when the permission was checked."""
        if self.checked is not None and not self.checked(real):
            raise ToolError(f"{named} leads to {real}, which is not what the permission was checked for")


class Tool(Value):
    """A tool. `snippet` is its line in the system prompt, `guidelines` are added to the prompt if the tool is active.

    `parameters` is the schema that models are shown. A tool that accepts more than it shows returns from `schema_for`
    the schema against which given arguments are validated. `converts`: plain conversions and defaults make arguments
    fit. `prepare` changes given arguments before that. A `sequential` tool never runs at the same time as others.
    """

    name: str
    description: str
    snippet: str
    parameters: dict[str, Any]
    run: Callable[[dict[str, Any], ToolContext], Awaitable[Outcome]]
    guidelines: tuple[str, ...] = ()
    schema_for: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    converts: bool = False
    prepare: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None = None
    sequential: bool = False
