"""What the program does about the errors that vendors send: it waits, it compacts, or it says what to do.

The table of all of them is tests/core/test_vendor_errors.py.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from support.faulty_models import asking
from support.provider_servers import SPEAKERS, Serve, refuses, whole
from support.rpc_process import Json, kinds, of, said, text

CHAT = next(speaker for speaker in SPEAKERS if speaker.api == "openai-completions")
SETTINGS: Json = {"retry": {"baseDelayMs": 1}, "compaction": {"keepRecentTokens": 3}}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LONG = "so many words " * 200


def answers(words: str = "whole") -> Serve:
    return whole(CHAT.says(words))


def asked(folder: Path, *served: Serve, prompts: tuple[str, ...] = ("go",), settings: Json = SETTINGS) -> list[Json]:
    """The events of the last prompt."""
    with asking(CHAT, list(served), folder, settings) as agent:
        for prompt in prompts:
            events = agent.prompt(prompt)
    return events


def error_of(events: list[Json]) -> str:
    (answer,) = said(events, "assistant")
    assert answer["stopReason"] == "error"
    return str(answer["errorMessage"])


def test_a_free_tier_that_mentions_billing_is_waited_for(tmp_path: Path) -> None:
    groq = b'{"error":{"message":"Rate limit reached. Please try again in 20ms. Upgrade at /settings/billing"}}'
    gemini = b'{"error":{"message":"check your plan and billing details","details":[{"retryDelay":"0.03s"}]}}'
    events = asked(tmp_path, refuses(429, groq), refuses(429, gemini), answers())
    assert [event["delayMs"] for event in of("auto_retry_start", events)] == [20, 30]
    assert text(said(events, "assistant")[-1]) == "whole"


@pytest.mark.parametrize(
    "body",
    [
        b'{"message":"Too many tokens, please wait before trying again."}',  # Bedrock
        b'{"message":"Tokens per minute limit exceeded - too many tokens processed.","type":"too_many_tokens_error"}',
    ],
)
def test_throttling_is_waited_for_and_does_not_summarise_the_conversation(tmp_path: Path, body: bytes) -> None:
    events = asked(tmp_path, answers(), refuses(429, body), answers("again"), prompts=(LONG, "go"))
    assert "auto_compaction_start" not in kinds(events)
    assert [event["attempt"] for event in of("auto_retry_start", events)] == [1]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, b'{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30, Requested 36."}}'),
        (413, b'{"error":{"message":"Request body too large for m model. Max size: 8000 tokens."}}'),  # GitHub Models
        (413, b"Request Entity Too Large"),  # Copilot
        (400, b'{"message":"Input Tokens Exceeded: Number of input tokens exceeds maximum length."}'),  # Bedrock Nova
    ],
)
def test_a_request_that_is_too_large_is_compacted_and_asked_again(tmp_path: Path, status: int, body: bytes) -> None:
    served = answers(), refuses(status, body), answers("a summary"), answers("again")
    events = asked(tmp_path, *served, prompts=(LONG, "go"))
    assert [event["reason"] for event in of("auto_compaction_start", events)] == ["overflow"]
    assert text(said(events, "assistant")[-1]) == "again"


def test_a_413_that_the_newest_message_explains_leaves_the_conversation_alone(tmp_path: Path) -> None:
    events = asked(tmp_path, answers(), refuses(413, b"Too Large"), prompts=("hi", LONG * 100))
    assert "auto_compaction_start" not in kinds(events) and "auto_retry_start" not in kinds(events)
    assert "The newest message alone has 280,0" in error_of(events)


def test_a_413_names_the_bytes_of_images(tmp_path: Path) -> None:
    data = b64encode(b64decode(PNG) + bytes(60_000)).decode()
    model = {"id": "m", "input": ["text", "image"], "contextWindow": 200_000, "maxTokens": 8_000}
    with asking(CHAT, [answers(), refuses(413, b"Too Large")], tmp_path, SETTINGS, model) as agent:
        agent.prompt("hi")
        events = agent.prompt("look", images=[{"type": "image", "data": data, "mimeType": "image/png"}])
    assert f", {len(data):,} of them images" in error_of(events)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, b'{"error":"Your team has either used all available credits or reached its monthly spending limit."}'),
        (429, b'{"error":"you have reached your weekly usage limit, upgrade for higher limits"}'),  # Ollama cloud
        (500, b'{"error":{"message":"insufficient balance (1008)"}}'),  # MiniMax
        (429, b'{"error":{"code":"1308","message":"Usage limit reached for 5 hour."}}'),  # Z.ai
    ],
)
def test_used_up_credit_is_not_retried_and_says_what_to_do(tmp_path: Path, status: int, body: bytes) -> None:
    events = asked(tmp_path, refuses(status, body))
    assert "auto_retry_start" not in kinds(events)
    first, last = error_of(events).split("\n")
    assert first == f"{status} {body.decode()}"
    assert "add credit or raise the limit" in last and "choose another model" in last


def test_a_wait_that_is_too_long_is_told_with_its_length(tmp_path: Path) -> None:
    events = asked(tmp_path, refuses(429, b"slow down", "retry-after: 91"))
    assert error_of(events) == (
        "429 slow down\nThe provider asks to wait 91 s; the setting retry.maxDelayMs allows 60 s."
    )


def test_an_error_and_its_advice_are_short(tmp_path: Path) -> None:
    message = error_of(asked(tmp_path, refuses(429, b"slow " * 2000, "retry-after: 91")))
    assert message.endswith("allows 60 s.") and len(message.encode()) <= 4096


def test_a_call_that_groq_could_not_read_is_asked_for_once_more(tmp_path: Path) -> None:
    failed = whole([b'event: error\ndata: {"error":{"message":"Failed to call","code":"tool_use_failed"}}\n\n'])
    events = asked(tmp_path / "a", failed, answers())
    assert text(said(events, "assistant")[-1]) == "whole"
    events = asked(tmp_path / "b", failed, failed)
    assert len(of("auto_retry_start", events)) == 1
    assert said(events, "assistant")[-1]["stopReason"] == "error"
