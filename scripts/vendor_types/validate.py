"""Run with the vendors' libraries: validate requests from stdin, print complaints and samples of all stream events."""

from __future__ import annotations

import base64
import json
import sys
import types as python_types
import typing
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from itertools import chain
from typing import Any, Literal, Union, get_args, get_origin

import amazon
from anthropic.types.beta import BetaRawMessageStreamEvent
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
from google.genai import types as google
from mistralai.client.models import ChatCompletionStreamRequestTypedDict, CompletionChunk
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses import ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True, defer_build=False)


class GoogleRequest(BaseModel):
    """The body of generateContent; the library builds it from parts of its own."""

    model_config = ConfigDict(extra="forbid")
    contents: list[google.Content]
    systemInstruction: google.Content
    tools: list[google.Tool]
    generationConfig: google.GenerationConfig


PARAMETERS: dict[str, Any] = {
    "anthropic-messages": MessageCreateParamsStreaming,
    "openai-completions": CompletionCreateParamsStreaming,
    "openai-responses": ResponseCreateParamsStreaming,
    "google-generative-ai": GoogleRequest,
    "google-vertex": GoogleRequest,
    "azure-openai-responses": ResponseCreateParamsStreaming,
    "mistral-conversations": ChatCompletionStreamRequestTypedDict,
    "bedrock-anthropic-messages": MessageCreateParamsStreaming,
}
EVENTS: dict[str, Any] = {
    "anthropic-messages": BetaRawMessageStreamEvent,
    "openai-completions": ChatCompletionChunk,
    "openai-responses": ResponseStreamEvent,
    "google-generative-ai": google.GenerateContentResponse,
    "google-vertex": google.GenerateContentResponse,
    "azure-openai-responses": ResponseStreamEvent,
    "mistral-conversations": CompletionChunk,
    "bedrock-anthropic-messages": BetaRawMessageStreamEvent,
}
# APIs with one type of event, in which everything is optional.
WHOLE_CHUNKS = ("openai-completions", "mistral-conversations", "google-generative-ai", "google-vertex")
MAX_DEPTH = 6
NEEDED = {"FunctionCall": ("name",)}  # optional in the types, but nothing can be done without it
LIBRARIES = ("anthropic", "openai", "google-genai", "mistralai", "botocore")


def started(kind: str, **block: Any) -> list[Any]:
    return [{"type": "content_block_start", "index": 0, "content_block": {"type": kind, **block}}]


def added(kind: str, **item: Any) -> list[Any]:
    return [{"type": "response.output_item.added", "output_index": 0, "item": {"type": kind, "id": "x", **item}}]


BLOCKS = [[], started("text"), started("thinking"), started("tool_use", id="a", name="ls")]
ITEMS = [[], added("message"), added("reasoning"), added("function_call", call_id="a", name="ls")]
STARTS: dict[str, list[Any]] = {
    "anthropic-messages": BLOCKS,
    "bedrock-anthropic-messages": BLOCKS,
    "openai-responses": ITEMS,
    "azure-openai-responses": ITEMS,
}


class UnknownField(Exception):
    """A field that the library does not know."""


def consume(value: Any) -> None:
    """Validate what pydantic validates only when it is read: the elements of iterables.

    A union of parameters may also have responses in it, which accept fields that they do not know.
    """
    if isinstance(value, BaseModel):
        if value.model_extra:
            raise UnknownField(f"{type(value).__name__}: {', '.join(value.model_extra)}")
        consume(dict(value))
    elif isinstance(value, Mapping):
        for inner in value.values():
            consume(inner)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for inner in value:
            consume(inner)


