"""Retry policy: whether a failed response is retried, and after which delay."""

from __future__ import annotations

from tau.core.agent.draft import MessageFailed
from tau.core.models.failures import Failure, classify
from tau.records.base import Value
from tau.records.settings import RetrySettings


class Retry(Value):
    attempt: int
    delay_ms: int
    error: str


def is_retryable(failed: MessageFailed) -> bool:
    """What was known about the failure when it happened decides before its words, but not against all hope."""
    failure = _classify(failed)
    known = failure.is_transient if failed.transient is None else failed.transient
    return known and not failure.is_permanent and failed.message.stop_reason == "error"


def next_retry(failed: MessageFailed, policy: RetrySettings, done: int) -> Retry | None:
    """What to do once `done` retries have been made: the next one, or nothing."""
    failure = _classify(failed)
    allowed = policy.max_retries if failure.retries is None else min(failure.retries, policy.max_retries)
    if not policy.enabled or done >= allowed or not is_retryable(failed):
        return None
    delay = policy.base_delay_ms * 2**done
    if failure.wait_ms is not None:
        if policy.max_delay_ms and failure.wait_ms > policy.max_delay_ms:
            return None
        delay = max(delay, failure.wait_ms)
    return Retry(done + 1, delay, failed.message.error_message or "")


def _classify(failed: MessageFailed) -> Failure:
    return classify(failed.message.error_message or "", wait_ms=failed.retry_after_ms)
