"""What a failed answer means: the one table of failures of model servers, and the wait that a server asks for.

`classify` reads the text of an error, which starts with the HTTP status if there was one, so a message of a session
file has the same class as the response it came from. The first rule of `RULES` that matches decides. Who reads it:
retries (core/agent/retry.py), compaction, fleets, telemetry, the sentences for people, and the documentation.

The words are those that servers were recorded to send (tests/core/test_vendor_errors.py has the bodies by vendor).
"""

from __future__ import annotations

import re
from functools import cache
from math import ceil
from typing import Literal

from tau.records.base import Value
from tau.records.messages import Assistant

FailureKind = (
    Literal["quota", "overflow", "too_large", "tool_call", "auth", "other"]
    | Literal["overloaded", "unavailable", "rate_limit", "timeout", "network", "server"]
)
# transient: the same request may succeed later. overflow: it may succeed after a compaction. final: neither.
Outcome = Literal["transient", "overflow", "final"]


class Failure(Value):
    """`wait_ms` is the delay that the server asked for, `retries` how often asking again can help (None: as often as
    the settings allow), `advice` what a person can do about it.
    """

    kind: FailureKind
    outcome: Outcome
    wait_ms: int | None = None
    retries: int | None = None
    advice: str = ""

    @property
    def is_transient(self) -> bool:
        return self.outcome == "transient"

    @property
    def is_permanent(self) -> bool:
        """True if asking again cannot help, whatever else is known about the failure."""
        return self.kind in ("quota", "overflow", "too_large")


class Rule(Value):
    """A row of the table: it matches an error with one of the statuses or of the words.

    `unless` are words that overrule it. Some rules hold for some statuses only (`only_for`; None is an error without
    one), and `yields_to_wait` says that a rule does not hold if the server says when to ask again.
    """

    about: str
    kind: FailureKind
    outcome: Outcome
    words: tuple[str, ...] = ()
    statuses: frozenset[int] = frozenset()
    unless: tuple[str, ...] = ()
    only_for: frozenset[int | None] | None = None
    not_for: frozenset[int] = frozenset()
    yields_to_wait: bool = False
    retries: int | None = None
    advice: str = ""


USED_UP = (
    "The credit or the quota of this account is used up: add credit or raise the limit at the provider, wait until it "
    "is reset, or choose another model."
)
# How a 413 begins that a compaction cannot help; runtime/runs/model_client.py writes it.
NEWEST_TOO_LARGE = "The newest message alone has"
WAIT_TOO_LONG = "The provider asks to wait"
ADVICE = (USED_UP, NEWEST_TOO_LARGE, WAIT_TOO_LONG)  # how the last line of an error begins if it is for a person