def complaints(requests: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    # In a list, since a TypedDict inherits this configuration only from what it is in.
    adapters = {api: TypeAdapter(list[kind], config=STRICT) for api, kind in PARAMETERS.items()}
    for request in requests:
        if request["api"] == amazon.API:
            yield from ((amazon.API, f"{request['name']}: {text}") for text in amazon.complaints(request["body"]))
            continue
        try:
            consume(adapters[request["api"]].validate_python([request["body"]]))
        except UnknownField as error:
            yield request["api"], f"{request['name']}: unknown field: {error}"
        except ValidationError as error:
            # Of the alternatives of a union, the one that was followed furthest is meant.
            deepest = max(error.errors(), key=lambda each: len(each["loc"]))
            yield request["api"], f"{request['name']}: {deepest['loc']} {deepest['msg']} {str(deepest['input'])[:200]}"


def sample(kind: Any, *, full: bool, depth: int = 0) -> Any:
    """A value of a type: with all its fields, or only those that must be there."""
    origin = get_origin(kind)
    if origin is typing.Annotated:
        return sample(get_args(kind)[0], full=full, depth=depth)
    if origin is Literal:
        return get_args(kind)[0]
    if origin in (Union, python_types.UnionType):
        options = [option for option in get_args(kind) if option is not type(None)]
        return sample(options[0], full=full, depth=depth) if full or len(options) == len(get_args(kind)) else None
    if origin in (list, tuple) or kind is list:
        inner = get_args(kind)
        return [sample(inner[0], full=full, depth=depth + 1)] if full and inner and depth < 5 else []
    if origin is dict or kind is dict:
        return {}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return fields(kind, full=full, depth=depth)
    if isinstance(kind, type) and getattr(kind, "__members__", None):
        return next(iter(kind.__members__.values())).value
    return {str: "x", int: 0, float: 0.0, bool: True, bytes: "eA=="}.get(kind)


def fields(kind: type[BaseModel], *, full: bool, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        if name in NEEDED.get(kind.__name__, ()):
            made[field.alias or name] = sample(field.annotation, full=True, depth=depth + 1)
            continue
        if (full and depth < 5) or field.is_required() or get_origin(field.annotation) is Literal:
            made[field.alias or name] = sample(field.annotation, full=full, depth=depth + 1)
    return made


def members(kind: Any) -> list[type[BaseModel]]:
    if get_origin(kind) is typing.Annotated:
        return members(get_args(kind)[0])
    options = get_args(kind) if get_origin(kind) in (Union, python_types.UnionType) else (kind,)
    return [one for option in options for one in ([option] if isinstance(option, type) else members(option))]


def variants(event: type[BaseModel], *, full: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """An event for each alternative of its content: a block, an item, a delta."""
    made = fields(event, full=full, depth=0)
    yield event.__name__, made
    for name in ("content_block", "delta", "item", "part"):
        inner = event.model_fields.get(name)
        options = members(inner.annotation) if inner is not None else []
        for option in options:
            if isinstance(option, type) and issubclass(option, BaseModel):
                content = fields(option, full=full, depth=1)
                yield f"{event.__name__}.{option.__name__}", {**made, name: content}


def single_fields(kind: type[BaseModel], depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """Values of a type that have, besides what must be there, one field each, and again one field in that."""
    least = fields(kind, full=False, depth=depth)
    for name, field in kind.model_fields.items():
        for path, value in alternatives(field.annotation, depth + 1):
            if value is None and name in NEEDED.get(kind.__name__, ()):
                continue
            yield f"{name}{path}", {**least, field.alias or name: value}


def alternatives(kind: Any, depth: int) -> Iterator[tuple[str, Any]]:
    origin = get_origin(kind)
    if origin is typing.Annotated:
        yield from alternatives(get_args(kind)[0], depth)
    elif origin in (Union, python_types.UnionType):
        for option in get_args(kind):
            yield from alternatives(option, depth)
    elif origin is list:
        yield from ((path, [value]) for path, value in alternatives(get_args(kind)[0], depth))
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        if depth < MAX_DEPTH:
            yield from ((f".{path}", value) for path, value in single_fields(kind, depth))
    else:
        yield "", sample(kind, full=True)


def samples() -> Iterator[dict[str, Any]]:
    for api, kind in EVENTS.items():
        for event in members(kind):
            for full in (True, False):
                made = variants(event, full=full)
                for name, data in chain(made, single_fields(event)) if full and api in WHOLE_CHUNKS else made:
                    starts = [[packed(api, one) for one in start] for start in STARTS.get(api, [[]])]
                    kind, content = packed(api, data)
                    yield {"api": api, "name": name, "event": kind, "data": content, "starts": starts}


def packed(api: str, data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind and data of an event as it is sent; Bedrock puts those of Anthropic into frames of its own."""
    if api == "bedrock-anthropic-messages":
        return "chunk", {"bytes": base64.b64encode(json.dumps(data).encode()).decode()}
    return data.get("type", "message"), data


def main() -> None:
    found = {
        "complaints": list(complaints(json.load(sys.stdin))),
        "samples": [*samples(), *amazon.samples()],
        "versions": {name: version(name) for name in LIBRARIES},
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
