"""Retry policy: whether a failed response is retried, and after which delay."""

from __future__ import annotations

from tau.core.agent.draft import Failed
from tau.core.models.failures import is_permanent, transient
from tau.records.base import Value
from tau.records.settings import RetrySettings


class Retry(Value):
    attempt: int
    delay_ms: int
    error: str


def retryable(failure: Failed) -> bool:
    if failure.message.stop_reason != "error":
        return False
    text = failure.message.error_message or ""
    if is_permanent(text):
        return False
    return transient(text) if failure.transient is None else failure.transient


def after(failure: Failed, policy: RetrySettings, done: int) -> Retry | None:
    """What to do once `done` retries have been made: the next one, or nothing."""
    if not policy.enabled or done >= policy.max_retries or not retryable(failure):
        return None
    delay = policy.base_delay_ms * 2**done
    if failure.retry_after_ms is not None:
        if policy.max_delay_ms and failure.retry_after_ms > policy.max_delay_ms:
            return None
        delay = max(delay, failure.retry_after_ms)
    return Retry(done + 1, delay, failure.message.error_message or "")
