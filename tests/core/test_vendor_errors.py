"""The errors of model servers by vendor: their class, and the wait that they ask for.

The bodies in vendor_errors.jsonl have the shape and the words of recorded ones; names, numbers and addresses are ours.
`status` is null for an event in a stream that began with 200; `headerMs` is what a retry-after header asks for.
`python tests/core/test_vendor_errors.py` prints the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau.core.models.failures import RULES, classify
from tau.records.base import Record, decode, encode


class Body(Record):
    vendor: str
    status: int | None
    outcome: str
    kind: str
    body: Any
    header_ms: int | None = None
    wait_ms: int | None = None

    @property
    def text(self) -> str:
        """The error as llm/http.py writes it, or the reader of a stream."""
        body = self.body if isinstance(self.body, str) else encode(self.body).decode()
        return body if self.status is None else f"{self.status} {body}"


BODIES = [decode(Body, line) for line in (Path(__file__).parent / "vendor_errors.jsonl").read_bytes().splitlines()]

# Phrases of errors inside a stream that pi 1.5.2 retries.
PHRASES = [
    "Unable to forward upstream stream",
    "Selected model is at capacity",
    "server_busy",
    "Our servers are currently busy",
    "The upstream provider returned an error",
    "stream disconnected before completion",
    "The pending stream has been canceled",
    "The answer was cut short after the reply had begun",
    "upstream request failed",
    "The stream was interrupted",
    "HTTP2 stream failed",
    "http2 request did not get a response",
    "please retry your request",
    "try your request again",
    "currently experiencing high demand",
    "exceeded request buffer limit while retrying upstream",
    "upstream_stream_read_error",
]


@pytest.mark.parametrize("body", BODIES, ids=[f"{at}-{body.vendor}-{body.status}" for at, body in enumerate(BODIES)])
def test_the_error_of_a_vendor_has_its_class_and_wait(body: Body) -> None:
    found = classify(body.text, wait_ms=body.header_ms)
    assert (found.outcome, found.kind, found.wait_ms) == (body.outcome, body.kind, body.wait_ms)
    if body.header_ms is None:
        assert classify(body.text, body.status) == found


@pytest.mark.parametrize("phrase", PHRASES)
@pytest.mark.parametrize("status", [None, 400])
def test_a_transient_phrase_counts_with_any_status(phrase: str, status: int | None) -> None:
    assert classify(f'{{"error":{{"message":"{phrase}."}}}}', status).is_transient


@pytest.mark.parametrize("phrase", ["context window exceeded"])
def test_phrases_of_an_overflow(phrase: str) -> None:
    assert classify(phrase).outcome == "overflow"


@pytest.mark.parametrize("code", ["subscription_sharing_usage_unavailable", "subscription_sharing_user_unavailable"])
def test_codes_that_are_final_also_with_a_status_that_is_not(code: str) -> None:
    assert classify(f'429 {{"code":"{code}"}}').outcome == "final"


def test_used_up_credit_says_what_to_do() -> None:
    silent = [body for body in BODIES if body.kind == "quota" and "add credit" not in classify(body.text).advice]
    assert silent == []
    assert classify("529 overloaded").advice == ""


def test_a_call_that_the_server_could_not_read_is_asked_for_once_more() -> None:
    assert (classify("400 tool_use_failed").retries, classify("529").retries) == (1, None)


@pytest.mark.parametrize(
    ("words", "wait_ms"),
    [
        ("try again in 4.77s.", 4770),
        ("Try again in 20ms", 20),
        ("Please retry in 1h2m3.5s", 3_723_500),
        ("retry after 6 seconds", 6000),
        ("Please wait 2 minutes and 1 second.", 121_000),
        ('\\"retryDelay\\": \\"45.5s\\"', 45_500),
        ('{"retryDelay":"0.2s"} Please retry in 3s', 3000),
        ("try again later", None),
        ("wait 5 sheep", None),
        ("retry 3 times", None),
    ],
)
def test_the_wait_that_an_error_states(words: str, wait_ms: int | None) -> None:
    assert classify(f"429 {words}").wait_ms == wait_ms


def test_every_class_of_the_table_has_a_body() -> None:
    used = {(body.kind, body.outcome) for body in BODIES}
    ours = {("too_large", "final"), ("network", "transient")}  # of this program; a lost connection has no body
    assert {(rule.kind, rule.outcome) for rule in RULES} <= used | ours


def test_advice_does_not_change_the_class() -> None:
    for body in BODIES:
        found = classify(body.text, wait_ms=body.header_ms)
        again = classify(f"{body.text}\n{found.advice}", wait_ms=body.header_ms)
        assert (again.kind, again.outcome) == (found.kind, found.outcome), body


if __name__ == "__main__":
    print(f"{'vendor':14} status outcome   kind        wait      error")
    for body in BODIES:
        found = classify(body.text, wait_ms=body.header_ms)
        wait = "-" if found.wait_ms is None else f"{found.wait_ms / 1000:g} s"
        status = body.status or "stream"
        print(f"{body.vendor:14} {status!s:6} {found.outcome:9} {found.kind:11} {wait:9} {body.text[:70]}")
