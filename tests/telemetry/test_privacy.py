"""Nothing of a conversation and no key leaves the machine, unless the user asks for content; keys never do."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra [otel]")

import tau
from support.otlp import Receiver
from support.otlp_check import complaints
from support.telemetry_canaries import MARK, found, many_runs
from support.telemetry_figures import CAPTURE, ENDPOINT, fresh_process
from tau.runtime.telemetry import start
from tau.runtime.telemetry.log_records import LogHandler, without_values


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver, and a process that has not sent anything before and does not afterwards."""
    with Receiver() as found, fresh_process(found):
        yield found


@pytest.mark.promise("O01")
def test_no_content_is_in_any_byte_that_is_sent(tmp_path: Path, receiver: Receiver) -> None:
    canary = asyncio.run(many_runs(tmp_path, 6, {ENDPOINT: receiver.url}))
    start.flush()
    assert canary.count > 6 * 30
    assert {"/v1/traces", "/v1/metrics", "/v1/logs"} <= set(receiver.paths)
    assert found(receiver.bodies) == []
    assert complaints(receiver.spans, receiver.points, receiver.records) == []
    assert "execute_tool _OTHER" in {span.name for span in receiver.spans}
    runs = {span.id for span in receiver.spans if span.name == "invoke_agent tau"}
    extension = [record for record in receiver.records if "extension" in record.body]
    assert extension and {record.span for record in extension} <= runs
    assert {record.body for record in receiver.records} >= {"a file cannot be read: …: OSError", "…"}


@pytest.mark.promise("O02")
def test_with_content_there_are_no_keys(tmp_path: Path, receiver: Receiver) -> None:
    asyncio.run(many_runs(tmp_path, 2, {ENDPOINT: receiver.url, CAPTURE: "SPAN_AND_EVENT"}))
    start.flush()
    assert found(receiver.bodies) != []  # content was asked for
    assert found(receiver.bodies, f"sk-{MARK}") == []
    assert complaints(receiver.spans, receiver.points, receiver.records, with_content=True) == []
    events = [record for record in receiver.records if record.event]
    assert events and all(record.trace for record in events)
    inputs = next(
        record.attributes["gen_ai.input.messages"] for record in events if "gen_ai.input.messages" in record.attributes
    )
    assert isinstance(inputs, tuple) and inputs[0]["role"] == "user"  # structured, not a text


def test_log_messages_are_texts_of_the_source() -> None:
    """Values are arguments, so that telemetry can leave them out."""
    call = re.compile(r"\b(?:log|logger)\.(?:warning|error|exception|critical)\((?!\s*\")")
    files = [file for file in Path(tau.__file__).parent.rglob("*.py") if call.search(file.read_text())]
    assert files == []


@pytest.mark.parametrize(
    ("text", "values", "shown"),
    [
        ("%s was left: %s", ("/home/me/x", OSError("no /home/me/x")), "… was left: OSError"),
        ("%d commands did not end within %.1f s", (3, 2.0), "3 commands did not end within 2.0 s"),
        ("%d files", ("/home/me",), "%d files"),
        ("100 %", (), "100 %"),
    ],
)
def test_a_log_record_has_no_values(text: str, values: tuple[object, ...], shown: str) -> None:
    record = logging.LogRecord("tau.x", logging.WARNING, "", 1, text, values, None)
    assert without_values(record) == shown


def test_a_log_record_that_cannot_be_sent_harms_nothing() -> None:
    handler = LogHandler(None, str, with_content=False)
    handler.emit(logging.LogRecord("tau.x", logging.WARNING, "", 1, "text", (), None))
