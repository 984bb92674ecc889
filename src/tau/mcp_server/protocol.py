"""The protocol of the server, without I/O: which era a request belongs to, and how its result looks there.

A legacy client sends `initialize` first. A modern client sends no handshake: every request carries its version and its
capabilities in `_meta`. One connection can serve both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tau.mcp.definitions import Era
from tau.mcp.messages import (
    LEGACY_VERSION,
    LEGACY_VERSIONS,
    META,
    MODERN_VERSION,
    MODERN_VERSIONS,
    UNSUPPORTED_VERSION,
)
from tau.records.base import UNSET, Value
from tau.wire.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Id, Params, Request

VERSION_KEY, CAPABILITIES_KEY, SERVER_KEY = (
    f"{META}{name}" for name in ("protocolVersion", "clientCapabilities", "serverInfo")
)
CACHEABLE = ("server/discover", "tools/list", "resources/list", "resources/templates/list", "resources/read")
WITHOUT_HANDSHAKE = ("initialize", "ping", "server/discover")


class Refused(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = UNSET) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class RequestFacts(Value):
    """What a request says about itself and its client."""

    id: Id
    method: str
    era: Era
    params: Mapping[str, Any]
    can_ask: bool  # the client can show forms to its user (elicitation)
    progress_token: str | int | None


class Protocol:
    """The state of one connection. `instructions` and `capabilities` are told to clients."""

    def __init__(self, version: str, instructions: str, capabilities: Mapping[str, Any]) -> None:
        self._server = {"name": "tau", "version": version}
        self._about = {"capabilities": dict(capabilities), "instructions": instructions}
        self._client_capabilities: Mapping[str, Any] | None = None  # of a legacy client, since its `initialize`

    def facts(self, request: Request) -> RequestFacts:
        """Classify a request. Raises Refused."""
        params = _object(request.params)
        meta = _object(params.get("_meta"))
        token = meta.get("progressToken")
        progress_token = token if isinstance(token, str | int) and not isinstance(token, bool) else None
        version = meta.get(VERSION_KEY)
        if version is not None:
            if version not in MODERN_VERSIONS:
                supported = {"supported": [*MODERN_VERSIONS, *reversed(LEGACY_VERSIONS)], "requested": version}
                raise Refused(UNSUPPORTED_VERSION, f"Unsupported protocol version: {str(version)[:64]}", supported)
            can_ask = _asks(_object(meta.get(CAPABILITIES_KEY)))
            return RequestFacts(request.id, request.method, "modern", params, can_ask, progress_token)
        if self._client_capabilities is None and request.method not in WITHOUT_HANDSHAKE:
            raise Refused(INVALID_REQUEST, "The connection is not initialized: send `initialize` first.")
        can_ask = _asks(self._client_capabilities or {})
        return RequestFacts(request.id, request.method, "legacy", params, can_ask, progress_token)

    def initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answer `initialize`: in the version of the client if it is known, else in the newest legacy one."""
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise Refused(INVALID_PARAMS, "protocolVersion: expected a string")
        self._client_capabilities = _object(params.get("capabilities"))
        version = wanted if wanted in LEGACY_VERSIONS else LEGACY_VERSION
        return {"protocolVersion": version, "serverInfo": self._server, **self._about}

    def discover(self) -> dict[str, Any]:
        return {"supportedVersions": [MODERN_VERSION, *reversed(LEGACY_VERSIONS)], **self._about}

    def shaped(self, facts: RequestFacts, result: dict[str, Any]) -> dict[str, Any]:
        """The result with the fields that its era requires."""
        if facts.era == "legacy" and facts.method != "server/discover":
            return result
        cache = {"ttlMs": 0, "cacheScope": "private"} if facts.method in CACHEABLE else {}
        return {"resultType": "complete", **cache, **result, "_meta": {SERVER_KEY: self._server}}


def _asks(capabilities: Mapping[str, Any]) -> bool:
    """True if the client supports forms. An empty `elicitation` means forms, as in 2025-06-18."""
    elicitation = capabilities.get("elicitation")
    return isinstance(elicitation, Mapping) and (not elicitation or isinstance(elicitation.get("form"), Mapping))


def _object(value: Params | Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
