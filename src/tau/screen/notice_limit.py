"""Limits how many messages of extensions are added to the transcript: a flood must not push it off the screen."""

from __future__ import annotations

BURST = 20
PER_SECOND = 5.0


class NoticeLimit:
    """A token bucket. `now` is in seconds."""

    def __init__(self) -> None:
        self._tokens = float(BURST)
        self._at: float | None = None
        self._dropped = 0

    def admit(self, now: float) -> bool:
        """True if a message may be shown now; otherwise it is counted."""
        since = 0.0 if self._at is None else now - self._at
        self._at = now
        self._tokens = min(self._tokens + since * PER_SECOND, float(BURST))
        if self._tokens < 1:
            self._dropped += 1
            return False
        self._tokens -= 1
        return True

    def take_dropped(self) -> int:
        """How many messages were not shown since this was asked last."""
        dropped, self._dropped = self._dropped, 0
        return dropped
