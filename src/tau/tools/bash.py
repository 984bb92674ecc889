"""The shell, for a model.

The model sees the end of the output; everything goes to a file as soon as it is
too much to show. Escape sequences are left in: a model can read them, and the
bytes may be what it asked for.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from tau.core.text.truncate import MAX_BYTES, MAX_LINES, Tail, size
from tau.errors import ToolError
from tau.records.base import UNSET
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.records.tools import Truncation
from tau.tools import Exit, Spill, Stream, Tool, ToolContext
from tau.tools.partial_result import StoppedWith

PERIOD = 0.1  # seconds between two updates


class Output:
    """What a command said: the end of it in memory, all of it in a file once it is too much to show."""

    def __init__(self, tail: Tail, spill: Callable[[], Spill]) -> None:
        self.tail = tail
        self.path: str | None = None
        self._new_spill = spill
        self._spill: Spill | None = None
        self._beginning: bytearray | None = bytearray()  # until there is a file
        self._trouble = ""

    def take(self, data: bytes) -> None:
        self.tail.feed(data)
        if self._beginning is not None:
            self._beginning += data
            # The tail may count less than came: a cleaner takes away.
            if self.tail.truncated or len(self._beginning) > MAX_BYTES:
                self._open_file(bytes(self._beginning))
                self._beginning = None
        elif self._spill:
            self._spill.write(data)

    def end(self) -> None:
        """Nothing more will come. May be said twice."""
        self.tail.end()
        if self.tail.truncated and self._beginning is not None:
            self.take(b"")  # only now is the last character known to be too much
        if self._spill:
            self._spill.close()

    def where(self) -> str:
        return f"Full output: {self.path}" if self.path else f"The full output could not be saved: {self._trouble}"

    def _open_file(self, beginning: bytes) -> None:
        try:
            self._spill = self._new_spill()
        except OSError as error:  # a full disk is no reason to lose the command
            self._trouble = error.strerror or str(error)
            return
        self.path = self._spill.path
        self._spill.write(beginning)


class Ticker:
    """Calls `tell` at once, then at most once in each period; what was held back is told when it is over."""

    def __init__(self, tell: Callable[[], None], period: float = PERIOD) -> None:
        self._tell = tell
        self._period = period
        self._loop = asyncio.get_running_loop()
        self._free_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def tick(self) -> None:
        if self._timer:
            return
        if self._loop.time() >= self._free_at:
            self._fire()
        else:
            self._timer = self._loop.call_at(self._free_at, self._fire)

    def flush(self) -> None:
        """Tell now what waits to be told."""
        if self._timer:
            self.stop()
            self._tell()

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._free_at = self._loop.time() + self._period
        self._tell()


async def run(args: dict[str, Any], context: ToolContext) -> Outcome:
    """A cancelled call leaves no process of the group behind; what came so far is in StoppedWith."""
    timeout = _seconds(args.get("timeout"))
    output = Output(Tail(), context.machine.spill)
    ticker = Ticker(lambda: context.progress(_so_far(output)))

    def heard(stream: Stream, data: bytes) -> None:
        output.take(data)
        ticker.tick()

    context.progress(Outcome([]))  # it has begun
    try:
        exit = await context.machine.run(args["command"], cwd=context.cwd, heard=heard, timeout=timeout)
        ticker.flush()
    except asyncio.CancelledError:
        output.end()
        raise StoppedWith(_with_status(_text(output), "Command aborted")) from None
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


def _so_far(output: Output) -> Outcome:
    details = _details(output) if output.tail.truncated else {"truncation": None, "fullOutputPath": None}
    return Outcome([Text(output.tail.truncation().content)], details)


def _details(output: Output) -> dict[str, Any]:
    return {"truncation": output.tail.truncation(), "fullOutputPath": output.path}


def _text(output: Output) -> str:
    cut = output.tail.truncation()
    if not cut.truncated:
        return cut.content
    return f"{cut.content}\n\n[{_shown(cut, output.tail.last_line_bytes)}. {output.where()}]"


def _shown(cut: Truncation, last_line: int) -> str:
    last = cut.total_lines
    if cut.last_line_partial:
        return f"Showing last {size(cut.output_bytes)} of line {last} (line is {size(last_line)})"
    shown = f"Showing lines {last - cut.output_lines + 1}-{last} of {last}"
    return shown if cut.truncated_by == "lines" else f"{shown} ({size(cut.max_bytes)} limit)"


TOOL = Tool(
    name="bash",
    description=(
        f"Run a command in bash, in the working directory. Returns stdout and stderr together, cut to the last"
        f" {MAX_LINES} lines or {MAX_BYTES // 1024}KB; longer output is kept whole in a file whose path is given."
        f" Stdin is empty. There is no time limit unless timeout is set."
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
        "Set a timeout for commands that may hang; send the output of background processes to a file.",
        "Each command starts anew in the working directory: cd and variables do not last.",
    ),
)
