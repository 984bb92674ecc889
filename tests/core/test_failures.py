from __future__ import annotations

import pytest

from support.entry_builder import answer
from tau.core.models.failures import classify, is_overflow, refused_on_this_machine
from tau.records.messages import Usage

TOO_LONG = [
    "400 prompt is too long: 213462 tokens > 200000 maximum",
    "Prompt too long",
    '413 {"error":{"type":"request_too_large"}}',
    "Input is too long for requested model.",
    "Your input exceeds the context window of this model.",
    "Input length (265330) exceeds model's maximum context length (262144).",
    "The input exceeds the model's maximum context length of 131072 tokens",
    "litellm.ContextWindowExceededError: …",
    "The input token count (1196265) exceeds the maximum number of tokens allowed",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
    "Please reduce the length of the messages or completion",
    "This endpoint's maximum context length is 200000 tokens.",
    "input exceeds the maximum allowed input length of 131040 tokens",
    "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
    "prompt token count of 82010 exceeds the limit of 64000",
    "413 failed to parse request",
    "the request exceeds the available context size, try increasing it",
    "tokens to keep from the initial prompt is greater than the context length",
    "invalid params, context window exceeds limit",
    "Your request exceeded model token limit: 262144",
    "Prompt contains 300000 tokens, too large for model with 262144 maximum context length",
    "Prompt has 9000 tokens, but the configured context size is 8192 tokens",
    "prompt too long; exceeded max context length by 12 tokens",
    "Range of input length should be [1, 98304]",
    "finish_reason: model_context_window_exceeded",
    "Prompt exceeds max length",
    "context_length_exceeded",
    "context length exceeded",
    "too many tokens",
    "token limit exceeded",
]


@pytest.mark.parametrize("text", TOO_LONG)
def test_providers_say_that_it_does_not_fit_in_many_ways(text: str) -> None:
    assert classify(text).outcome == "overflow"
    assert is_overflow(answer(error=text), 200_000)


@pytest.mark.parametrize(
    "text",
    [
        "Throttling error: Too many tokens, please wait before trying again.",
        "Service unavailable: too many tokens in flight",
        "429 rate limit: too many tokens per minute",
        "Too many requests: token limit exceeded for this minute",
    ],
)
def test_too_much_at_once_is_not_too_much_for_the_window(text: str) -> None:
    assert classify(text).outcome == "transient"
    assert not is_overflow(answer(error=text), 200_000)


@pytest.mark.parametrize("text", ["400 bad request", "400 status code (no body)", ""])
def test_other_errors_are_no_overflow(text: str) -> None:
    assert not is_overflow(answer(error=text), 200_000)


def test_a_413_is_an_overflow_unless_the_newest_message_alone_is_too_large() -> None:
    assert is_overflow(answer(error="413 status code (no body)"), 200_000)
    named = "413 Request Entity Too Large\nThe newest message alone has 9,000,000 bytes, which is more than …"
    assert not is_overflow(answer(error=named), 200_000)
    assert classify(named).outcome == "final"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("400 status code (no body)", True),
        ("500 status code (no body)", False),
        ("see 400 status code (no body)", False),
    ],
)
def test_one_provider_says_it_without_a_word(text: str, meant: bool) -> None:
    assert is_overflow(answer(error=text, provider="cerebras"), 200_000) is meant


@pytest.mark.parametrize(
    ("usage", "meant"),
    [
        (Usage(input=200_000, output=5), False),
        (Usage(input=200_001, output=5), True),
        (Usage(input=100_000, cache_read=100_001, output=5), True),
    ],
)
def test_an_answer_to_more_than_the_window_holds_is_a_silent_overflow(usage: Usage, meant: bool) -> None:
    assert is_overflow(answer("ok", usage=usage), 200_000) is meant
    assert not is_overflow(answer("ok", usage=usage), 0)


@pytest.mark.parametrize(
    ("usage", "meant"),
    [
        (Usage(input=198_000), True),
        (Usage(input=198_000, output=1), False),
        (Usage(input=100_000), False),
    ],
)
def test_no_room_for_a_single_token_is_an_overflow(usage: Usage, meant: bool) -> None:
    assert is_overflow(answer(stop="length", usage=usage), 200_000) is meant


def test_an_aborted_answer_shows_nothing() -> None:
    assert not is_overflow(answer(stop="aborted", usage=Usage(input=300_000)), 200_000)


@pytest.mark.parametrize(
    ("text", "url", "refused"),
    [
        ("Connection error: cannot connect to 127.0.0.1:11434: Connection refused", "http://127.0.0.1:11434/v1", True),
        ("cannot connect to localhost:1: Connection refused", "http://localhost:1", True),
        ("cannot connect to ::1:1: Cannot assign requested address and Connection refused", "https://[::1]:1/v1", True),
        ("cannot connect to the proxy 127.0.0.1:3128: Connection refused", "http://127.0.0.1:1/v1", False),
        ("cannot connect to lab:1: Connection refused", "http://lab:1/v1", False),
        ("cannot connect to localhost.example:1: Connection refused", "http://localhost.example:1", False),
        ("cannot connect to 127.0.0.1:1: Network is unreachable", "http://127.0.0.1:1", False),
        ("500 cannot connect to 127.0.0.1:1: Connection refused by upstream", "http://127.0.0.1:1", False),
    ],
)
def test_a_server_on_this_machine_that_does_not_run_is_recognised(text: str, url: str, refused: bool) -> None:
    assert refused_on_this_machine(text, url) is refused