RULES: tuple[Rule, ...] = (
    Rule("the newest message alone is too large", "too_large", "final", (rf"{NEWEST_TOO_LARGE} [\d,]+ bytes",)),
    Rule(
        "used-up credit, or a limit that waiting minutes does not lift",
        "quota",
        "final",
        (
            r"GoUsageLimitError",  # opencode
            r"FreeUsageLimitError",
            r"(?:monthly|weekly|daily|hourly|session|hour) usage limit",  # Ollama cloud, MiniMax
            r"weekly.rate.?limit",  # Copilot
            r"usage limit (?:has been )?(?:reached|exceeded)|usage_limit_reached",  # Z.ai, MiniMax, Codex
            r"used all available credits|monthly spending limit|run out of credits",  # xAI
            r"premium request allowance|exhausted your premium|have no quota|\bquota_exceeded",  # Copilot
            r"subscription_sharing_(?:usage|user)_unavailable",
            r"\bcode\W{1,6}(?:1113|1308|1310|131[6-9]|132[01])\b",  # Z.ai: balance, and the limits of its plans
            r"insufficient.{0,3}(?:quota|balance|credits)|余额不足",  # OpenAI, MiniMax, DeepSeek, Z.ai
            r"credit balance is too low|extra usage is required",  # Anthropic
            r"available balance",
            r"\barrearage\b",  # DashScope
            r"out of budget",
        ),
        statuses=frozenset({402}),
        advice=USED_UP,
    ),
    Rule(
        "a quota of 0 or for a day",
        "quota",
        "final",
        (
            r"per.?(?:day|month)\b|perday|by ?day\b|/ ?(?:day|month)\b",  # Google's quotaId, OpenRouter, GitHub, Cohere
            r"\bdaily\b.{0,12}\blimit",  # Anthropic
            r"\b[TR]PD\b",  # OpenAI, Groq, Moonshot
            r"\blimit\W{1,3}0(?![\d.])",
            r"\bquotaValue\W{1,6}0\b",
        ),
        only_for=frozenset({None, 403, 429}),
        advice=USED_UP,
    ),
    Rule(
        "this request alone is larger than the limit per minute",
        "overflow",
        "overflow",
        (r"request too large",),  # OpenAI, Groq; so is a Requested above the Limit, see `_asks_for_too_much`
    ),
    Rule(
        "the prompt does not fit the context window",
        "overflow",
        "overflow",
        (
            r"prompt (?:is )?too long",  # Anthropic, z.ai, Ollama
            r"request_too_large",
            r"input is too long for requested model",  # Bedrock
            r"input tokens exceeded",  # Bedrock Nova
            r"exceeds th(?:e|is) (?:model'?s )?context window",  # OpenAI
            r"context window exceeded",
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
            r"to keep the first [\d,]+ tokens when context",
            r"`inputs` tokens \+ `max_new_tokens` must be <=|`inputs` must have less than",  # TGI
            r"tokens in request more than max tokens allowed",
            r"prompt.?超长",  # Z.ai
            r"total length of all messages is too long",  # Perplexity
            r"context window exceeds limit",  # MiniMax
            r"exceeded model token limit",  # Kimi
            r"too large for model with [\d,]+ maximum context length",  # Mistral
            r"prompt has [\d,]+ tokens, but the configured context size is [\d,]+ tokens",  # DS4
            r"exceeded (?:max )?context length",
            r"range of input length should be",  # DashScope
            r"model_context_window_exceeded",  # z.ai
            r"prompt exceeds max length",
            r"context.?length.?exceeded",
            r"tokens_limit_reached",  # GitHub Models
            r"too many tokens",
            r"token limit exceeded",
        ),
        statuses=frozenset({413}),
        # Throttling is not an overflow. A 429 is about the rate, except for the rule above.
        unless=(
            r"throttling error:|service unavailable:|rate.?limit|too many requests",
            r"please wait|per.?minute",  # Bedrock, Cerebras
        ),
        not_for=frozenset({429}),
    ),
    Rule(
        "a quota, unless the server says when to ask again",
        "quota",
        "final",
        (r"quota exceeded", r"\bbilling\b"),
        unless=(r"per.?minute",),
        yields_to_wait=True,
        advice=USED_UP,
    ),
    Rule(
        "an image for a model without sight",
        "other",
        "final",
        (r"image input is not supported",),  # llama.cpp, with the status 500
    ),
    Rule(
        "a tool call that the server could not read, asked for once more",
        "tool_call",
        "transient",
        (r"tool_use_failed",),  # Groq
        retries=1,
    ),
    Rule(
        "overloaded",
        "overloaded",
        "transient",
        (r"overloaded", r"high demand", r"model is at capacity", r"servers? (?:is|are) currently busy", r"server_busy"),
        statuses=frozenset({529}),
    ),
    Rule(
        "unavailable",
        "unavailable",
        "transient",
        (r"service.?unavailable", r"temporarily unavailable"),
        statuses=frozenset({503}),
    ),
    Rule(
        "a rate limit",
        "rate_limit",
        "transient",
        (r"rate.?limit", r"too many requests", r"throttl(?:ing|ed)", r"resource.?exhausted", r"retry delay"),
        statuses=frozenset({429}),
    ),
    Rule(
        "no answer in time",
        "timeout",
        "transient",
        (r"timed? ?out", r"no answer within"),
        statuses=frozenset({408, 504, 524}),
    ),
    Rule(
        "a lost connection",
        "network",
        "transient",
        (
            r"network.?error|cannot connect|connection.?(?:error|refused|lost|reset|closed)",
            r"other side closed|closed the stream|socket hang up|socket connection was closed|fetch failed",
            r"upstream.?connect|reset before headers|terminated|getaddrinfo|ENOTFOUND|EAI_AGAIN|name resolution",
            r"stream ended before|ended without|stream disconnected before completion|stream was interrupted",
            r"pending stream has been cancell?ed|cut short after the reply had begun|unable to forward upstream",
            r"http/?2 stream failed|http/?2 request did not get a response|upstream_stream_read_error",
        ),
    ),
    Rule(
        "a failure of the server",
        "server",
        "transient",
        (
            r"server.?error|internal.?error|upstream request failed",
            r"provider returned (?:an )?error",  # OpenRouter
            r"model stream error",  # Bedrock
            r"(?:can|please) retry your request|try your request again",  # OpenAI
            r"exceeded request buffer limit while retrying upstream",
            r"failed to decode, try again",  # llama.cpp
        ),
        # 409 is included because servers that send it mean a lock held by another request.
        statuses=frozenset({409, 425, *range(500, 600)} - {501, 505}),
    ),
    Rule(
        "a key that is wrong or may not do this",
        "auth",
        "final",
        (r"(?<![\w.,-])(?:401|403)(?![\w-])", r"api.?key", r"unauthorized", r"authentication"),
        statuses=frozenset({401, 403, 407}),
    ),
)

