"""How many tasks a provider gets at once: half after a refusal, one more after a while without one (AIMD).

Tasks that were running when the window became smaller may be refused again: that says nothing about the new size, so it
only delays growth.
"""

from __future__ import annotations

GROWS_AFTER_S = 30.0


class Window:
    def __init__(self, size: int) -> None:
        self._size = size
        self._changed: float | None = None

    def refused(self, now: float, running: int) -> None:
        """The provider refused a request while `running` tasks used it."""
        size = self.size(now)
        if running <= size:
            self._size = max(1, size // 2)
        self._changed = now

    def size(self, now: float) -> int:
        if self._changed is not None:
            steps = max(0, int((now - self._changed) // GROWS_AFTER_S))
            self._size += steps
            self._changed += steps * GROWS_AFTER_S
        return self._size
