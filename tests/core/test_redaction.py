"""What a bug report may contain."""

from __future__ import annotations

from typing import Any

import pytest

from tau.core.checks.redaction import Redaction

pytestmark = pytest.mark.unit

ENTRY: dict[str, Any] = {
    "type": "message",
    "id": "ab",
    "message": {
        "role": "user",
        "content": [
            {"type": "text", "text": "my key is topsecret-123456 in /home/me/x"},
            {"type": "image", "data": "QUJD"},
        ],
        "timestamp": 5,
    },
}


def test_without_texts_only_the_structure_is_left() -> None:
    hidden = Redaction([], "/home/me", keep_text=False).value(ENTRY)
    content = hidden["message"]["content"]
    assert hidden["type"] == "message" and hidden["id"] == "ab" and hidden["message"]["timestamp"] == 5
    assert content == [{"type": "text", "text": "<40 characters>"}, {"type": "image", "data": "<4 characters>"}]


def test_with_texts_known_keys_tokens_images_and_the_home_folder_are_masked() -> None:
    redaction = Redaction(["topsecret-123456"], "/home/me")
    content = redaction.value(ENTRY)["message"]["content"]
    assert content == [{"type": "text", "text": "my key is *** in ~/x"}, {"type": "image", "data": "<4 characters>"}]
    for token in ("sk-ant-api03-abcdefghijklmnop", "ghp_abcdefghijklmnopqrst", "AKIAABCDEFGHIJKLMNOP"):
        assert redaction.text(f"use {token}.") == "use ***."
    key = "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----"
    assert redaction.text(f"a {key} b") == "a *** b"


def test_settings_lose_the_values_of_secret_fields() -> None:
    assert Redaction([], "/").value({"apiKey": "x", "theme": "dark"}) == {"apiKey": "***", "theme": "dark"}
