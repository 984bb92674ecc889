"""Run with botocore: validate requests to Bedrock's Converse API, and make samples of its stream events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore.model import ListShape, MapShape, Shape, StringShape, StructureShape
from botocore.validate import ParamValidator

API = "bedrock-converse-stream"
SERVICE, OPERATION = "bedrock-runtime", "ConverseStream"
MAX_DEPTH = 6
LEAVES = {"integer": 0, "long": 0, "float": 0.0, "double": 0.0, "boolean": True, "blob": "eA==", "timestamp": 0}
TOOL_STARTED = {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "a", "name": "ls"}}}
STARTS: list[list[Any]] = [[], [["contentBlockStart", TOOL_STARTED]]]


def _operation() -> Any:
    return botocore.session.get_session().get_service_model(SERVICE).operation_model(OPERATION)


def complaints(body: dict[str, Any]) -> Iterator[str]:
    """What the service model of AWS says about a request: unknown, missing and wrong fields, and unknown words."""
    shape = _operation().input_shape
    report = ParamValidator().validate(body, shape)
    if report.has_errors():
        yield report.generate_report()
    yield from _unknown_words(body, shape, "")


def _unknown_words(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """The strings that are none of an enumeration, which botocore leaves to the server."""
    if isinstance(shape, StructureShape) and isinstance(value, dict):
        for name, inner in value.items():
            if name in shape.members:
                yield from _unknown_words(inner, shape.members[name], f"{path}.{name}")
    elif isinstance(shape, ListShape):
        for inner in value:
            yield from _unknown_words(inner, shape.member, f"{path}[]")
    elif isinstance(shape, StringShape) and shape.enum and value not in shape.enum:
        yield f"{path}: {value!r} is none of {', '.join(shape.enum)}"


def samples() -> Iterator[dict[str, Any]]:
    for kind, shape in _operation().output_shape.members["stream"].members.items():
        for full in (True, False):
            for name, data in _variants(kind, shape, full=full):
                yield {"api": API, "name": name, "event": kind, "data": data, "starts": STARTS}


def _variants(kind: str, shape: StructureShape, *, full: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """An event for each alternative of its content."""
    made = _sample(shape, full=full)
    yield kind, made
    for name, inner in shape.members.items():
        for option in inner.members if getattr(inner, "is_tagged_union", False) else ():
            content = {option: _sample(inner.members[option], full=full)}
            yield f"{kind}.{name}.{option}", {**made, name: content}


def _sample(shape: Shape, *, full: bool, depth: int = 0) -> Any:
    if isinstance(shape, StructureShape):
        members = list(shape.members) if full and depth < MAX_DEPTH else shape.required_members
        if getattr(shape, "is_tagged_union", False):
            members = list(shape.members)[:1]
        return {name: _sample(shape.members[name], full=full, depth=depth + 1) for name in members}
    if isinstance(shape, ListShape):
        return [_sample(shape.member, full=full, depth=depth + 1)] if full and depth < MAX_DEPTH else []
    if isinstance(shape, MapShape):
        return {}
    if isinstance(shape, StringShape):
        return shape.enum[0] if shape.enum else "x"
    return LEAVES[shape.type_name]
