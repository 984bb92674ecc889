"""How many requests a provider takes at once: half after a refusal, one more after a while without one."""

from __future__ import annotations

GROWS_AFTER_S = 30.0
TOGETHER_S = 1.0  # refusals within this time are one


class Window:
    def __init__(self, size: int) -> None:
        self._size = size
        self._changed: float | None = None
        self._refused: float | None = None

    def refused(self, now: float) -> None:
        """The provider refused a request."""
        if self._refused is None or now - self._refused > TOGETHER_S:
            self._size = max(1, self.size(now) // 2)
        self._refused = self._changed = now

    def size(self, now: float) -> int:
        if self._changed is not None:
            steps = int((now - self._changed) // GROWS_AFTER_S)
            self._size += steps
            self._changed += steps * GROWS_AFTER_S
        return self._size
