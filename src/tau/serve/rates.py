"""Rates: of requests by credential, of wrong credentials by address, of lines in the log. Pure: time is given."""

from __future__ import annotations

from collections import OrderedDict

REQUESTS_PER_S = 50.0
BURST = 200.0
MAX_FAILURES = 10  # in FAILURE_WINDOW_S, per address; then its wrong credentials are not looked at any more
FAILURE_WINDOW_S = 60.0
MAX_TRACKED = 4096  # addresses, and credentials; the one that was quiet longest is forgotten


class RequestRate:
    """A token bucket for each credential."""

    def __init__(self, per_s: float = REQUESTS_PER_S, burst: float = BURST) -> None:
        self._per_s, self._burst = per_s, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, credential: str, now: float) -> bool:
        left, last = self._buckets.pop(credential, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - last) * self._per_s)
        allowed = left >= 1.0
        self._buckets[credential] = (left - 1.0 if allowed else left, now)
        if len(self._buckets) > MAX_TRACKED:
            self._buckets.popitem(last=False)
        return allowed


class Seldom:
    """For lines in the log that anyone can cause: at most one in a time."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._next = float("-inf")

    def allows(self, now: float) -> bool:
        if now < self._next:
            return False
        self._next = now + self._interval_s
        return True


class FailedCredentials:
    """Wrong credentials by address. After too many, further ones are answered with 429 for a minute.

    A correct credential always gets in: otherwise any program of this machine could lock the user out.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def add(self, address: str, now: float) -> bool:
        """Count a failure. Returns False if there have been too many."""
        recent = [time for time in self._failures.pop(address, []) if now - time < FAILURE_WINDOW_S]
        allowed = len(recent) < MAX_FAILURES
        if allowed:
            recent.append(now)
        self._failures[address] = recent
        if len(self._failures) > MAX_TRACKED:
            self._failures.popitem(last=False)
        return allowed
