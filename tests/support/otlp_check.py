"""Checks what telemetry sends against the pinned registry of the conventions (tests/telemetry/registry.json).

`complaints(spans, points, records)` is empty if every name is known, has its type, and is where the conventions and
docs/telemetry.md want it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from support.otlp import Point, Record, Seen
from tau.runtime.telemetry import names

REGISTRY = json.loads((Path(__file__).parents[1] / "telemetry" / "registry.json").read_text())
OWN: Mapping[str, str] = {
    **dict.fromkeys((names.TURNS, names.RETRIES, names.ATTEMPT, names.TOOL_EXIT_CODE), "int"),
    **dict.fromkeys((names.TOOL_OUTPUT_BYTES, names.FLEET_ATTEMPT), "int"),
    **dict.fromkeys((names.COST, names.RETRY_DELAY, names.PERMISSION_WAITED), "double"),
    **dict.fromkeys((names.COST_UNKNOWN, names.ABORTED, names.TOOL_IS_ERROR, names.PERMISSION_ASKED), "boolean"),
    **dict.fromkeys((names.STOP_REASON, names.BUDGET_LIMIT, names.MODE, names.DIALECT, names.THINKING), "string"),
    **dict.fromkeys((names.API, names.TOOL_DENIED_BY, names.STATE, names.LOGGER, names.RETRY_CLASS), "string"),
    **dict.fromkeys(
        (names.PERMISSION_ANSWER, names.SANDBOX_LEVEL, names.FLEET_RUN, names.FLEET_TASK, names.FLEET_OUTCOME), "string"
    ),
}
TYPES: Mapping[str, Any] = {**REGISTRY["attributes"], **OWN}
CONTENT = {
    *(names.SYSTEM_INSTRUCTIONS, names.INPUT_MESSAGES, names.OUTPUT_MESSAGES),
    *(names.TOOL_ARGUMENTS, names.TOOL_RESULT, names.TOOL_DEFINITIONS),
}
USAGE = {names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.CACHE_READ_TOKENS, names.CACHE_WRITE_TOKENS}
ALL = {names.OPERATION, names.CONVERSATION, names.AGENT_NAME, names.AGENT_VERSION, names.ERROR_TYPE}
# The closed list: what a span of each operation may have.
SPANS: Mapping[str, tuple[str, set[str]]] = {
    names.INVOKE_AGENT: (
        "gen_ai.invoke_agent.internal",
        {
            *(names.PROVIDER, names.REQUEST_MODEL, names.TURNS, names.RETRIES, names.COST, names.COST_UNKNOWN),
            *(names.STOP_REASON, names.ABORTED, names.BUDGET_LIMIT, names.MODE, names.DIALECT, *USAGE),
        },
    ),
    names.CHAT: (
        "gen_ai.inference.client",
        {
            *(names.PROVIDER, names.REQUEST_MODEL, names.REQUEST_MAX_TOKENS, names.REQUEST_STREAM),
            *(names.RESPONSE_MODEL, names.RESPONSE_ID, names.FINISH_REASONS, names.REASONING_TOKENS),
            *(names.FIRST_CHUNK, names.SERVER_ADDRESS, names.SERVER_PORT, names.HTTP_STATUS, *USAGE),
            *(names.THINKING, names.ATTEMPT, names.API),
        },
    ),
    names.EXECUTE_TOOL: (
        "gen_ai.execute_tool.internal",
        {
            *(names.TOOL_NAME, names.TOOL_TYPE, names.TOOL_CALL_ID, names.TOOL_IS_ERROR, names.TOOL_DENIED_BY),
            *(names.TOOL_EXIT_CODE, names.TOOL_OUTPUT_BYTES),
        },
    ),
    names.INVOKE_WORKFLOW: (
        "gen_ai.invoke_workflow.internal",
        {names.WORKFLOW_NAME, names.FLEET_RUN, names.FLEET_TASK, names.FLEET_ATTEMPT, names.FLEET_OUTCOME},
    ),
}
EVENTS: Mapping[str, set[str]] = {
    names.EVENT_FIRST_CHUNK: set(),
    names.EVENT_RETRY: {names.RETRY_DELAY, names.RETRY_CLASS},
    names.EVENT_STEERED: set(),
    names.EVENT_PERMISSION: {names.PERMISSION_ASKED, names.PERMISSION_ANSWER, names.PERMISSION_WAITED},
    names.EVENT_SANDBOX: {names.SANDBOX_LEVEL},
}
ERROR_TYPES = {
    *("overloaded", "rate_limit", "overflow", "timeout", "network", "auth", "budget", "aborted", "tool", names.OTHER),
}
OWN_METRICS: Mapping[str, tuple[str, str, set[str]]] = {
    "tau.cost": ("counter", "{dollar}", {names.PROVIDER, names.REQUEST_MODEL}),
    "tau.sessions": ("up-down counter", "{session}", {names.STATE}),
    "tau.runs": ("up-down counter", "{run}", {names.STATE}),
    "tau.retries": ("counter", "{retry}", {names.RETRY_CLASS}),
    "tau.denials": ("counter", "{call}", {names.TOOL_DENIED_BY}),
    "tau.budget.exceeded": ("counter", "{run}", {names.BUDGET_LIMIT}),
}
NOT_IN_METRICS = {names.CONVERSATION, names.RESPONSE_ID, names.TOOL_CALL_ID, *CONTENT}
BOUNDS = {"{token}": tuple(names.TOKEN_BUCKETS), "s": tuple(names.SECOND_BUCKETS)}


def complaints(
    spans: Iterable[Seen], points: Iterable[Point] = (), records: Iterable[Record] = (), *, with_content: bool = False
) -> list[str]:
    return [
        *(f"{span.name}: {found}" for span in spans for found in _of_span(span, with_content)),
        *(f"{point.metric}: {found}" for point in points for found in _of_point(point)),
        *(f"{record.event or record.body}: {found}" for record in records for found in _of_record(record)),
    ]


def _of_span(span: Seen, with_content: bool) -> Iterator[str]:
    operation = span.attributes.get(names.OPERATION, "")
    if operation not in SPANS:
        yield f"the operation {operation!r} is not known"
        return
    kind, own = SPANS[operation]
    about = REGISTRY["spans"][kind]
    if span.kind and span.kind != about["kind"].upper():
        yield f"it is {span.kind}"
    if span.schema and span.schema != names.SCHEMA_URL:
        yield f"its schema is {span.schema}"
    yield from (f"{name} is missing" for name in about["required"] if name not in span.attributes)
    subject = {
        names.CHAT: names.REQUEST_MODEL,
        names.EXECUTE_TOOL: names.TOOL_NAME,
        names.INVOKE_AGENT: names.AGENT_NAME,
    }
    last = span.attributes.get(subject.get(operation, names.WORKFLOW_NAME))
    if span.name != f"{operation} {last}":
        yield "its name is not that of the conventions"
    allowed = ALL | own | (CONTENT if with_content else set())
    yield from (f"{name} is not in the list" for name in span.attributes if name not in allowed)
    yield from _of_attributes(span.attributes)
    for event, attributes in zip(span.events, span.event_attributes, strict=bool(span.event_attributes)):
        if event not in EVENTS or set(attributes) != EVENTS[event]:
            yield f"the event {event} with {sorted(attributes)}"
        yield from _of_attributes(attributes)


def _of_attributes(attributes: Mapping[str, Any]) -> Iterator[str]:
    for name, value in attributes.items():
        kind = TYPES.get(name)
        if kind is None:
            yield f"{name} is not in the registry"
        elif not _fits(value, kind):
            yield f"{name} is {value!r}, not {kind}"
    if attributes.get(names.ERROR_TYPE, names.OTHER) not in ERROR_TYPES:
        yield f"error.type is {attributes[names.ERROR_TYPE]!r}"
    for name in (names.OPERATION, names.TOKEN_TYPE):
        if name in attributes and attributes[name] not in TYPES[name]:
            yield f"{name} is {attributes[name]!r}"


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, list):  # an enumeration, which may have other values
        return isinstance(value, str)
    if kind == "string[]":
        return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
    if kind in ("int", "double"):
        return not isinstance(value, bool) and isinstance(value, int if kind == "int" else int | float)
    return kind == "any" or isinstance(value, {"string": str, "boolean": bool}[kind])


def _of_point(point: Point) -> Iterator[str]:
    if point.metric in OWN_METRICS:
        kind, unit, allowed = OWN_METRICS[point.metric]
    elif point.metric in REGISTRY["metrics"]:
        about = REGISTRY["metrics"][point.metric]
        kind, unit, allowed = about["instrument"], about["unit"], set(about["attributes"])
        if point.bounds != BOUNDS[unit]:
            yield f"its buckets are {point.bounds}"
    else:
        yield "it is not in the registry"
        return
    if (point.kind, point.unit) != (kind, unit):
        yield f"it is a {point.kind} of {point.unit}"
    yield from (f"{name} is not one of its attributes" for name in point.attributes if name not in allowed)
    yield from (f"{name} has too many values for a metric" for name in point.attributes if name in NOT_IN_METRICS)
    yield from _of_attributes(point.attributes)


def _of_record(record: Record) -> Iterator[str]:
    if record.event and record.event not in REGISTRY["events"]:
        yield "it is not in the registry"
    yield from _of_attributes(record.attributes)