_STATUS = r"(?:HTTP/[\d.]+ )?([1-5]\d\d)(?![\w.,-])"  # where http.py, and pi, write it
# A status in the words, where none is known. Bounded, so that digits of a request id or a byte count do not match.
_STATUS_IN_WORDS = r"(?<![\w.,-])(429|500|502|503|504|520|524|529)(?![\w-])"
_REQUESTED = r"limit:? ([\d,]+)\b.{0,60}?requested:? ([\d,]+)"
_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = r"\d+(?:\.\d+)? ?(?:ms|milliseconds?|s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?|d|days?)(?![a-z])"
_WAIT = rf"(?:retrydelay\W{{1,8}}|\b(?:try again|retry|wait)(?: in| after| for)? )((?:{_SPAN}[ ,]{{0,2}}(?:and )?)+)"
_PART = r"(?<![\d.])(\d+(?:\.\d+)?) ?([a-z]+)"

LOCAL_URL = r"(?i)https?://(?:[^/@]*@)?(?:localhost|127(?:\.\d+){3}|\[::1\])(?=[:/]|$)"
LOCAL_REFUSED = r"cannot connect to (?!the proxy )\S+: (?:[\w ]+ and )?Connection refused$"

# Providers that reject an oversized prompt without a body.
BODILESS = {"cerebras": r"400\b.*\(no body\)"}
FULL_WINDOW_SHARE = 0.99  # share of the window; the provider counts tokens, not tau


def classify(text: str, status: int | None = None, wait_ms: int | None = None) -> Failure:
    """The class of a failure. `wait_ms` is the wait that the headers of the response asked for."""
    if status is None and (found := re.match(_STATUS, text)):
        status = int(found[1])
    mentioned = re.search(_STATUS_IN_WORDS, text) if status is None else None
    wait_ms = stated_wait_ms(text) if wait_ms is None else wait_ms
    for rule in RULES:
        if status in rule.not_for or (rule.only_for is not None and status not in rule.only_for):
            continue
        if rule.yields_to_wait and wait_ms is not None:
            continue
        if (
            (status if mentioned is None else int(mentioned[1])) in rule.statuses
            or (rule.kind == "overflow" and _asks_for_too_much(text))
            or (_matches(rule.words, text) and not _matches(rule.unless, text))
        ):
            return Failure(rule.kind, rule.outcome, wait_ms, rule.retries, rule.advice)
    return Failure("other", "final", wait_ms)


def stated_wait_ms(text: str) -> int | None:
    """The wait that an error states in words, or in Google's RetryInfo; the longest if there are several."""
    waits = [
        sum(
            float(number) * (1 if unit.startswith(("ms", "mil")) else _MS[unit[0]])
            for number, unit in re.findall(_PART, span)
        )
        for span in re.findall(_WAIT, text.lower())
    ]
    return ceil(max(waits)) if waits else None


def _asks_for_too_much(text: str) -> bool:
    """True if the text says that one request needs more tokens than the limit: waiting cannot help."""
    found = re.search(_REQUESTED, text, re.IGNORECASE)
    return found is not None and 0 < _number(found[1]) < _number(found[2])


def _number(text: str) -> int:
    return int(text.replace(",", "") or 0)


@cache
def _alternation(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compiled on the first failed response: compilation takes as long as loading a whole module."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


def _matches(patterns: tuple[str, ...], text: str) -> bool:
    return bool(patterns) and _alternation(patterns).search(text) is not None


def is_overflow(message: Assistant, context_window: int) -> bool:
    """True if an answer says, or its token counts show, that the prompt did not fit the context window."""
    sent = message.usage.input + message.usage.cache_read
    match message.stop_reason:
        case "error":
            text = message.error_message or ""
            bodiless = BODILESS.get(message.provider)
            return classify(text).outcome == "overflow" or (
                bodiless is not None and re.match(bodiless, text) is not None
            )
        case "stop":  # some servers silently drop what does not fit and answer the rest
            return 0 < context_window < sent
        case "length":  # others leave no room for a single output token
            return not message.usage.output and 0 < context_window * FULL_WINDOW_SHARE <= sent
    return False


def refused_on_this_machine(text: str, base_url: str) -> bool:
    """True if nothing listens at the address of a model server on this machine: asking again does not help."""
    return re.match(LOCAL_URL, base_url) is not None and re.search(LOCAL_REFUSED, text) is not None
