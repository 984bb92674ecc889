"""Classification of provider errors: permanent, transient, or context overflow.

By the HTTP status where there is one, and by the error text. Permanent errors are checked first, so that a quota error
whose text also says 429 is not retried.
"""

from __future__ import annotations

import re
from functools import cache

from tau.records.messages import Assistant

# Matched first: waiting does not help.
PERMANENT = (
    r"GoUsageLimitError",
    r"FreeUsageLimitError",
    r"monthly usage limit",
    r"available balance",
    r"insufficient.quota",
    r"out of budget",
    r"quota exceeded",
    r"\bbilling\b",
    r"image input is not supported",  # llama.cpp, with the status 500
)

# The prompt does not fit the context window: a retry does not help, compaction does.
OVERFLOW = (
    r"prompt (?:is )?too long",  # Anthropic, z.ai, Ollama
    r"request_too_large",
    r"input is too long for requested model",  # Bedrock
    r"exceeds the context window",  # OpenAI
    r"exceeds (?:the )?(?:model'?s )?maximum context length",  # LiteLLM and the like
    r"ContextWindowExceededError",
    r"input token count.*exceeds the maximum",  # Google
    r"maximum prompt length is [\d,]+",  # xAI
    r"reduce the length of the messages",  # Groq
    r"maximum context length is [\d,]+ tokens",  # OpenRouter
    r"exceeds the maximum allowed input length",  # Poolside
    r"input \([\d,]+ tokens\) is longer than the model'?s context length",  # Together
    r"exceeds the limit of [\d,]+",  # Copilot
    r"\b413\b.*failed to parse request",
    r"exceeds the available context size",  # llama.cpp
    r"greater than the context length",  # LM Studio
    r"context window exceeds limit",  # MiniMax
    r"exceeded model token limit",  # Kimi
    r"too large for model with [\d,]+ maximum context length",  # Mistral
    r"prompt has [\d,]+ tokens, but the configured context size is [\d,]+ tokens",  # DS4
    r"exceeded (?:max )?context length",
    r"range of input length should be",  # DashScope
    r"model_context_window_exceeded",  # z.ai
    r"prompt exceeds max length",
    r"context.?length.?exceeded",
    r"too many tokens",
    r"token limit exceeded",
)

# Statuses that are transient by themselves: too early, too many requests, and server errors. 409 is included because
# servers that send it mean a lock held by another request.
TRANSIENT_STATUS = {408, 409, 425, 429, *range(500, 600)} - {501, 505}

# A status in the text, where none is known. Bounded, so that digits of a request id or a byte count do not match.
STATUS_IN_WORDS = r"(?<![\w.,-])(?:429|500|502|503|504|520|524|529)(?![\w-])"

# Overrides OVERFLOW: rate limits and throttling are not context overflows.
NOT_OVERFLOW = (
    r"throttling error:",
    r"service unavailable:",
    r"rate.?limit",
    r"too many requests",
)

LOCAL_URL = r"(?i)https?://(?:[^/@]*@)?(?:localhost|127(?:\.\d+){3}|\[::1\])(?=[:/]|$)"
LOCAL_REFUSED = r"cannot connect to (?!the proxy )\S+: (?:[\w ]+ and )?Connection refused$"

# Providers that reject an oversized prompt without a body.
BODILESS = {"cerebras": r"(?:400|413)\b.*\(no body\)"}
FULL_WINDOW_SHARE = 0.99  # share of the window; the provider counts tokens, not tau

TRANSIENT = (
    r"overloaded",
    r"throttling",
    r"rate.?limit",
    r"too many requests",
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


@cache
def _alternation(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compiled on the first failed response: compilation takes as long as loading a whole module."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


def _matches(patterns: tuple[str, ...], text: str) -> bool:
    return _alternation(patterns).search(text) is not None


TRANSIENT_OR_STATUS = (*TRANSIENT, STATUS_IN_WORDS)


def is_overflow_text(text: str) -> bool:
    """True if an error text says that the prompt exceeds the context window."""
    return _matches(OVERFLOW, text) and not _matches(NOT_OVERFLOW, text)


def is_overflow(message: Assistant, context_window: int) -> bool:
    """True if an answer says, or its token counts show, that the prompt did not fit the context window."""
    sent = message.usage.input + message.usage.cache_read
    match message.stop_reason:
        case "error":
            text = message.error_message or ""
            bodiless = BODILESS.get(message.provider)
            return is_overflow_text(text) or (bodiless is not None and re.match(bodiless, text) is not None)
        case "stop":  # some servers silently drop what does not fit and answer the rest
            return 0 < context_window < sent
        case "length":  # others leave no room for a single output token
            return not message.usage.output and 0 < context_window * FULL_WINDOW_SHARE <= sent
    return False


def is_transient(text: str, status: int | None = None) -> bool:
    """True if a later retry may succeed, by the status of the response and the words of the error."""
    if is_permanent(text):
        return False
    if status is None:
        return _matches(TRANSIENT_OR_STATUS, text)
    return status in TRANSIENT_STATUS or _matches(TRANSIENT, text)


def is_permanent(text: str) -> bool:
    """True if neither waiting nor asking again helps."""
    return _matches(PERMANENT, text) or is_overflow_text(text)


def refused_on_this_machine(text: str, base_url: str) -> bool:
    """True if nothing listens at the address of a model server on this machine: asking again does not help."""
    return re.match(LOCAL_URL, base_url) is not None and re.search(LOCAL_REFUSED, text) is not None
