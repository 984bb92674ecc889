"""Run with the vendors' libraries: validate requests from stdin, print complaints and samples of all stream events."""

from __future__ import annotations

import json
import sys
import types as python_types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin

import anthropic
import openai
from anthropic.types.beta import BetaRawMessageStreamEvent
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
from google import genai
from google.genai import types as google
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
}
EVENTS: dict[str, Any] = {
    "anthropic-messages": BetaRawMessageStreamEvent,
    "openai-completions": ChatCompletionChunk,
    "openai-responses": ResponseStreamEvent,
    "google-generative-ai": google.GenerateContentResponse,
}


def started(kind: str, **block: Any) -> list[Any]:
    return [{"type": "content_block_start", "index": 0, "content_block": {"type": kind, **block}}]


def added(kind: str, **item: Any) -> list[Any]:
    return [{"type": "response.output_item.added", "output_index": 0, "item": {"type": kind, "id": "x", **item}}]


STARTS: dict[str, list[Any]] = {
    "anthropic-messages": [[], started("text"), started("thinking"), started("tool_use", id="a", name="ls")],
    "openai-completions": [[]],
    "openai-responses": [[], added("message"), added("reasoning"), added("function_call", call_id="a", name="ls")],
    "google-generative-ai": [[]],
}


def consume(value: Any) -> None:
    """Validate what pydantic validates only when it is read: the elements of iterables."""
    if isinstance(value, Mapping):
        for inner in value.values():
            consume(inner)
    elif not isinstance(value, (str, bytes, BaseModel)) and hasattr(value, "__iter__"):
        for inner in value:
            consume(inner)


def complaints(requests: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    # In a list, since a TypedDict inherits this configuration only from what it is in.
    adapters = {api: TypeAdapter(list[kind], config=STRICT) for api, kind in PARAMETERS.items()}
    for request in requests:
        try:
            consume(adapters[request["api"]].validate_python([request["body"]]))
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
    if isinstance(kind, type) and hasattr(kind, "__members__"):
        return next(iter(kind.__members__.values())).value
    return {str: "x", int: 0, float: 0.0, bool: True, bytes: "eA=="}.get(kind)


def fields(kind: type[BaseModel], *, full: bool, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
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


def samples() -> Iterator[dict[str, Any]]:
    for api, kind in EVENTS.items():
        for event in members(kind):
            for full in (True, False):
                for name, data in variants(event, full=full):
                    yield {"api": api, "name": name, "data": data, "starts": STARTS[api]}


def main() -> None:
    versions = {"anthropic": anthropic.__version__, "openai": openai.__version__, "google-genai": genai.__version__}
    found = {"complaints": list(complaints(json.load(sys.stdin))), "samples": list(samples()), "versions": versions}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
