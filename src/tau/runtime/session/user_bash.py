"""The `bash` command of a client: run it, clean its output, record it. Several may run at once.

A command belongs to the session in which it was started: its result is recorded there, even if the client has
switched to another session before the command ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tau.core.text.terminal_text import Cleaner
from tau.core.text.truncate import Tail
from tau.errors import Aborted, CommandError, ToolError
from tau.records.base import UNSET
from tau.records.messages import BashExecution
from tau.records.replies import BashResult
from tau.runtime.abort import AbortSignal
from tau.runtime.clock import now
from tau.runtime.extensions.hooks import HookDispatcher
from tau.runtime.history.session_log import SessionLog
from tau.runtime.session.bash_updates import BashUpdates
from tau.tools import Exit, Stream
from tau.tools.bash import CommandOutput

if TYPE_CHECKING:
    from tau.tools import Machine

logger = logging.getLogger(__name__)
MAX_CONCURRENT = 64  # commands at the same time
STOP_TIMEOUT_S = 0.5  # for commands to end and be recorded when the session closes
CLOSED = "The session is closed: no command is run in it."


if TYPE_CHECKING:

    class Records(Protocol):
        """Destination of results: the log of the session in which the command was started."""

        log: SessionLog

        def keep_bash(self, log: SessionLog, message: BashExecution) -> None:
            """Add a finished command to the conversation; never called for a session that runs a prompt."""

        def note_bash(self, message: BashExecution) -> None:
            """Save a finished command that has to wait for the end of the run."""

        def bash_ended(self, log: SessionLog) -> None:
            """Called when the last command of a session that was left has ended."""


class UserBash:
    def __init__(
        self,
        machine: Machine,
        cwd: str,
        records: Records,
        running: Callable[[], bool],
        hooks: HookDispatcher,
        live: Callable[[Any], BashUpdates | None] = lambda id: None,
    ) -> None:
        """`live` returns the receiver of a command's output while it runs, given the command's id; None for no
        updates.
        """
        self._hooks = hooks
        self._asking = AbortSignal()
        self._live = live
        self._machine = machine
        self.cwd = cwd
        self._records = records
        self._in_a_run = running
        self._waiting: list[BashExecution] = []
        self._running: set[asyncio.Task[Exit]] = set()
        self._homes: list[SessionLog] = []  # the log of its session, for each command in progress
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False  # no more commands start
        self._ended = False  # and no more results are recorded

    def runs_in(self, log: SessionLog) -> bool:
        """True if a command started in this session is still running."""
        return any(home is log for home in self._homes)

    async def run(self, command: str, *, exclude: bool = False, id: Any = UNSET) -> BashResult:
        """Run a command. An aborted command is recorded and answered too, with its output so far."""
        if self._closed:
            raise CommandError(CLOSED)
        if len(self._homes) >= MAX_CONCURRENT:
            raise CommandError(f"{MAX_CONCURRENT} bash commands are running already. Try again when one has ended.")
        with self._under_way() as home:
            if self._hooks.extensions.wants("user_bash"):
                given = await self._ask_extensions(home, command, exclude)
                if given is not None:
                    return given
                if self._closed:
                    raise CommandError(CLOSED)
            return await self._run(home, command, exclude, id)

    @contextmanager
    def _under_way(self) -> Iterator[SessionLog]:
        home = self._records.log
        self._homes.append(home)
        self._idle.clear()
        try:
            yield home
        finally:
            self._homes.remove(home)
            self._settle()
            if home is not self._records.log and not self.runs_in(home):
                self._records.bash_ended(home)

    def _settle(self) -> None:
        if not self._homes and not self._running:
            self._idle.set()

    async def _run(self, home: SessionLog, command: str, exclude: bool, id: Any) -> BashResult:
        output = CommandOutput(Tail(cleaner=Cleaner()), self._machine.spill)
        streams = {"stdout": Tail(cleaner=Cleaner()), "stderr": Tail(cleaner=Cleaner())}

        live = self._live(id)

        def heard(stream: Stream, data: bytes) -> None:
            if live is not None:
                live.add(stream, data)
            output.feed(data)
            streams[stream].feed(data)

        task = asyncio.ensure_future(self._machine.run(command, cwd=self.cwd, on_output=heard, separate_streams=True))
        self._running.add(task)
        task.add_done_callback(self._process_ended)
        try:
            exit: Exit | None = await task
        except ToolError as error:
            raise CommandError(str(error)) from None
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                task.cancel()
                raise
            exit = None
        finally:
            output.end()
        if live is not None:
            await live.drain()
        for tail in streams.values():
            tail.end()
        result = _result(output, {name: tail.truncation().content for name, tail in streams.items()}, exit)
        self._record(home, command, result, exclude)
        return result

    def _process_ended(self, task: asyncio.Task[Exit]) -> None:
        self._running.discard(task)
        self._settle()

    async def _ask_extensions(self, home: SessionLog, command: str, exclude: bool) -> BashResult | None:
        """Return the result that an extension provides; None if the command is to be run."""
        try:
            given = await self._hooks.user_bash(command, exclude, self.cwd, self._asking)
        except Aborted:
            given = BashResult("", UNSET, True, False, UNSET, "", "", "SIGKILL")
        if given is not None:
            self._record(home, command, given, exclude)
        return given

    def abort(self) -> None:
        was, self._asking = self._asking, AbortSignal()
        was.abort()
        for task in self._running:
            task.cancel()

    def close(self) -> None:
        """Start no more commands, and stop the running ones; `ended` waits for them."""
        self._closed = True
        self.abort()

    async def ended(self) -> None:
        """Wait briefly until the commands have ended and are recorded. Nothing is recorded afterwards."""
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("%d bash commands did not end within %.1f s", len(self._homes), STOP_TIMEOUT_S)
        self.flush()
        self._ended = True

    def restore(self, waiting: Sequence[BashExecution]) -> None:
        """Restore the commands that finished during a run of an earlier process."""
        self._waiting += waiting

    def flush(self) -> None:
        """Add the commands that finished during the last run to the conversation."""
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._records.keep_bash(self._records.log, message)

    def _record(self, home: SessionLog, command: str, result: BashResult, exclude: bool) -> None:
        if self._ended:
            return
        message = BashExecution(
            command,
            result.output,
            result.exit_code,
            result.cancelled,
            result.truncated,
            result.full_output_path or None,
            now(),
            exclude or UNSET,
        )
        if home is not self._records.log:
            self._records.keep_bash(home, message)
            return
        self._waiting.append(message)
        if self._in_a_run():
            self._records.note_bash(message)
        else:
            self.flush()


def _result(output: CommandOutput, streams: dict[str, str], exit: Exit | None) -> BashResult:
    shown = output.tail.truncation()
    return BashResult(
        output=shown.content,
        exit_code=exit.code if exit is not None and exit.code is not None else UNSET,
        cancelled=exit is None,
        truncated=shown.truncated,
        full_output_path=output.path if shown.truncated and output.path else UNSET,
        stdout=streams["stdout"],
        stderr=streams["stderr"],
        signal=exit.signal if exit else "SIGKILL",
    )
