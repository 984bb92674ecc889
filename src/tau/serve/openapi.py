"""The OpenAPI 3.1 description of the HTTP interface, made from a table of routes and the records."""

from __future__ import annotations

import inspect
from typing import Any

from tau import __version__
from tau.records import host_commands as h
from tau.records import host_events as e
from tau.records.base import Value, schemas
from tau.records.replies import Result
from tau.serve.request_checks import OPEN_PATHS, STATIC, route_rule

REF = "#/components/schemas/{name}"
NDJSON = "application/x-ndjson"
STATUSES = {
    200: "done",
    201: "opened",
    202: "accepted; the time to wait was over first",
    204: "done",
    400: "a field is wrong",
    401: "the credential is missing or wrong",
    403: "the credential does not allow it, or the request comes from another site",
    404: "there is no such session, command or page",
    409: "not possible now",
    413: "the body is too large",
    415: "the body must be JSON or NDJSON",
    429: "too many requests",
    503: "the host is closing or full",
}


class Operation(Value):
    """A route. `query` has the meaning of each parameter; `body` and `reply` are media types with their schemas."""

    method: str
    path: str
    summary: str
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    status: int = 200
    reply: dict[str, Any] = {}
    errors: tuple[int, ...] = ()


def _ref(kind: type) -> dict[str, str]:
    return {"$ref": REF.format(name=kind.__name__)}


JSON = "application/json"
LINE = {"type": "object", "description": "a record of the protocol: see /v1/schema/{dialect}.json"}
RESPONSE = {"type": "object", "description": "the response to the command"}
TEXT = {"type": "string"}
LOGIN = {
    "type": "object",
    "properties": {"code": TEXT, "name": TEXT},
    "required": ["code"],
}
TOKEN = {
    "type": "object",
    "properties": {
        "token": TEXT,
        "name": TEXT,
        "scope": {"enum": ["watch", "drive", "admin"]},
        "days": {"type": "number"},
    },
    "required": ["token", "name", "scope", "days"],
}
CARDS = {
    "type": "object",
    "properties": {
        "session": TEXT,
        "leafId": {"type": ["string", "null"]},
        "cards": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": TEXT, "html": TEXT, "calls": {"type": "array", "items": TEXT}},
                "required": ["id", "html", "calls"],
            },
        },
        "more": {"type": "boolean"},
    },
    "required": ["session", "leafId", "cards", "more"],
}
STORED = {
    "type": "object",
    "properties": {
        "session": TEXT,
        "live": {"const": False},
        "leafId": {"type": ["string", "null"]},
        "name": {"type": ["string", "null"]},
        "entries": {"type": "array"},
        "more": {"type": "boolean"},
    },
    "required": ["session", "live", "leafId", "entries", "more"],
}
DIALECT = "the dialect of the records (default: default)"
SESSION = "/v1/sessions/{id}"

