"""Parsing a line into a Request."""

from __future__ import annotations

import pytest

from tau.records import commands as c
from tau.records.base import Raw
from tau.runtime.protocol.requests import InvalidLine, Request, parse_request
from tau.runtime.protocol.responses import response
from tau.wire.lines import LineTooLong


def test_a_request_has_the_kind_the_name_the_id_and_the_bytes_of_its_line() -> None:
    line = b'{"id":7,"type":"get_state"}'
    assert parse_request(line) == Request(c.GetState, "get_state", Raw(b"7"), line)


def test_an_answer_to_a_dialog_is_not_a_request() -> None:
    assert parse_request(b'{"type":"extension_ui_response","id":"1"}') is None


INVALID = [
    (LineTooLong(5), "parse", b"", "Failed to parse command: the line is longer than 5 bytes"),
    (b"[]", "parse", b"", 'Failed to parse command: expected an object with a string "type"'),
    (b'{"id":"a"}', "parse", b'"a"', 'Failed to parse command: expected an object with a string "type"'),
    (b'{"id":"a","type":"fly"}', "fly", b'"a"', "Unknown command: fly"),
]


@pytest.mark.parametrize(("line", "command", "id", "error"), INVALID)
def test_an_invalid_line_keeps_what_its_response_needs(
    line: bytes | LineTooLong, command: str, id: bytes, error: str
) -> None:
    with pytest.raises(InvalidLine) as raised:
        parse_request(line)
    assert (raised.value.command, raised.value.id, str(raised.value)) == (command, id, error)


def test_a_response_has_its_fields_in_the_order_of_pi() -> None:
    assert response(b'"a"', "x", None, "no") == (
        b'{"id":"a","type":"response","command":"x","success":false,"error":"no","data":null}'
    )
