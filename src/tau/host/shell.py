"""The `bash` command of a client: run, clean, remember. Any number may run at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tau.core.clean import Cleaner
from tau.core.truncate import Tail
from tau.errors import Aborted, CommandError, ToolError
from tau.host.hooking import Hooks
from tau.host.live import Live
from tau.host.log import now
from tau.host.switch import Switch
from tau.records.base import UNSET
from tau.records.messages import BashExecution
from tau.records.replies import BashResult
from tau.tools import Exit, Machine, Stream
from tau.tools.bash import Output

LIMIT = 64  # commands at the same time


class Shell:
    """`keep` gets each finished command as a message, never inside a run; if it has to wait, `note` gets it before."""

    def __init__(
        self,
        machine: Machine,
        cwd: str,
        keep: Callable[[BashExecution], None],
        note: Callable[[BashExecution], None],
        running: Callable[[], bool],
        hooks: Hooks,
        live: Callable[[Any], Live | None] = lambda id: None,
    ) -> None:
        """`live` is asked for each command, by its id, who is to hear it while it runs."""
        self._hooks = hooks
        self._asking = Switch()
        self._live = live
        self._machine = machine
        self._cwd = cwd
        self._keep = keep
        self._note = note
        self._in_a_run = running
        self._waiting: list[BashExecution] = []
        self._running: set[asyncio.Task[Exit]] = set()

    async def run(self, command: str, *, exclude: bool = False, id: Any = UNSET) -> BashResult:
        """Also a command that was stopped is remembered and answered, with what it had said."""
        if len(self._running) >= LIMIT:
            raise CommandError(f"{LIMIT} bash commands are running already. Try again when one has ended.")
        if self._hooks.extensions.wants("user_bash") and (given := await self._asked(command, exclude)) is not None:
            return given
        output = Output(Tail(cleaner=Cleaner()), self._machine.spill)
        streams = {"stdout": Tail(cleaner=Cleaner()), "stderr": Tail(cleaner=Cleaner())}

        live = self._live(id)

        def heard(stream: Stream, data: bytes) -> None:
            if live is not None:
                live.take(stream, data)
            output.take(data)
            streams[stream].feed(data)

        task = asyncio.ensure_future(self._machine.run(command, cwd=self._cwd, heard=heard, apart=True))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
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
            await live.end()
        for tail in streams.values():
            tail.end()
        return self._done(
            command, output, {name: tail.truncation().content for name, tail in streams.items()}, exit, exclude
        )

    async def _asked(self, command: str, exclude: bool) -> BashResult | None:
        """What an extension says came of it; None if it shall be run."""
        try:
            given = await self._hooks.user_bash(command, exclude, self._cwd, self._asking)
        except Aborted:
            given = BashResult("", UNSET, True, False, UNSET, "", "", "SIGKILL")
        if given is not None:
            self._remember(command, given, exclude)
        return given

    def abort(self) -> None:
        was, self._asking = self._asking, Switch()
        was.flip()
        for task in self._running:
            task.cancel()

    def take_up(self, waiting: Sequence[BashExecution]) -> None:
        """What ended during a run of an earlier process."""
        self._waiting += waiting

    def remember(self) -> None:
        """Hand over what was run during the last run."""
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._keep(message)

    def _done(
        self, command: str, output: Output, streams: dict[str, str], exit: Exit | None, exclude: bool
    ) -> BashResult:
        shown = output.tail.truncation()
        result = BashResult(
            output=shown.content,
            exit_code=exit.code if exit is not None and exit.code is not None else UNSET,
            cancelled=exit is None,
            truncated=shown.truncated,
            full_output_path=output.path if shown.truncated and output.path else UNSET,
            stdout=streams["stdout"],
            stderr=streams["stderr"],
            signal=exit.signal if exit else "SIGKILL",
        )
        self._remember(command, result, exclude)
        return result

    def _remember(self, command: str, result: BashResult, exclude: bool) -> None:
        self._waiting.append(
            BashExecution(
                command,
                result.output,
                result.exit_code,
                result.cancelled,
                result.truncated,
                result.full_output_path or None,
                now(),
                exclude or UNSET,
            )
        )
        if self._in_a_run():
            self._note(self._waiting[-1])
        else:
            self.remember()
