"""The bash tool: runs shell commands.

The model sees the end of the output. As soon as the output is too long to show, all of it goes to a file. Escape
sequences are left in: a model can read them, and the bytes may be what it asked for.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tau.core.text.truncate import MAX_BYTES, MAX_LINES, Tail, format_size
from tau.errors import ToolError
from tau.records.base import UNSET
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.records.tools import Truncation
from tau.tools import Exit, Stream, Tool, ToolContext
from tau.tools.partial_result import CancelledWithResult

if TYPE_CHECKING:
    from tau.tools import Spill

UPDATE_INTERVAL_S = 0.1  # seconds between two updates


class CommandOutput:
    """The output of a command: its end in memory, and all of it in a file once it is too long to show."""

    def __init__(self, tail: Tail, spill: Callable[[], Spill]) -> None:
        self.tail = tail
        self.path: str | None = None
        self._new_spill = spill
        self._spill: Spill | None = None
        self._beginning: bytearray | None = bytearray()  # until the file is opened
        self._spill_error = ""

    def feed(self, data: bytes) -> None:
        self.tail.feed(data)
        if self._beginning is not None:
            self._beginning += data
            # The tail may count fewer bytes than arrived, because its cleaner removes some.
            if self.tail.truncated or len(self._beginning) > MAX_BYTES:
                self._open_file(bytes(self._beginning))
                self._beginning = None
        elif self._spill:
            self._spill.write(data)

    def end(self) -> None:
        """Mark the end of the output. May be called twice."""
        self.tail.end()
        if self.tail.truncated and self._beginning is not None:
            self.feed(b"")  # only now is it known that the last character exceeds the limit
        if self._spill:
            self._spill.close()

    def location_note(self) -> str:
        if self._spill and self._spill.problem:
            return f"Only a part of the output could be saved ({self._spill.problem}): {self.path}"
        return f"Full output: {self.path}" if self.path else f"The full output could not be saved: {self._spill_error}"

    def _open_file(self, beginning: bytes) -> None:
        try:
            self._spill = self._new_spill()
        except OSError as error:  # a full disk must not fail the command
            self._spill_error = error.strerror or str(error)
            return
        self.path = self._spill.path
        self._spill.write(beginning)


class RateLimiter:
    """Rate limiter: calls `report` at once, then at most once per period; a delayed call is made at its end."""

    def __init__(self, report: Callable[[], None], period: float = UPDATE_INTERVAL_S) -> None:
        self._report = report
        self._period = period
        self._loop = asyncio.get_running_loop()
        self._free_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def trigger(self) -> None:
        if self._timer:
            return
        if self._loop.time() >= self._free_at:
            self._fire()
        else:
            self._timer = self._loop.call_at(self._free_at, self._fire)

    def flush(self) -> None:
        """Make a delayed call now."""
        if self._timer:
            self.stop()
            self._report()

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._free_at = self._loop.time() + self._period
        self._report()


async def run(args: dict[str, Any], context: ToolContext) -> Outcome:
    """Run the command. If cancelled, kills all its processes and raises CancelledWithResult with the output so far."""
    timeout = _seconds(args.get("timeout"))
    output = CommandOutput(Tail(), context.machine.spill)
    ticker = RateLimiter(lambda: context.progress(_so_far(output)))

    def on_output(stream: Stream, data: bytes) -> None:
        output.feed(data)
        ticker.trigger()

    context.progress(Outcome([]))  # an empty update announces the start
    try:
        exit = await context.machine.run(args["command"], cwd=context.cwd, on_output=on_output, timeout=timeout)
        ticker.flush()
    except asyncio.CancelledError:
        output.end()
        raise CancelledWithResult(_with_status(_text(output), "Command aborted")) from None
    finally:
        ticker.stop()
        output.end()

    text = _text(output)
    if exit.timed_out:
        raise ToolError(_with_status(text, f"Command timed out after {timeout:.15g} seconds"))
    if failure := _failure(exit):
        raise ToolError(_with_status(text or "(no output)", failure))
    return Outcome([Text(text or "(no output)")], _details(output) if output.tail.truncated else UNSET)


def _seconds(timeout: float | None) -> float | None:
    if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
        raise ToolError(
            f"timeout must be a number of seconds above 0, not {timeout}; leave it out to wait without limit"
        )
    return timeout


def _failure(exit: Exit) -> str | None:
    if exit.signal:
        return f"Command was killed by signal {exit.signal}"
    return f"Command exited with code {exit.code}" if exit.code else None


def _with_status(text: str, status: str) -> str:
    return f"{text}\n\n{status}" if text else status


def _so_far(output: CommandOutput) -> Outcome:
    details = _details(output) if output.tail.truncated else {"truncation": None, "fullOutputPath": None}
    return Outcome([Text(output.tail.truncation().content)], details)


def _details(output: CommandOutput) -> dict[str, Any]:
    return {"truncation": output.tail.truncation(), "fullOutputPath": output.path}


def _text(output: CommandOutput) -> str:
    cut = output.tail.truncation()
    if not cut.truncated:
        return cut.content
    return f"{cut.content}\n\n[{_shown(cut, output.tail.last_line_bytes)}. {output.location_note()}]"


def _shown(cut: Truncation, last_line: int) -> str:
    last = cut.total_lines
    if cut.last_line_partial:
        return f"Showing last {format_size(cut.output_bytes)} of line {last} (line is {format_size(last_line)})"
    shown = f"Showing lines {last - cut.output_lines + 1}-{last} of {last}"
    return shown if cut.truncated_by == "lines" else f"{shown} ({format_size(cut.max_bytes)} limit)"


TOOL = Tool(
    name="bash",
    description=(
        f"Run a command in bash, in the working directory. Returns stdout and stderr combined, truncated to the last"
        f" {MAX_LINES} lines or {MAX_BYTES // 1024}KB; if truncated, the full output is saved to a file whose path is"
        f" given. Stdin is empty. There is no time limit unless timeout is set."
    ),
    snippet="Run shell commands",
    parameters={
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command line to run"},
            "timeout": {"type": "number", "description": "Kill the command after this many seconds (optional)"},
        },
        "required": ["command"],
    },
    run=run,
    guidelines=(
        "Set a timeout for commands that may hang; redirect the output of background processes to a file.",
        "Each command runs in a new shell in the working directory: cd and variables do not persist.",
    ),
)
