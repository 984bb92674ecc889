"""Messages of the two eras of MCP.

legacy   2024-11-05 to 2025-11-25: `initialize`, then requests; the server may send requests of its own
modern   2026-07-28: no handshake; every request carries version, client and capabilities in `_meta`; a server
         that needs input answers "input_required", and the request is sent again with the answers
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

from tau.errors import TauError
from tau.mcp.definitions import MAX_INSTRUCTIONS_BYTES, Era, safe_text
from tau.records.base import Value

LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LEGACY_VERSION = LEGACY_VERSIONS[-1]
MODERN_VERSIONS = ("2026-07-28",)
MODERN_VERSION = MODERN_VERSIONS[-1]
META = "io.modelcontextprotocol/"
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
MODERN_ERRORS = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
MAX_ERROR_BYTES = 2 * 1024
MAX_INPUT_ROUNDS = 16  # times that one call may ask for input
# The parameter that a modern HTTP request repeats in the header Mcp-Name.
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_HEADER_SAFE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class McpError(TauError):
    """A server failed, or answered with an error. The text is for the model and for people.

    `code` is that of a JSON-RPC error. `sent`: the request may have reached the server. `login`: it needs a login.
    `status` is that of an HTTP response.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        data: Any = None,
        sent: bool = True,
        login: bool = False,
        status: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.sent = sent
        self.login = login
        self.status = status


class NoAnswer(McpError):
    """The time limit of a request is over."""


class ClientProfile(Value):
    """What tau tells servers about itself. `asks`: a user can answer elicitations."""

    version: str
    asks: bool = False

    @property
    def capabilities(self) -> dict[str, Any]:
        elicitation: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
        return {"roots": {}, **(elicitation if self.asks else {})}

    @property
    def info(self) -> dict[str, str]:
        return {"name": "tau", "version": self.version}


class ServerProfile(Value):
    """What a server told about itself: in the answer to `initialize` or to `server/discover`."""

    era: Era
    version: str
    name: str = ""
    server_version: str = ""
    instructions: str = ""
    capabilities: Mapping[str, Any] = {}

    def has(self, capability: str) -> bool:
        found = self.capabilities.get(capability)
        return isinstance(found, Mapping) or found == []  # an empty object, as PHP and Lua write it

    def tells_changes(self, capability: str) -> bool:
        found = self.capabilities.get(capability)
        return isinstance(found, Mapping) and found.get("listChanged") is True


def initialize_params(client: ClientProfile) -> dict[str, Any]:
    return {"protocolVersion": LEGACY_VERSION, "capabilities": client.capabilities, "clientInfo": client.info}


def with_meta(
    params: Mapping[str, Any], client: ClientProfile, era: Era, progress_token: int | None = None
) -> dict[str, Any]:
    """Parameters with the `_meta` that their era requires."""
    meta: dict[str, Any] = {}
    if era == "modern":
        meta = {
            f"{META}protocolVersion": MODERN_VERSION,
            f"{META}clientInfo": client.info,
            f"{META}clientCapabilities": client.capabilities,
            f"{META}logLevel": "warning",
        }
    if progress_token is not None:
        meta["progressToken"] = progress_token
    return {**params, "_meta": {**params.get("_meta", {}), **meta}} if meta else dict(params)


def parse_initialized(result: Any) -> ServerProfile:
    """The answer to `initialize`. Raises McpError for a version that tau does not know."""
    if not isinstance(result, Mapping):
        raise McpError("Its answer to initialize is not an object.")
    version = result.get("protocolVersion")
    if version not in LEGACY_VERSIONS:
        raise McpError(f"It speaks the unknown protocol version {safe_text(str(version), 64)!r}.")
    return _profile("legacy", str(version), result, result.get("serverInfo"))


def parse_discovered(result: Any) -> ServerProfile | None:
    """The answer to `server/discover`; None if it is not one. Raises McpError if no version is common."""
    if not isinstance(result, Mapping) or not isinstance(result.get("supportedVersions"), list):
        return None
    versions = [version for version in result["supportedVersions"] if version in MODERN_VERSIONS]
    if not versions:
        offered = ", ".join(safe_text(str(version), 64) for version in result["supportedVersions"][:8])
        raise McpError(f"It speaks only unknown protocol versions: {offered or 'none'}.")
    meta = result.get("_meta")
    info = result.get("serverInfo") or (meta.get(f"{META}serverInfo") if isinstance(meta, Mapping) else None)
    return _profile("modern", str(versions[-1]), result, info)


def _profile(era: Era, version: str, result: Mapping[str, Any], info: Any) -> ServerProfile:
    info = info if isinstance(info, Mapping) else {}
    capabilities = result.get("capabilities")
    return ServerProfile(
        era,
        version,
        safe_text(info.get("name"), 128),
        safe_text(info.get("version"), 64),
        safe_text(result.get("instructions"), MAX_INSTRUCTIONS_BYTES),
        capabilities if isinstance(capabilities, Mapping) else {},
    )


def error_text(code: int, message: str) -> str:
    return safe_text(message, MAX_ERROR_BYTES) or f"error {code}"


def progress_text(params: Mapping[str, Any]) -> str:
    """A progress notification as text: `3/8 message`."""
    done, total = (_number(params.get(name)) for name in ("progress", "total"))
    count = done if not total else f"{done}/{total}"
    return " ".join(filter(None, (count, safe_text(params.get("message"), 512))))


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return f"{value:g}" if abs(value) < 1e15 else ""


# HTTP headers of the modern era.


def modern_headers(method: str, params: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The headers that repeat parts of a request. `schema` is that of the tool which is called."""
    headers = {"mcp-protocol-version": MODERN_VERSION, "mcp-method": method}
    named = params.get(NAMED_BY.get(method, ""))
    if isinstance(named, str):
        headers["mcp-name"] = header_value(named)
    arguments = params.get("arguments")
    if schema is not None and isinstance(arguments, Mapping):
        for path, token in _header_parameters(schema, ()):
            text = _scalar(_value_at(arguments, path))
            if text is not None:
                headers[f"mcp-param-{token.lower()}"] = header_value(text)
    return headers


def header_value(text: str) -> str:
    """A text as the value of a header; in base64 if it contains anything but printable ASCII."""
    if _HEADER_SAFE.fullmatch(text) and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _header_parameters(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Paths of the properties that are repeated in headers (`x-mcp-header`), with the end of the header's name."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or len(path) > 8:
        return
    for name, inner in properties.items():
        if isinstance(inner, Mapping):
            token = inner.get("x-mcp-header")
            if isinstance(token, str) and _TOKEN.fullmatch(token):
                yield (*path, name), token
            yield from _header_parameters(inner, (*path, name))


def _value_at(value: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _scalar(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None
