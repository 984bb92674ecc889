"""Errors of the protocol: the code, the sentence and the data of an error response."""

from __future__ import annotations

from typing import Any

from tau.records.base import UNSET
from tau.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

CANCELLED = -32800
AUTH_REQUIRED = -32000
NOT_FOUND = -32002


class AcpError(Exception):
    """Becomes the error response of the request that it is raised for."""

    def __init__(self, code: int, message: str, data: Any = UNSET) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def invalid_params(field: str, problem: str) -> AcpError:
    """A field is missing or wrong."""
    return AcpError(INVALID_PARAMS, f"{field}: {problem}" if field else problem, {"field": field, "problem": problem})


def invalid_request(message: str) -> AcpError:
    return AcpError(INVALID_REQUEST, message)


def unknown_method(name: str) -> AcpError:
    return AcpError(METHOD_NOT_FOUND, f"Unknown method: {name}", {"method": name})


def unknown_session(id: str) -> AcpError:
    return AcpError(NOT_FOUND, f"There is no session {id}.", {"sessionId": id})


def failed(message: str, data: Any = UNSET) -> AcpError:
    return AcpError(INTERNAL_ERROR, message, data)
