"""JSON-RPC 2.0 messages: parse and classify one message, encode requests, notifications and responses.

Framing is not part of this module: a message is the bytes of one JSON value. Batches are refused, because the
protocols that use this module (MCP, ACP) do not have them. Ids are strings or integers. Only a response to a message
whose id could not be read has the id None.
"""

from __future__ import annotations

from typing import Any

from tau.records.base import MAX_RECEIVED_NESTING, UNSET, BadRecord, Raw, UnsetType, Value, encode, parse

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

Id = str | int
Params = dict[str, Any] | list[Any]


class RpcError(Value):
    """The `error` member of a response."""

    code: int
    message: str
    data: Any = UNSET


class Request(Value):
    """A call that expects a response with the same id."""

    id: Id
    method: str
    params: Params | UnsetType = UNSET


class Notification(Value):
    """A call without a response."""

    method: str
    params: Params | UnsetType = UNSET


class Response(Value):
    """The result of a request. `id` is None if the peer could not read the id of what it answers."""

    id: Id | None
    result: Any


class ErrorResponse(Value):
    """The failure of a request."""

    id: Id | None
    error: RpcError


Message = Request | Notification | Response | ErrorResponse


class InvalidMessage(ValueError):
    """Not a JSON-RPC message. `code` and `id` are those of the error response that the sender should receive.

    `is_response` is True for a broken response, which must not be answered.
    """

    def __init__(self, reason: str, code: int = INVALID_REQUEST, id: Id | None = None, response: bool = False) -> None:
        super().__init__(reason)
        self.code = code
        self.id = id
        self.is_response = response


def parse_message(data: bytes) -> Message:
    """Parse one message. Raises InvalidMessage."""
    try:
        value = parse(data, MAX_RECEIVED_NESTING)
    except BadRecord as error:
        raise InvalidMessage(f"Not JSON: {error}", PARSE_ERROR) from None
    return classify(value)


def classify(value: Any) -> Message:
    """Return the message that a parsed JSON value is. Raises InvalidMessage."""
    if isinstance(value, list):
        raise InvalidMessage("Batches are not supported.")
    if not isinstance(value, dict):
        raise InvalidMessage("A message must be a JSON object.")
    id = value.get("id")
    known_id: Id | None = id if _is_id(id) else None
    if value.get("jsonrpc") != "2.0":
        is_response = "method" not in value and ("result" in value or "error" in value)
        raise InvalidMessage('"jsonrpc" must be "2.0".', id=known_id, response=is_response)
    if "method" in value:
        return _call(value, known_id)
    if "result" in value or "error" in value:
        return _response(value, known_id)
    raise InvalidMessage('A message needs "method", "result" or "error".', id=known_id)


def _call(value: dict[str, Any], id: Id | None) -> Request | Notification:
    method, params = value["method"], value.get("params", UNSET)
    if not isinstance(method, str):
        raise InvalidMessage('"method" must be a string.', id=id)
    if params is None:  # not allowed by JSON-RPC, but common
        params = UNSET
    if not isinstance(params, dict | list | UnsetType):
        raise InvalidMessage('"params" must be an object or an array.', id=id)
    if "id" not in value:
        return Notification(method, params)
    if id is None:
        raise InvalidMessage('"id" must be a string or an integer.')
    return Request(id, method, params)


def _response(value: dict[str, Any], id: Id | None) -> Response | ErrorResponse:
    if id is None and value.get("id") is not None:
        raise InvalidMessage('"id" must be a string or an integer.', response=True)
    if "error" not in value or (value["error"] is None and "result" in value):
        return Response(id, value["result"])
    error = value["error"]
    if not isinstance(error, dict):
        raise InvalidMessage('"error" must be an object.', id=id, response=True)
    code, message = error.get("code"), error.get("message")
    if not isinstance(code, int) or isinstance(code, bool) or not isinstance(message, str):
        raise InvalidMessage('"error" needs an integer "code" and a string "message".', id=id, response=True)
    return ErrorResponse(id, RpcError(code, message, error.get("data", UNSET)))


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def encode_message(message: Message) -> bytes:
    """Encode a message as one line of JSON, without the newline."""
    match message:
        case Request(id, method, params):
            return encode_request(id, method, params)
        case Notification(method, params):
            return encode_notification(method, params)
        case Response(id, result):
            return encode_response(id, result)
        case ErrorResponse(id, error):
            return encode_error(id, error.code, error.message, error.data)


def encode_request(id: Id, method: str, params: Any = UNSET) -> bytes:
    """Encode a request. `params` may be a record, a dict, a list or `Raw` JSON; without it there is no "params"."""
    return encode(_with_params({"jsonrpc": "2.0", "id": id, "method": method}, params))


def encode_notification(method: str, params: Any = UNSET) -> bytes:
    return encode(_with_params({"jsonrpc": "2.0", "method": method}, params))


def encode_response(id: Id | None, result: Any) -> bytes:
    return encode({"jsonrpc": "2.0", "id": id, "result": result})


def encode_error(id: Id | None, code: int, message: str, data: Any = UNSET) -> bytes:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not UNSET:
        error["data"] = data
    return encode({"jsonrpc": "2.0", "id": id, "error": error})


def encode_invalid(error: InvalidMessage) -> bytes:
    """Encode the response to a message that could not be read."""
    return encode_error(error.id, error.code, str(error))


def _with_params(envelope: dict[str, Any], params: Params | Raw | Any) -> dict[str, Any]:
    if params is not UNSET:
        envelope["params"] = params
    return envelope
