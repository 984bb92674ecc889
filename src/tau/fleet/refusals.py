"""Refusals of a provider (429, 529) in an attempt: reported to the coordinator, and not charged to the task's time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tau.llm.http import retry_after_ms
from tau.records.events import AutoRetryStart
from tau.records.fleet import FromWorker, Limited, Order

STATUS = (429, 529)
WORDS = ("429", "529", "rate limit", "rate_limit", "too many requests", "overloaded")


class Refusals:
    """`say` sends a line to the coordinator. `waited` is how long the attempt has waited for its provider."""

    def __init__(self, order: Order, say: Callable[[FromWorker], None]) -> None:
        self._order = order
        self._say = say
        self._retry_after: float | None = None
        self._refused = False
        self.waited = 0.0

    async def on_response(self, event: Mapping[str, Any]) -> None:
        """A handler of `after_provider_response`."""
        self._refused = event["status"] in STATUS
        delay = retry_after_ms({name.lower(): value for name, value in event["headers"].items()})
        self._retry_after = None if delay is None else delay / 1000

    def on_retry(self, event: AutoRetryStart) -> float:
        """How many seconds the attempt waits for its provider now; 0 if the failure was of another kind."""
        if not self.is_refusal(event.error_message):
            return 0.0
        wait = event.delay_ms / 1000
        self.waited += wait
        self._report(wait)
        return wait

    def on_failure(self, error: str) -> bool:
        """The agent gave up. True if it was because of a refusal."""
        if not self.is_refusal(error):
            return False
        self._report(0.0)
        return True

    def is_refusal(self, error: str) -> bool:
        return self._refused or any(word in error.lower() for word in WORDS)

    def _report(self, wait: float) -> None:
        task = self._order.task
        provider = task.provider or (task.model or "").partition("/")[0]
        self._say(Limited(provider, self._retry_after, self._order.attempt, wait))
        self._retry_after, self._refused = None, False
