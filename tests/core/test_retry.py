from __future__ import annotations

import pytest

from support.loop_kit import fails
from tau.core.agent.retry import Retry, is_retryable, next_retry
from tau.core.models.failures import classify
from tau.records.settings import RetrySettings

TRANSIENT = [
    '529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    "429 Too Many Requests",
    "Rate limit reached",
    "rate_limit_error",
    "Error: (500) oops",
    "HTTP/1.1 502 Bad Gateway",
    "status=503",
    "504",
    "520: web server returned an unknown error",
    "error code: 524",
    "Service Unavailable",
    "service_unavailable",
    "The model is temporarily unavailable",
    "api_error: Internal server error",
    "internal_error",
    "Provider returned error",
    "We are currently experiencing high demand",
    "network error",
    "Connection error: [Errno 111] Connection refused",
    "connection lost",
    "Connection reset by peer",
    "other side closed",
    "socket hang up",
    "The socket connection was closed unexpectedly",
    "TypeError: fetch failed",
    "upstream connect error or disconnect/reset before headers",
    "terminated",
    "retry delay",
    "Request timed out.",
    "timeout",
    "The model server sent nothing for 120 s (timed out).",
    "getaddrinfo ENOTFOUND api.example.com",
    "EAI_AGAIN",
    "Temporary failure in name resolution",
    "The stream ended before message_stop.",
    "stream ended before a terminal response event",
    "The request ended without sending any chunks",
    "ResourceExhausted",
    "An error occurred. You can retry your request.",
]
PERMANENT = [
    "400 bad thing happened",
    "401 invalid x-api-key",
    "403 forbidden",
    "404 model not found",
    "The model refused to answer (stop reason: refusal).",
    '429 {"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}',
    "429 insufficient quota",
    "429 GoUsageLimitError",
    "503 FreeUsageLimitError: rate limit",
    "429 you have reached your monthly usage limit",
    "429 your available balance is too low",
    "429 out of budget",
    "429 Quota exceeded for this project",
    "402 check your plan and billing details; rate limit",
    "500 image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    "",
]
OVERFLOW = [
    '400 {"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum"}}',
    '413 {"error":{"type":"request_too_large"}}',
    "Input is too long for requested model",
    "Your input exceeds the context window of this model",
    "The input token count (1200000) exceeds the maximum number of tokens allowed",
    "This model's maximum prompt length is 131072",
    "Please reduce the length of the messages",
    "This model's maximum context length is 128000 tokens",
    "prompt token count of 70000 exceeds the limit of 64000",
    "the request exceeds the available context size",
    "tokens to keep is greater than the context length",
    "context window exceeds limit (2013)",
    "exceeded model token limit: 262144",
    "context_length_exceeded",
    "429 Request too large: Limit 10, Requested 12",
    "500 token limit exceeded",
]


@pytest.mark.parametrize("text", TRANSIENT)
def test_waiting_may_help(text: str) -> None:
    assert classify(text).outcome == "transient"


@pytest.mark.parametrize("text", PERMANENT)
def test_waiting_does_not_help(text: str) -> None:
    assert classify(text).outcome == "final"


@pytest.mark.parametrize("text", OVERFLOW)
def test_the_prompt_does_not_fit(text: str) -> None:
    assert classify(text).outcome == "overflow"


@pytest.mark.parametrize(
    "text",
    [
        "400 invalid request (request id: req_011CS500x529)",
        "400 bad request, id 8f3a-429-bb",
        "400 bad request, id abc.503.x",
        "400 the file has 15000 bytes",
        "400 the file has 1,500 bytes",
        "400 at most 0.500 of it",
        "401 key sk-502",
    ],
)
def test_digits_in_ids_and_counts_are_no_status(text: str) -> None:
    assert not classify(text).is_transient


@pytest.mark.parametrize(
    ("status", "text", "helps"),
    [
        *((status, "strange", True) for status in (408, 409, 425, 429, 500, 502, 503, 504, 520, 524, 529, 599)),
        *((status, "strange", False) for status in (301, 400, 401, 403, 404, 413, 422, 501, 505)),
        (400, "max_tokens must be at most 500", False),
        (400, "the server is overloaded", True),
        (403, "API rate limit exceeded", True),
        (429, "insufficient_quota", False),
        (500, "prompt is too long", False),
    ],
)
def test_a_status_says_whether_waiting_helps_unless_the_words_know_better(status: int, text: str, helps: bool) -> None:
    assert classify(f"{status} {text}", status).is_transient is helps


def test_what_the_provider_said_about_waiting_goes_before_the_words() -> None:
    assert [is_retryable(fails(why="strange", transient=known)) for known in (None, True, False)] == [
        False,
        True,
        False,
    ]
    assert [is_retryable(fails(why="overloaded", transient=known)) for known in (None, True, False)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("text", ["429 insufficient_quota", "prompt is too long"])
def test_what_can_never_get_better_is_not_retried_whatever_the_provider_said(text: str) -> None:
    assert is_retryable(fails(why=text, transient=True)) is False


def test_an_aborted_answer_is_not_retried() -> None:
    assert is_retryable(fails(why="overloaded", stop="aborted", transient=True)) is False


# How long to wait.

POLICY = RetrySettings()


def test_waits_double_and_end() -> None:
    assert [next_retry(fails(why="529"), POLICY, done) for done in range(4)] == [
        Retry(1, 2000, "529"),
        Retry(2, 4000, "529"),
        Retry(3, 8000, "529"),
        None,
    ]


def test_nothing_is_retried_when_it_is_switched_off() -> None:
    assert next_retry(fails(), RetrySettings(enabled=False), 0) is None
    assert next_retry(fails(), RetrySettings(max_retries=0), 0) is None


def test_a_permanent_error_is_not_retried() -> None:
    assert next_retry(fails(why="400 bad thing happened"), POLICY, 0) is None


@pytest.mark.parametrize(
    ("asked_ms", "done", "delay_ms"),
    [(0, 0, 2000), (500, 0, 2000), (5000, 0, 5000), (5000, 2, 8000), (60000, 0, 60000)],
)
def test_the_server_may_ask_for_more_than_our_own_wait(asked_ms: int, done: int, delay_ms: int) -> None:
    assert next_retry(fails(why="429", retry_after_ms=asked_ms), POLICY, done) == Retry(done + 1, delay_ms, "429")


def test_a_server_that_asks_for_too_much_is_not_waited_for() -> None:
    hours = fails(why="429", retry_after_ms=7_200_000)
    assert next_retry(hours, POLICY, 0) is None
    assert next_retry(hours, RetrySettings(max_delay_ms=0), 0) == Retry(1, 7_200_000, "429")


def test_a_wait_in_the_words_counts_like_one_in_the_headers() -> None:
    groq = "429 Rate limit reached. Please try again in 4.77s. Upgrade at https://example/settings/billing"
    assert next_retry(fails(why=groq), POLICY, 0) == Retry(1, 4770, groq)
    assert next_retry(fails(why="429 check your billing details", retry_after_ms=5000), POLICY, 0) is not None
    assert next_retry(fails(why="429 check your billing details"), POLICY, 0) is None
    assert next_retry(fails(why="429 Please try again in 2 hours."), POLICY, 0) is None


def test_a_call_that_groq_could_not_read_is_asked_for_once_more() -> None:
    failed = fails(why='400 {"error":{"code":"tool_use_failed"}}')
    assert next_retry(failed, POLICY, 0) is not None
    assert next_retry(failed, POLICY, 1) is None
