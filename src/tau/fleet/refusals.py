"""Refusals of a provider (429, 529) in an attempt: reported to the coordinator, and not charged to the task's time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tau.core.models.failures import classify, stated_wait_ms
from tau.llm.http import retry_after_ms
from tau.records.events import AutoRetryStart
from tau.records.fleet import FromWorker, Limited, Order

REFUSALS = ("rate_limit", "overloaded")


class Refusals:
    """`say` sends a line to the coordinator. `waited` is how long the attempt has waited for its provider."""

    def __init__(self, order: Order, say: Callable[[FromWorker], None]) -> None:
        self._order = order
        self._say = say
        self._retry_after: float | None = None
        self.waited = 0.0

    async def on_response(self, event: Mapping[str, Any]) -> None:
        """A handler of `after_provider_response`."""
        delay = retry_after_ms({name.lower(): value for name, value in event["headers"].items()})
        self._retry_after = None if delay is None else delay / 1000

    def on_retry(self, event: AutoRetryStart) -> float:
        """How many seconds the attempt waits for its provider now; 0 if the failure was of another kind."""
        if not self.is_refusal(event.error_message):
            return 0.0
        wait = event.delay_ms / 1000
        self.waited += wait
        self._report(event.error_message, wait)
        return wait

    def on_failure(self, error: str) -> bool:
        """The agent gave up. True if it was because of a refusal."""
        if not self.is_refusal(error):
            return False
        self._report(error, 0.0)
        return True

    def is_refusal(self, error: str) -> bool:
        return classify(error).kind in REFUSALS

    def _report(self, error: str, wait: float) -> None:
        task = self._order.task
        provider = task.provider or (task.model or "").partition("/")[0]
        retry_after = self._retry_after
        if retry_after is None and (stated := stated_wait_ms(error)) is not None:
            retry_after = stated / 1000
        self._say(Limited(provider, retry_after, self._order.attempt, wait))
        self._retry_after = None
