"""A function that is a tool gets the arguments of the model as the types of its annotations, whatever their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict
from uuid import UUID

import pytest

import tau
from support.library_agent import calls, opened, play, says
from tau import events


class Colour(Enum):
    RED = "r"


class Level(IntEnum):
    LOW = 1


class Node(TypedDict):
    name: Annotated[str, "what it is called"]
    children: NotRequired[list[Node]]


@dataclass
class Point:
    x: int
    colour: Colour = Colour.RED


class Even:
    """What is used of a pydantic model."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Even) and other.n == self.n

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    @classmethod
    def model_validate(cls, value: dict[str, int]) -> Even:
        if value["n"] % 2:
            raise ValueError("n must be even")
        return cls(value["n"])


TREE = {"name": "a", "children": [{"name": "b", "children": []}]}


def called(folder: Path, function: Callable[..., Any], arguments: dict[str, Any]) -> tuple[str, bool]:
    async def story() -> tuple[str, bool]:
        async with opened(folder, calls(function.__name__, **arguments), says("done"), tools=[function]) as agent:
            ends = [event async for event in agent.prompt("go") if isinstance(event, events.ToolEnd)]
        (block,) = ends[0].result.content
        assert isinstance(block, events.Text)
        return block.text, ends[0].is_error

    return play(story())


CONVERTED = [
    (Colour, "r", Colour.RED),
    (Level, 1, Level.LOW),
    (Colour | None, None, None),
    (dict[Colour, list[Colour]], {"r": ["r"]}, {Colour.RED: [Colour.RED]}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (set[int], [1, 2], {1, 2}),
    (frozenset[str], ["a"], frozenset("a")),
    (tuple[int, str], [1, "x"], (1, "x")),
    (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    (tuple[()], [], ()),
    (int | None, None, None),
    (int | None, "3", 3),
    (list[int | None], [1, None], [1, None]),
    (int | str | None, None, None),
    (float, 3, 3.0),
    (Node, TREE, TREE),
    (Point, {"x": 1}, Point(1)),
    (Even, {"n": 2}, Even(2)),
    (list[Even], [{"n": 2}], [Even(2)]),
    (datetime, "2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5)),
    (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
    (bytes, "aGk=", b"hi"),
    (Sequence[int], [1], [1]),
    (Mapping[str, float], {"a": 1}, {"a": 1.0}),
    (Iterable[int], [1], [1]),
    (dict[str, object], {"a": [None]}, {"a": [None]}),
    (Any, {"a": [1]}, {"a": [1]}),
    (int, 2**70, 2**70),
    (str, "\ud800", "\ud800"),
]


@pytest.mark.parametrize(("kind", "given", "value"), CONVERTED)
def test_an_argument_has_the_type_of_its_annotation(tmp_path: Path, kind: Any, given: Any, value: Any) -> None:
    seen: list[Any] = []

    def show(it):  # type: ignore[no-untyped-def]
        """Show it."""
        seen.append(it)

    show.__annotations__ = {"it": kind}
    assert called(tmp_path, show, {"it": given}) == ("(no output)", False)
    assert seen == [value] and type(seen[0]) is type(value)


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        (int | None, "many", "it: must be "),
        (tuple[int, str], [1, 2], "it/1: must be string"),
        (tuple[int, str], [1], "it: must NOT have fewer than 2 items"),
        (Colour, "g", "it: must be one of r"),
        (Node, {"name": "a", "children": [{"children": []}]}, "it/children/0/name: must have required property"),
        (datetime, "soon", "it: invalid RFC3339 encoded datetime"),
        (list[Even], [{"n": 3}], "it: [0]: n must be even"),
    ],
)
def test_an_argument_that_its_type_refuses_never_reaches_the_function(
    tmp_path: Path, kind: Any, given: Any, text: str
) -> None:
    def show(it):  # type: ignore[no-untyped-def]
        """Show it."""
        raise AssertionError

    show.__annotations__ = {"it": kind}
    said, failed = called(tmp_path, show, {"it": given})
    assert failed and text in said


NAMES = [
    "self",
    "function",
    "name",
    "arguments",
    "args",
    "named",
    "tool",
    "value",
    "parameters",
    "given",
    "cls",
    "schema",
]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_may_have_any_name(tmp_path: Path, name: str, is_async: bool) -> None:
    space: dict[str, Any] = {}
    exec(f"{'async ' * is_async}def show({name}: str) -> str:\n    return {name}", space)
    assert called(tmp_path, space["show"], {name: "it"}) == ("it", False)


def test_the_context_is_never_given_by_the_model(tmp_path: Path) -> None:
    def show(word: str, context: tau.CallContext, **more: Any) -> str:
        """Show."""
        return f"{word} {type(context).__name__} {more}"

    assert called(tmp_path, show, {"word": "a", "context": "b", "c": 1}) == ("a CallContext {'c': 1}", False)


def test_an_omitted_argument_has_its_default(tmp_path: Path) -> None:
    def show(first: Colour = Colour.RED, second: int = 2, third: int | None = 3) -> str:
        """Show."""
        return f"{first.name} {second} {third}"

    assert called(tmp_path, show, {"second": None, "third": None}) == ("RED 2 None", False)
