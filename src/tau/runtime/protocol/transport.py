"""Transport: the connection to one client, as lines in and bytes out.

Output is pulled, not pushed: a transport that can write takes the next batch from its BatchSource. So records wait in
the source, where they can still be coalesced, and the transport never holds more than one batch. All methods are
called in the event loop, apart from `BatchSource.take`, which a transport may call in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tau.runtime.protocol.requests import InputLine

LineHandler = Callable[[Sequence[InputLine]], int]  # handles the first lines and returns how many


class BatchSource(Protocol):
    """The output that a transport writes."""

    def take(self) -> bytes:
        """Take the next batch: whole lines, or a part of one that is too large for a batch. Thread-safe.

        Called again when the batch is written. Empty if there is nothing to write now; then `Writer.write` announces
        more.
        """

    def connection_lost(self) -> None:
        """The client has closed its end: nothing more can be written."""


class Writer(Protocol):
    """The write side of a transport."""

    def connect(self, source: BatchSource) -> None:
        """Set the source. Called once, before anything else."""

    @property
    def write_now(self) -> Callable[[bytes], bool] | None:
        """Write a small batch that the source has taken itself, without blocking; None if all batches must be pulled.

        Not called between `write` and the empty `take` that follows it. Returns False if the client did not take all of
        the batch: then `write` must be called, and writes the rest first.
        """

    def write(self) -> None:
        """Write batches of the source until it is empty. Called when it has output and its last `take` was empty."""

    async def close(self) -> None:
        """Release all resources. Output that is not written yet is lost; wait for it before (`Outbox.drain`)."""


class Transport(Writer, Protocol):
    """Both sides."""

    async def receive(self) -> InputLine | None:
        """The next line, or None at the end of the input. Cancelling this loses no line."""

    def deliver_to(self, handler: LineHandler) -> None:
        """Offer lines that arrive while `receive` waits to this handler first; it need not take them.

        An optimization: a transport may return all lines from `receive`.
        """