OPERATIONS = (
    Operation(
        "get",
        "/v1/sessions",
        "List sessions, newest first",
        query={
            "all": "of every project",
            "live": "only those that are open",
            "cursor": "continues a list",
            "limit": "at most 200",
        },
        reply={JSON: _ref(e.HostSessions)},
        errors=(400,),
    ),
    Operation(
        "post",
        "/v1/sessions",
        "Open a session (open_session)",
        body={JSON: _ref(h.OpenSession)},
        status=201,
        reply={JSON: _ref(e.Opened)},
        errors=(400, 404, 409, 413, 415, 503),
    ),
    Operation(
        "get",
        SESSION,
        "A snapshot; a session that is not live is read from its file and not opened",
        query={"entry": "the last entry that the client has"},
        reply={JSON: {"anyOf": [_ref(e.Snapshot), STORED]}},
        errors=(404,),
    ),
    Operation(
        "delete",
        SESSION,
        "Close a session; its file stays (close_session)",
        query={"abort": "also while it runs"},
        status=204,
        errors=(404, 409),
    ),
    Operation(
        "post",
        f"{SESSION}/commands",
        "One command as JSON, or several as NDJSON, which are answered in the order in which they are done",
        query={"dialect": DIALECT},
        headers={"Prefer": "wait=SECONDS: a prompt is answered with its result when the run has settled"},
        body={JSON: LINE, NDJSON: TEXT},
        reply={JSON: {"anyOf": [RESPONSE, _ref(Result)]}, NDJSON: TEXT},
        errors=(202, 204, 400, 404, 409, 413, 415, 503),
    ),
    Operation(
        "get",
        f"{SESSION}/events",
        "The stream of a session, as server-sent events with the id <stream>:<seq>, or as lines",
        query={
            "after": "<stream>:<seq>, to continue there",
            "dialect": DIALECT,
            "entry": "the last entry that the client has, for a snapshot",
            "numbers": "false: no seq, no ids, and no snapshot at the beginning",
        },
        headers={"Last-Event-ID": "as after"},
        reply={"text/event-stream": TEXT, NDJSON: TEXT},
        errors=(400, 404),
    ),
    Operation(
        "get",
        f"{SESSION}/cards",
        "Entries of the branch as inert HTML",
        query={"after": "new or changed since this entry", "before": "before this entry", "limit": "at most 1000"},
        reply={JSON: CARDS},
        errors=(400, 404),
    ),
    Operation(
        "get",
        f"{SESSION}/outline",
        "The prompts and the ends of all branches",
        reply={JSON: {"type": "object"}},
        errors=(404,),
    ),
    Operation(
        "get",
        f"{SESSION}/overview",
        "Folder, totals and budget of a session",
        reply={JSON: {"type": "object"}},
        errors=(404,),
    ),
    Operation(
        "get",
        f"{SESSION}/files",
        "Files of the project folder",
        query={"query": "a part of the path"},
        reply={JSON: {"type": "object", "properties": {"files": {"type": "array", "items": TEXT}}}},
        errors=(403, 404),
    ),
    Operation("get", f"{SESSION}/export", "The session as one HTML page", reply={"text/html": TEXT}, errors=(404,)),
    Operation(
        "get",
        "/v1/host",
        "The version, the host and the scope of the credential, as after hello",
        reply={JSON: _ref(e.HelloReply)},
    ),
    Operation(
        "post",
        "/v1/login",
        "Exchange a one-time code for a credential",
        body={JSON: LOGIN},
        reply={JSON: TOKEN},
        errors=(400, 404, 415),
    ),
    Operation("post", "/v1/logout", "Revoke the login of this request", status=204, errors=(404, 409)),
    Operation("get", "/v1/openapi.json", "This description", reply={JSON: {"type": "object"}}),
    Operation(
        "get",
        "/v1/schema/{name}.json",
        "The JSON Schema of a dialect, or of the host (host)",
        reply={JSON: {"type": "object"}},
        errors=(404,),
    ),
    Operation("get", "/healthz", "Whether the host runs", reply={"text/plain": TEXT}),
    Operation("get", "/readyz", "Whether the host accepts new sessions", reply={"text/plain": TEXT}, errors=(503,)),
    Operation("get", "/metrics", "Metrics in the text format of Prometheus", reply={"text/plain": TEXT}),
)


def openapi() -> dict[str, Any]:
    kinds = [h.OpenSession, e.HelloReply, e.Opened, e.HostSessions, e.Snapshot, Result]
    _, shared = schemas(kinds, REF)
    for definition in shared.values():
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    error = {"type": "object", "properties": {"error": TEXT}, "required": ["error"]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "tau serve", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**dict(sorted(shared.items())), "Error": error},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(operation: Operation) -> dict[str, Any]:
    rule = route_rule(operation.method.upper(), operation.path)
    names = [part[1:].partition("}")[0] for part in operation.path.split("/") if part.startswith("{")]
    parameters = [
        *({"name": name, "in": "path", "required": True, "schema": TEXT} for name in names),
        *({"name": name, "in": "query", "description": text, "schema": TEXT} for name, text in operation.query.items()),
        *(
            {"name": name, "in": "header", "description": text, "schema": TEXT}
            for name, text in operation.headers.items()
        ),
    ]
    described: dict[str, Any] = {"summary": operation.summary}
    if rule.scope is None:
        described["security"] = []
    else:
        described["description"] = f"Needs the scope {rule.scope}."
    if parameters:
        described["parameters"] = parameters
    if operation.body:
        described["requestBody"] = {"required": True, "content": _content(operation.body)}
    open_to_all = operation.path in OPEN_PATHS or operation.path.startswith(STATIC)
    refusals = (403,) if open_to_all else (401, 403, 429)
    described["responses"] = {
        str(operation.status): {
            "description": STATUSES[operation.status],
            **({"content": _content(operation.reply)} if operation.reply else {}),
        },
        **{str(status): _error(status) for status in sorted({*operation.errors, *refusals})},
    }
    return described


def _error(status: int) -> dict[str, Any]:
    body = {"content": {JSON: {"schema": {"$ref": REF.format(name="Error")}}}} if status >= 400 else {}
    return {"description": STATUSES[status], **body}


def _content(kinds: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"schema": schema} for kind, schema in kinds.items()}
