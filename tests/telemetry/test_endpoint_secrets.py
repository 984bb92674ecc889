"""Credentials in the address of a receiver are not printed when it cannot be reached."""

from __future__ import annotations

import logging

import pytest

from tau.runtime.telemetry.exporters import _OneWarning


@pytest.mark.parametrize(
    "words",
    [
        "Max retries exceeded with url: /v1/traces?api-key=very-secret (Caused by NewConnectionError('refused'))",
        "cannot reach https://user:very-secret@host/v1/traces",
        "cannot reach https://user:p@very-secret@host/v1/traces",
        "cannot reach https://host/v1/traces?x=1&token=very-secret",
    ],
)
def test_a_warning_about_a_receiver_has_no_credentials(words: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tau.telemetry"):
        _OneWarning().emit(logging.LogRecord("opentelemetry.exporter", logging.ERROR, "", 0, words, None, None))
    assert "telemetry cannot be sent" in caplog.text and "v1/traces" in caplog.text
    assert "very-secret" not in caplog.text
