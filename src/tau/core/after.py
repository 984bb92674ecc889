"""A run failed: rest, or try again after a while?

Errors are told apart by one table. What can never get better by waiting is
looked up first, so that a quota text that also says 429 is not retried.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tau.core.draft import Failed
from tau.records.settings import RetrySettings

# Checked first: waiting does not help.
PERMANENT = (
    r"GoUsageLimitError",
    r"FreeUsageLimitError",
    r"monthly usage limit",
    r"available balance",
    r"insufficient.quota",
    r"out of budget",
    r"quota exceeded",
    r"\bbilling\b",
)

# The prompt does not fit: asking again cannot help either, compacting can.
OVERFLOW = (
    r"prompt is too long",
    r"request_too_large",
    r"input is too long for requested model",
    r"exceeds the context window",
    r"input token count.*exceeds the maximum",
    r"maximum prompt length is \d+",
    r"reduce the length of the messages",
    r"maximum context length is \d+ tokens",
    r"exceeds the limit of \d+",
    r"exceeds the available context size",
    r"greater than the context length",
    r"context window exceeds limit",
    r"exceeded model token limit",
    r"context.?length.?exceeded",
    r"too many tokens",
    r"token limit exceeded",
)

TRANSIENT = (
    r"overloaded",
    r"rate.?limit",
    r"too many requests",
    # Bounded, so that the digits of a request id or a byte count do not count.
    r"(?<![\w.,-])(?:429|500|502|503|504|520|524|529)(?![\w-])",
    r"service.?unavailable",
    r"temporarily unavailable",
    r"server.?error",
    r"internal.?error",
    r"provider returned error",
    r"high demand",
    r"network.?error",
    r"connection.?(?:error|refused|lost|reset|closed)",
    r"other side closed",
    r"socket hang up",
    r"socket connection was closed",
    r"fetch failed",
    r"upstream.?connect",
    r"reset before headers",
    r"terminated",
    r"retry delay",
    r"timed? ?out",
    r"getaddrinfo|ENOTFOUND|EAI_AGAIN|name resolution",
    r"stream ended before",
    r"ended without",
    r"ResourceExhausted",
    r"you can retry your request",
)


def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


_PERMANENT, _OVERFLOW, _TRANSIENT = _any(PERMANENT), _any(OVERFLOW), _any(TRANSIENT)


@dataclass(frozen=True)
class Retry:
    attempt: int
    delay_ms: int
    error: str


def overflows(text: str) -> bool:
    return bool(_OVERFLOW.search(text))


def transient(text: str) -> bool:
    """Whether asking again later may help, by the words of the error."""
    return not _PERMANENT.search(text) and not _OVERFLOW.search(text) and bool(_TRANSIENT.search(text))


def retryable(failure: Failed) -> bool:
    if failure.message.stop_reason != "error":
        return False
    text = failure.message.error_message or ""
    if _PERMANENT.search(text) or _OVERFLOW.search(text):
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
