"""Line: the way to an agent, as `Connection` sees it. A child process and a session of a host implement it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tau.client.errors import AgentGone
from tau.wire.lines import LineTooLong

OnLine = Callable[[bytes | LineTooLong], None]
OnEnd = Callable[[], None]


class Line(Protocol):
    """Lines of records in both directions. What arrives is passed to the `OnLine` that the line was made with, and its
    `OnEnd` is called once, after the last line.
    """

    async def start(self) -> None:
        """Start the process, or connect. Raises AgentGone or OSError."""

    async def write(self, data: bytes) -> None:
        """Send a line with its LF. All data is queued when this is called; cancelling only stops waiting."""

    def pause(self) -> None:
        """Stop reading."""

    def resume(self) -> None:
        """Read again."""

    async def stop(self, *, gracefully: bool) -> None:
        """End the line. `gracefully`: the agent is idle and may end by itself."""

    def append_stderr(self, data: bytes) -> None:
        """Keep a line that is not a record, for error messages."""

    def gone_error(self) -> AgentGone:
        """The error for calls that can no longer be answered."""

    @property
    def stderr(self) -> str: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def exit_code(self) -> int | None: ...


MakeLine = Callable[[OnLine, OnEnd], Line]
