"""Records of what a client sends: the parameters of methods, content blocks, and its capabilities.

Unknown fields are ignored. A record holds only what tau uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tau.records.base import UNSET, Record, UnsetType, Value, field

OBJECTS = ("_meta", "clientCapabilities", "clientInfo")  # parameters that may be an empty object


def with_empty_objects(params: dict[str, Any] | list[Any]) -> dict[str, Any] | list[Any]:
    """Lua and PHP cannot easily tell an empty object from an empty list, and write `[]`."""
    if not isinstance(params, dict):
        return params or {}
    return params | {name: {} for name in OBJECTS if params.get(name) == []}


class Params(Record):
    """Base class of parameters. `meta` holds extensions of the protocol; those of tau are in `meta["tau"]`."""

    meta: Any = field(default=None, name="_meta")

    @property
    def tau(self) -> Mapping[str, Any]:
        """tau's part of `_meta`."""
        own = self.meta.get("tau") if isinstance(self.meta, dict) else None
        return own if isinstance(own, dict) else {}


class Initialize(Params, kw_only=True):
    protocol_version: int
    client_capabilities: dict[str, Any] | None = None
    client_info: dict[str, Any] | None = None


class Authenticate(Params, kw_only=True):
    method_id: str


class NameValue(Record):
    """An environment variable or an HTTP header."""

    name: str
    value: str


class McpServer(Record, kw_only=True):
    """An MCP server of the client: a command (no `type`), or the URL of an HTTP or SSE server."""

    name: str
    type: Literal["stdio", "http", "sse"] = "stdio"
    command: str | UnsetType = UNSET
    args: list[str] = []
    env: list[NameValue] = []
    url: str | UnsetType = UNSET
    headers: list[NameValue] = []


class NewSession(Params, kw_only=True):
    cwd: str
    mcp_servers: list[McpServer]


class LoadSession(Params, kw_only=True):
    session_id: str
    cwd: str
    mcp_servers: list[McpServer]


class ResumeSession(Params, kw_only=True):
    session_id: str
    cwd: str
    mcp_servers: list[McpServer] = []


class ListSessions(Params, kw_only=True):
    cwd: str | None = None
    cursor: str | None = None


class OneSession(Params, kw_only=True):
    """Parameters of methods about one session: close, delete, cancel."""

    session_id: str


class SetMode(Params, kw_only=True):
    session_id: str
    mode_id: str


class SetConfigOption(Params, kw_only=True):
    session_id: str
    config_id: str
    value: str | bool


class CancelRequest(Params, kw_only=True):
    request_id: str | int | None


class TextBlock(Record, tag_field="type", tag="text"):
    text: str


class ImageBlock(Record, tag_field="type", tag="image", kw_only=True):
    data: str
    mime_type: str


class AudioBlock(Record, tag_field="type", tag="audio"):
    """Not supported, and not announced."""


class LinkBlock(Record, tag_field="type", tag="resource_link"):
    uri: str


class Resource(Record, kw_only=True):
    """Has `text` or `blob` (base64)."""

    uri: str
    text: str | UnsetType | None = UNSET
    blob: str | UnsetType | None = UNSET
    mime_type: str | UnsetType | None = UNSET


class ResourceBlock(Record, tag_field="type", tag="resource"):
    resource: Resource


Block = TextBlock | ImageBlock | AudioBlock | LinkBlock | ResourceBlock


class Prompt(Params, kw_only=True):
    session_id: str
    prompt: list[Block]


class Capabilities(Value):
    """What the client announced. A capability that is absent or null is not there."""

    notices: bool = False
    compaction: bool = False
    boolean_options: bool = False
    form: bool = False
    url: bool = False
    terminal_login: bool = False
    old_terminal_login: bool = False  # as announced before it was a part of the protocol
    terminal_output: bool = False  # an extension of Zed: output of commands in `_meta`


def capabilities_of(announced: Mapping[str, Any] | None) -> Capabilities:
    """Read `clientCapabilities`. What has another type than it should is not there."""
    given = announced or {}

    def has(*path: str) -> bool:
        value: Any = given
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value is True or isinstance(value, dict) or value == []

    return Capabilities(
        notices=has("session", "notices"),
        compaction=has("session", "compaction"),
        boolean_options=has("session", "configOptions", "boolean"),
        form=has("elicitation", "form"),
        url=has("elicitation", "url"),
        terminal_login=has("auth", "terminal"),
        old_terminal_login=has("_meta", "terminal-auth"),
        terminal_output=has("_meta", "terminal_output"),
    )
