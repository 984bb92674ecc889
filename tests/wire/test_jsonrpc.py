"""JSON-RPC messages are classified by their members, and what is wrong with one is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tau.records.base import UNSET
from tau.wire import jsonrpc
from tau.wire.jsonrpc import ErrorResponse, InvalidMessage, Notification, Request, Response, RpcError


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"ping"}', Request(1, "ping")),
        ('{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":1}}', Request("a", "ping", {"x": 1})),
        ('{"jsonrpc":"2.0","id":0,"method":"ping","params":[1]}', Request(0, "ping", [1])),
        ('{"jsonrpc":"2.0","method":"gone","params":null}', Notification("gone")),
        ('{"jsonrpc":"2.0","id":1,"result":null}', Response(1, None)),
        ('{"jsonrpc":"2.0","id":1,"result":{"a":[]}}', Response(1, {"a": []})),
        ('{"jsonrpc":"2.0","id":1,"result":{},"error":null}', Response(1, {})),
        (
            '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}',
            ErrorResponse(None, RpcError(-32700, "?")),
        ),
        (
            '{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"no","data":{"d":1}}}',
            ErrorResponse(2, RpcError(1, "no", {"d": 1})),
        ),
    ],
)
def test_a_message_is_classified_and_encoded_back(line: str, message: jsonrpc.Message) -> None:
    assert jsonrpc.parse_message(line.encode()) == message
    again = jsonrpc.encode_message(message)
    assert b"\n" not in again
    assert jsonrpc.parse_message(again) == message


@pytest.mark.parametrize(
    ("line", "code", "id", "is_response", "reason"),
    [
        (b"{", jsonrpc.PARSE_ERROR, None, False, "Not JSON"),
        (b"\xff", jsonrpc.PARSE_ERROR, None, False, "Not JSON"),
        (b"[" * 5000, jsonrpc.PARSE_ERROR, None, False, "nested too deeply"),
        (b'[{"jsonrpc":"2.0","method":"x"}]', jsonrpc.INVALID_REQUEST, None, False, "Batches"),
        (b"3", jsonrpc.INVALID_REQUEST, None, False, "object"),
        (b'{"id":4,"method":"x"}', jsonrpc.INVALID_REQUEST, 4, False, '"jsonrpc"'),
        (b'{"id":4,"result":1}', jsonrpc.INVALID_REQUEST, 4, True, '"jsonrpc"'),
        (b'{"jsonrpc":"2.0","id":4,"method":5}', jsonrpc.INVALID_REQUEST, 4, False, '"method"'),
        (b'{"jsonrpc":"2.0","id":4,"method":"x","params":5}', jsonrpc.INVALID_REQUEST, 4, False, '"params"'),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', jsonrpc.INVALID_REQUEST, None, False, '"id"'),
        (b'{"jsonrpc":"2.0","id":true,"method":"x"}', jsonrpc.INVALID_REQUEST, None, False, '"id"'),
        (b'{"jsonrpc":"2.0","id":1.5,"result":1}', jsonrpc.INVALID_REQUEST, None, True, '"id"'),
        (b'{"jsonrpc":"2.0","id":1,"error":"no"}', jsonrpc.INVALID_REQUEST, 1, True, '"error"'),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"x"}}', jsonrpc.INVALID_REQUEST, 1, True, "integer"),
        (b'{"jsonrpc":"2.0","id":1}', jsonrpc.INVALID_REQUEST, 1, False, "needs"),
    ],
)
def test_what_is_wrong_with_a_message_is_named(line: bytes, code: int, id: Any, is_response: bool, reason: str) -> None:
    with pytest.raises(InvalidMessage, match=reason) as caught:
        jsonrpc.parse_message(line)
    assert (caught.value.code, caught.value.id, caught.value.is_response) == (code, id, is_response)
    answer = json.loads(jsonrpc.encode_invalid(caught.value))
    assert answer["error"]["code"] == code
    assert answer["id"] == id


def test_members_that_are_absent_are_not_written() -> None:
    assert jsonrpc.encode_request(1, "a") == b'{"jsonrpc":"2.0","id":1,"method":"a"}'
    assert jsonrpc.encode_notification("a", {}) == b'{"jsonrpc":"2.0","method":"a","params":{}}'
    assert jsonrpc.encode_error(None, -1, "x") == b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x"}}'
    assert RpcError(1, "x").data is UNSET
