"""A function is refused as a tool if the model cannot be told what to pass, and the error names the parameter."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict

import pytest

import tau
from support.library_agent import calls, opened, play, says

UserId = NewType("UserId", int)


class Colour(Enum):
    RED = "red"


class Options(TypedDict):
    depth: int
    deep: NotRequired[list[str]]


class Hopeless(TypedDict):
    lock: threading.Thread


def accepted(
    text: str,
    numbers: Sequence[float],
    colour: Colour,
    options: Options,
    user: UserId,
    mode: Annotated[Literal["a", "b"], "how"] = "a",
    table: Mapping[str, int] | None = None,
    anything: Any = None,
    pair: tuple[int, ...] = (),
) -> str:
    return "fine"


def refusal(folder: Path, function: Callable[..., Any]) -> str:
    async def story() -> str:
        with pytest.raises(tau.UsageError) as raised:
            await opened(folder, tools=[function])
        return str(raised.value)

    return play(story())


def no_annotation(city) -> str:  # type: ignore[no-untyped-def]
    return ""


def of_a_class(thread: threading.Thread) -> str:
    return ""


def inside_a_list(threads: list[threading.Thread]) -> str:
    return ""


def inside_a_mapping(threads: dict[str, threading.Thread]) -> str:
    return ""


def two_of_a_kind(thing: Options | dict[str, int]) -> str:
    return ""


Json: Any = NewType("Json", object)
Json.__supertype__ = dict[str, Json]  # an alias of itself, which Python can write since 3.12
ENDLESS = [Json]
if sys.version_info >= (3, 12):
    space: dict[str, Any] = {}
    exec("type Json = dict[str, Json] | list[Json] | str | None", space)
    ENDLESS.append(space["Json"])


def by_place(*words: str) -> str:
    return ""


def generates(word: str) -> Iterator[str]:
    yield word


async def generates_later(word: str) -> AsyncIterator[str]:
    yield word


def inside_a_union(path: Path | None = None) -> str:
    return ""


def inside_a_typed_dict(thing: Hopeless) -> str:
    return ""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_annotation, "no_annotation cannot be a tool: parameter city has no annotation"),
        (of_a_class, "of_a_class cannot be a tool: parameter thread: Thread has no JSON Schema"),
        (inside_a_list, "parameter threads: Thread has no JSON Schema"),
        (inside_a_mapping, "parameter threads: Thread has no JSON Schema"),
        (inside_a_union, "parameter path: Path has no JSON Schema"),
        (inside_a_typed_dict, "parameter thing: Thread has no JSON Schema"),
        (two_of_a_kind, "parameter thing: Type unions may not contain more than one dict-like type"),
        (by_place, r"\*words: 'str' cannot be passed by keyword"),
        (generates, "generates cannot be a tool: it yields; return a list"),
        (generates_later, "generates_later cannot be a tool: it yields; return a list"),
    ],
)
def test_a_parameter_that_cannot_be_described_is_refused(
    tmp_path: Path, function: Callable[..., Any], message: str
) -> None:
    assert re.search(message, refusal(tmp_path, function))
    with pytest.raises(tau.UsageError, match=message):
        tau.tool(function)  # where it is defined


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_type_without_end_is_refused(kind: Any) -> None:
    def show(it):  # type: ignore[no-untyped-def]
        """Show."""

    show.__annotations__ = {"it": kind}
    with pytest.raises(tau.UsageError, match="parameter it: the type is nested too deeply, or an alias of itself"):
        tau.tool(show)


def test_parameters_that_can_be_described_are_accepted(tmp_path: Path) -> None:
    arguments = {"text": "a", "numbers": [1], "colour": "red", "options": {"depth": 1}, "user": 3}

    async def story() -> list[str]:
        async with opened(tmp_path, calls("accepted", **arguments), says("ok"), tools=[tau.tool(accepted)]) as agent:
            result = await agent.prompt("go")
            return [type(message).__name__ for message in result.messages if getattr(message, "is_error", False)]

    assert play(story()) == []


def test_a_schema_describes_what_annotations_cannot(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    described = tau.tool(parameters=schema)(no_annotation)

    async def story() -> list[str]:
        async with opened(tmp_path, tools=[described]) as agent:
            return agent.tools

    assert play(story()) == ["no_annotation"]


def test_a_name_that_is_defined_later_is_checked_when_the_agent_is_opened(tmp_path: Path) -> None:
    @tau.tool
    def early(value: Later) -> str:  # type: ignore[name-defined]  # noqa: F821
        return ""

    assert "Later" in refusal(tmp_path, early)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"name": "bad name!"},
            r"bad name! cannot be a tool: name: 'bad name!' does not match \[A-Za-z0-9_-\]\{1,64\}",
        ),
        ({"name": "x" * 65}, "name: 'x+' does not match"),
        ({"parameters": {"type": "string"}}, 'parameters: expected a schema with "type": "object"'),
        ({"parameters": {"type": "object", "properties": {"a": {"type": "text"}}}}, "there is no type 'text'"),
    ],
)
def test_a_tool_that_no_provider_takes_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    def fine() -> str:
        """Fine."""
        return ""

    async def run(arguments: dict[str, Any], context: tau.ToolContext) -> tau.Outcome:
        raise AssertionError

    with pytest.raises(tau.UsageError, match=message):
        tau.tool(**options)(fine)
    made = tau.Tool(options.get("name", "made"), "", "", options.get("parameters", {"type": "object"}), run)

    async def story() -> None:
        with pytest.raises(tau.UsageError, match=message):
            await opened(tmp_path, tools=[made])
        async with opened(tmp_path) as agent:
            with pytest.raises(tau.UsageError, match=message):
                agent.set_tools([made])

    play(story())
