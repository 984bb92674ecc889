"""Limits for what one extension may send: messages per second, requests in progress, registrations."""

from __future__ import annotations

from tau.extension_api.messages import MAX_LINE_BYTES

MAX_MESSAGES_PER_SECOND = 10_000
MAX_ACTIONS = 1_000  # in progress at once
MAX_ACTION_BYTES = 2 * MAX_LINE_BYTES  # of their messages
MAX_REGISTRATIONS = 2_000  # of one extension
MAX_REGISTRATION_BYTES = 2 * MAX_LINE_BYTES  # of their messages
MAX_REPORTS_PER_SECOND = 10  # a timer can fail again and again


class MessageRate:
    """Counts the messages and the trouble reports of the current second."""

    def __init__(self) -> None:
        self._since = 0.0
        self._messages = 0
        self._reports = 0

    def too_many_messages(self, now: float) -> bool:
        """Count a message."""
        if now - self._since >= 1:
            self._since, self._messages, self._reports = now, 0, 0
        self._messages += 1
        return self._messages > MAX_MESSAGES_PER_SECOND

    def too_many_reports(self) -> bool:
        """Count a report; its message has been counted before."""
        self._reports += 1
        return self._reports > MAX_REPORTS_PER_SECOND


class RegistrationLimit:
    """Counts what an extension has registered: tau keeps each registration until it is taken back."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}  # by target
        self._total = 0

    def add(self, target: int, size: int) -> bool:
        """Count a registration. False if there are too many, or if they are too large."""
        self.remove(target)
        self._sizes[target] = size
        self._total += size
        return len(self._sizes) <= MAX_REGISTRATIONS and self._total <= MAX_REGISTRATION_BYTES

    def remove(self, target: int) -> None:
        self._total -= self._sizes.pop(target, 0)
