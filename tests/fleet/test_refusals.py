"""Which failures of a model server count as refusals of the provider, and when it wants to be asked again."""

from __future__ import annotations

import pytest

from tau.fleet.refusals import Refusals
from tau.records.events import AutoRetryStart
from tau.records.fleet import FromWorker, Limited, Order, Task


def reported(error: str) -> list[FromWorker]:
    said: list[FromWorker] = []
    refusals = Refusals(Order("a1", 1, Task(prompt="go", model="lab/m"), "hash", "folder"), said.append)
    refusals.on_retry(AutoRetryStart(1, 3, 2000, error))
    return said


@pytest.mark.parametrize(
    ("error", "retry_after"),
    [
        ("429 slow down", None),
        ("529 overloaded", None),
        ("429 Rate limit reached. Please try again in 4.5s.", 4.5),
        ('{"error":{"code":429,"details":[{"retryDelay":"20s"}]}}', 20.0),
    ],
)
def test_a_refusal_is_reported_with_the_wait_that_it_states(error: str, retry_after: float | None) -> None:
    assert reported(error) == [Limited("lab", retry_after, "a1", 2.0)]


@pytest.mark.parametrize(
    "error",
    [
        "503 Service Unavailable",
        "The stream ended before a finish_reason came.",
        "429 You have reached your monthly usage limit",
        "429 Request too large on tokens per min (TPM): Limit 30, Requested 36.",
    ],
)
def test_other_failures_are_no_refusals(error: str) -> None:
    assert reported(error) == []
