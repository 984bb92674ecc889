"""JSON Schemas, made from the records: one for each dialect, and one for the host. docs/schema has them.

`#/$defs/ClientLine` is a line that a client may send, `#/$defs/AgentLine` one that it may receive in RPC mode, and
`#/$defs/JsonModeLine` one of JSON mode. Lines may have fields that no schema names: clients must ignore unknown
fields.
"""

from __future__ import annotations

import inspect
from types import NoneType
from typing import Any, get_args

from tau.records import commands, dialogs, entries
from tau.records import host_events as h_events
from tau.records.base import UnsetType, schemas
from tau.records.host_commands import HOST_COMMANDS
from tau.rpc.commands import HANDLERS
from tau.wire.dialects import Dialect

VERSION = "https://json-schema.org/draft/2020-12/schema"
REQUESTS: tuple[Any, ...] = get_args(dialogs.AnyUiRequest)


def reply_kinds(dialect: Dialect, command: type[commands.Command]) -> tuple[Any, ...]:
    """Return the possible types of a response's `data`; empty if it has none."""
    returned = HANDLERS.reply_type(command)
    kinds = get_args(returned) or (returned,)
    if (form := dialect.replies.get(command)) is not None:
        kinds = (*form.makes, *(kind for kind in kinds if kind is NoneType))
    return tuple(kind for kind in kinds if kind is not UnsetType)


def dialect_schema(dialect: Dialect) -> dict[str, Any]:
    accepted = dialect.command_types
    spoken, in_json = dialect.event_types(), dialect.for_json().event_types()
    replies = {name: reply_kinds(dialect, kind) for name, kind in accepted.items()} if dialect.responses else {}
    kinds = list(
        dict.fromkeys(
            [
                *accepted.values(),
                dialogs.UiResponse,
                *spoken,
                *in_json,
                *REQUESTS,
                entries.Header,
                *(kind for kinds in replies.values() for kind in kinds),
            ]
        )
    )
    listed, shared = schemas(kinds)
    _clean(shared)
    found = dict(zip(kinds, listed, strict=True))
    event_schemas = [found[kind] for kind in spoken]
    answers = [_response(name, [found[kind] for kind in kinds]) for name, kinds in replies.items()]
    header = [found[entries.Header]] if dialect.session_line else []
    lines = {
        "ClientLine": [
            *(_named(found[kind], shared, name) for name, kind in accepted.items()),
            found[dialogs.UiResponse],
        ],
        "AgentLine": [
            *event_schemas,
            *answers,
            *([FAILED] if answers else []),
            *(_request(found[kind]) for kind in REQUESTS),
        ],
        "JsonModeLine": [*header, *(found[kind] for kind in in_json)],
    }
    return {
        "$schema": VERSION,
        "title": f"The RPC protocol in the dialect {dialect.name}",
        "description": dialect.about,
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in lines],
        "$defs": {**{name: {"anyOf": kinds} for name, kinds in lines.items()}, **shared},
    }


FAILED = {
    "title": "response to a command that failed",
    "type": "object",
    "properties": {
        "id": {},
        "type": {"const": "response"},
        "command": {"type": "string"},
        "success": {"const": False},
        "error": {"type": "string"},
    },
    "required": ["type", "command", "success", "error"],
}


def _response(name: str, data: list[Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "id": {},
        "type": {"const": "response"},
        "command": {"const": name},
        "success": {"const": True},
    }
    required = ["type", "command", "success"]
    if data:
        properties["data"] = data[0] if len(data) == 1 else {"anyOf": data}
        required.append("data")
    return {"title": f"response to {name}", "type": "object", "properties": properties, "required": required}


def _named(schema: Any, shared: dict[str, Any], name: str) -> Any:
    """Return the schema of a command with the name that it has in this dialect."""
    definition = shared[schema["$ref"].rpartition("/")[2]]
    if definition["properties"]["type"].get("enum") == [name]:
        return schema
    return {**definition, "properties": {**definition["properties"], "type": {"enum": [name]}}}


def _request(schema: Any) -> dict[str, Any]:
    """Return the schema of an extension request. `method` discriminates it; `type` is that of the envelope."""
    return {"allOf": [schema, {"properties": {"type": {"const": "extension_ui_request"}}, "required": ["type"]}]}


REPLIES: dict[str, Any] = {
    "hello": h_events.HelloReply,
    "open_session": h_events.Opened,
    "attach": h_events.Attached,
    "list_sessions": h_events.HostSessions,
    "who": h_events.Clients,
}


def host_schema() -> dict[str, Any]:
    """Commands that only a host has, with their responses, and its events. The rest is in the schema of a dialect."""
    events = (*h_events.HOST_STREAM_EVENTS, *h_events.HOST_CHANNEL_EVENTS)
    kinds = [*HOST_COMMANDS.values(), *REPLIES.values(), *events]
    listed, shared = schemas(kinds)
    _clean(shared)
    found = dict(zip(kinds, listed, strict=True))
    answers = [_response(name, [found[REPLIES[name]]] if name in REPLIES else []) for name in HOST_COMMANDS]
    lines = {
        "ClientLine": [found[kind] for kind in HOST_COMMANDS.values()],
        "AgentLine": [*(found[kind] for kind in events), *answers, FAILED],
    }
    return {
        "$schema": VERSION,
        "title": "What only a host of many sessions has",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in lines],
        "$defs": {**{name: {"anyOf": kinds} for name, kinds in lines.items()}, **shared},
    }


def _clean(shared: dict[str, Any]) -> None:
    """Docstrings, which Python itself cleans from version 3.13 on."""
    for definition in shared.values():
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])
