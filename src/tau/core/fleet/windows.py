"""How many tasks a provider gets at once. A refusal halves it; then it grows back.

It returns within seconds to a little below the size that was refused, and adds one task every half minute from there
(AIMD with a memory: with halving alone, a provider would be used at three quarters of what it allows). Tasks that were
running when the window became smaller may be refused again: that says nothing about the new size, so it only delays
growth.
"""

from __future__ import annotations

GROWS_AFTER_S = 30.0
RECOVERY_S = 10.0  # without a refusal: back to RECOVERED of the size that was refused
RECOVERED = 0.9
MAX_CLOSED_S = 3600.0  # a provider that asks for more is asked again after an hour


class Window:
    def __init__(self, size: int) -> None:
        self._size = size  # at the last refusal, after it
        self._goal = size  # what is reached within RECOVERY_S
        self._refused: float | None = None
        self._closed_until = 0.0

    def refused(self, now: float, running: int, retry_after: float = 0.0) -> None:
        """The provider refused a request while `running` tasks used it, and asks for a pause of `retry_after`."""
        if running <= self._grown(now):
            self._goal = max(1, int(running * RECOVERED))
            self._size = max(1, running // 2)
        self._refused = now
        self._closed_until = max(self._closed_until, now + min(retry_after, MAX_CLOSED_S))

    def size(self, now: float) -> int:
        """How many tasks may run; 0 while the provider wants no requests at all."""
        return 0 if now < self._closed_until else self._grown(now)

    def _grown(self, now: float) -> int:
        if self._refused is None:
            return self._size
        quiet = max(0.0, now - self._refused)
        if self._size >= self._goal:
            return self._size + int(quiet // GROWS_AFTER_S)
        if quiet < RECOVERY_S:
            return self._size + int((self._goal - self._size) * quiet / RECOVERY_S)
        return self._goal + int((quiet - RECOVERY_S) // GROWS_AFTER_S)
