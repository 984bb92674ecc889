"""A terminal without a device, for schedules: keys that wait to be read, output that may stall, a size that changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tau.tui.tty import TerminalSize

if TYPE_CHECKING:
    from support.terminal_schedule import TerminalStage

FD = 987_654  # no real descriptor
_MODE = re.compile(rb"\x1b\[\?(\d+)([hl])")


class FakeTty:
    """As Tty. `taken` counts the bytes that the terminal has shown."""

    fd = FD

    def __init__(self, stage: TerminalStage, rows: int, columns: int) -> None:
        self.stage = stage
        self.taken = self.written = 0
        self.stalled = False
        self.raw = self.closed = False
        self.modes: set[bytes] = set()
        self.now_size = TerminalSize(rows, columns)
        self._input: list[tuple[float, bytes]] = []
        self._reader: Callable[[], None] | None = None
        self._writer: Callable[[], None] | None = None
        self._tail = b""

    # The person.

    def type(self, data: bytes) -> None:
        self._input.append((self.stage.loop.time(), data))
        self.stage.loop.call_soon(self._readable)

    def stall(self, *, stalled: bool) -> None:
        self.stalled = stalled
        if not stalled:
            self.stage.loop.call_soon(self._writable)

    def _readable(self) -> None:
        if self._input and self._reader is not None:
            self._reader()
            if self._input:
                self.stage.loop.call_soon(self._readable)

    def _writable(self) -> None:
        if self._writer is not None and not self.stalled:
            self._writer()
            if self._writer is not None:
                self.stage.loop.call_soon(self._writable)

    # The loop.

    def add_reader(self, fd: int, callback: Callable[..., Any], *arguments: Any) -> None:
        self._reader = lambda: callback(*arguments)
        self.stage.loop.call_soon(self._readable)

    def remove_reader(self, fd: int) -> None:
        self._reader = None

    def add_writer(self, fd: int, callback: Callable[..., Any], *arguments: Any) -> None:
        self._writer = lambda: callback(*arguments)
        if not self.stalled:
            self.stage.loop.call_soon(self._writable)

    def remove_writer(self, fd: int) -> None:
        self._writer = None

    # Tty.

    def set_raw(self) -> None:
        self.raw = True

    def save(self) -> None:
        pass

    def restore(self) -> None:
        self.raw = False

    def size(self) -> TerminalSize:
        return self.now_size

    def is_foreground(self) -> bool:
        return True

    def read(self) -> bytes | None:
        """One key, or all that were pressed. The stage is told when the last of them was."""
        if not self._input:
            return None
        count = len(self._input) if self.stage.random.random() < 0.5 else 1
        read, self._input = self._input[:count], self._input[count:]
        self.stage.pressed_at = read[-1][0]
        data = b"".join(data for _, data in read)
        # An Escape that was the last key before is handled with these.
        self.stage.pressed = b"\x1b" + data if self.stage.pressed.endswith(b"\x1b") else data
        return data

    def has_input(self) -> bool:
        return bool(self._input)

    def write(self, data: bytes) -> int:
        if self.stalled:
            return 0
        size = min(len(data), self.stage.case["output_bytes"])
        self.taken += size
        whole = self._tail + data[:size]
        for number, sign in _MODE.findall(whole):
            (self.modes.add if sign == b"h" else self.modes.discard)(number)
        self._tail = whole[-12:] if b"\x1b" in whole[-12:] else b""
        self.stage.drawn()
        return size

    def write_all(self, data: bytes, timeout: float) -> bool:
        self.stalled = False
        while data:
            data = data[self.write(data) :]
        return True

    def discard_input(self, timeout: float, until: Callable[[bytes], bool]) -> None:
        self._input.clear()

    def close(self) -> None:
        self.closed = True


class FakeSignals:
    """As JobControl, without signals."""

    HANGUP = 1

    def __init__(self, loop: Any, terminal: Any) -> None:
        self._terminal = terminal

    def install(self) -> None:
        pass

    def remove(self) -> None:
        pass

    def receive(self) -> None:
        pass

    @contextmanager
    def removed(self) -> Iterator[None]:
        yield

    def die(self, number: int) -> None:
        raise AssertionError("the program died")


class FakeStderr:
    def __init__(self, say: Callable[[str], None]) -> None:
        pass

    def restore(self) -> None:
        pass
