"""Python functions are tools: shown by their signature and docstring, run where they may block."""

from __future__ import annotations

import asyncio
import enum
import threading
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest

import tau
from support.library_agent import calls, opened, play, says
from tau import events
from tau.extension_api.schemas import Parameters, description_of
from tau.functions.function_tools import outcome_of


class Color(enum.Enum):
    RED = "red"


class Point(TypedDict):
    x: Annotated[int, "from the left"]


def paint(color: Color, at: Point, tags: list[str] | None = None, how: Literal["thin", "thick"] = "thin") -> str:
    """Paint a point.

    Nothing else is painted.

    Args:
        color: which,
            of those there are
        tags (list): whatever helps
    """
    return f"{color} {at} {tags} {how}"


def test_the_schema_is_the_signature_and_the_docstring() -> None:
    assert Parameters(paint, "context", "@tau.tool").schema == {
        "type": "object",
        "properties": {
            "color": {"$ref": "#/$defs/Color", "description": "which, of those there are"},
            "at": {"$ref": "#/$defs/Point"},
            "tags": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "description": "whatever helps",
            },
            "how": {"enum": ["thick", "thin"]},
        },
        "required": ["color", "at"],
        "$defs": {
            "Color": {"title": "Color", "enum": ["red"]},
            "Point": {
                "title": "Point",
                "type": "object",
                "properties": {"x": {"type": "integer", "description": "from the left"}},
                "required": ["x"],
            },
        },
    }
    assert description_of(paint) == "Paint a point.\n\nNothing else is painted."


def test_a_parameter_is_reported_in_other_ways_too() -> None:
    def look(place: Annotated[str, "a folder"], deep: bool = False) -> None:
        """Look.

        :param bool deep: below it
            as well
        :returns: nothing
        """

    assert Parameters(look, "context", "@tau.tool").schema["properties"] == {
        "place": {"type": "string", "description": "a folder"},
        "deep": {"type": "boolean", "description": "below it as well"},
    }
    assert description_of(look) == "Look."


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("text", "text"),
        (None, "(no output)"),
        ({"a": [1, True]}, '{"a":[1,true]}'),
        (2.5, "2.5"),
        (Path("x"), "x"),
    ],
)
def test_the_model_reads_what_a_function_returns(value: Any, read: str) -> None:
    assert outcome_of(value) == tau.Outcome([tau.Text(read)])


def test_images_and_outcomes_are_handed_on_as_they_are() -> None:
    image = tau.Image("aGk=", "image/png")
    outcome = tau.Outcome([image], {"more": 1})
    assert outcome_of([tau.Text("see"), image]) == tau.Outcome([tau.Text("see"), image])
    assert outcome_of(image) == tau.Outcome([image])
    assert outcome_of(outcome) is outcome


def run_tool(folder: Path, function: Any, **arguments: Any) -> list[events.ToolEnd]:
    async def story() -> list[events.ToolEnd]:
        name = getattr(function, "__tau__", {}).get("name") or function.__name__
        async with opened(folder, calls(name, **arguments), says("done"), tools=[function]) as agent:
            return [event async for event in agent.prompt("go") if isinstance(event, events.ToolEnd)]

    return play(story())


def text_of(ends: list[events.ToolEnd]) -> tuple[str, bool]:
    (end,) = ends
    (block,) = end.result.content
    assert isinstance(block, events.Text)
    return block.text, end.is_error


def test_a_plain_function_runs_in_a_thread_and_an_async_one_in_the_loop(tmp_path: Path) -> None:
    main = threading.current_thread()

    def plain() -> bool:
        """Where?"""
        return threading.current_thread() is main

    async def awaited() -> bool:
        """Where?"""
        return threading.current_thread() is main

    assert text_of(run_tool(tmp_path, plain)) == ("false", False)
    assert text_of(run_tool(tmp_path, awaited)) == ("true", False)


def test_a_tool_error_and_any_other_are_read_by_the_model(tmp_path: Path) -> None:
    def fail(how: str) -> None:
        """Fail."""
        raise tau.ToolError("Try the other door.") if how == "words" else KeyError(how)

    assert text_of(run_tool(tmp_path, fail, how="words")) == ("Try the other door.", True)
    assert text_of(run_tool(tmp_path, fail, how="x")) == ("KeyError: 'x'", True)


def test_wrong_arguments_never_reach_a_function(tmp_path: Path) -> None:
    def double(n: int) -> int:
        """Double it."""
        return 2 * n

    text, failed = text_of(run_tool(tmp_path, double, n="many"))
    assert failed and "n" in text
    assert text_of(run_tool(tmp_path, double, n=4, unheard_of=1)) == ("8", False)


def test_a_function_can_have_other_words(tmp_path: Path) -> None:
    @tau.tool(name="twice", description="Says it twice.")
    def f(text: str) -> str:
        return 2 * text

    assert f("a") == "aa"
    assert text_of(run_tool(tmp_path, f, text="a")) == ("aa", False)


def test_progress_and_the_folder_come_with_the_context(tmp_path: Path) -> None:
    def count(context: tau.CallContext) -> str:
        """Count."""
        context.progress("one")
        return context.cwd

    async def story() -> tuple[list[Any], str]:
        async with opened(tmp_path, calls("count"), says("done"), tools=[count]) as agent:
            told = [event async for event in agent.prompt("go")]
        shown = [event.partial_result.content for event in told if isinstance(event, events.ToolUpdate)]
        return shown, text_of([event for event in told if isinstance(event, events.ToolEnd)])[0]

    assert play(story()) == ([[events.Text("one")]], str(tmp_path / "work"))


def test_an_aborted_function_is_told_and_not_waited_for(tmp_path: Path) -> None:
    began, let_go, heard = threading.Event(), threading.Event(), threading.Event()

    def stubborn(context: tau.CallContext) -> str:
        """Wait."""
        began.set()
        if context.wait(60):
            heard.set()
        let_go.wait(60)
        return "too late"

    async def story() -> tau.Result:
        async with opened(tmp_path, calls("stubborn"), says("never"), tools=[stubborn]) as agent:
            run = agent.prompt("go").start()
            assert await asyncio.to_thread(began.wait, 30)
            await agent.abort()
            assert await asyncio.to_thread(heard.wait, 30)
            let_go.set()
            return await run

    result = play(story())
    assert result.stop_reason == "aborted"


@pytest.mark.parametrize("wrong", ["no_such_tool", lambda a, /: a, len])
def test_what_can_be_no_tool_is_refused_at_once(wrong: Any, tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(tau.UsageError):
            await opened(tmp_path, tools=[wrong])

    play(story())


def test_tools_can_be_chosen_while_it_lives(tmp_path: Path) -> None:
    def mine() -> None:
        """Mine."""

    async def story() -> tuple[list[str], list[str]]:
        async with opened(tmp_path, tools=[*tau.DEFAULT_TOOLS, mine]) as agent:
            before = agent.tools
            agent.set_tools(["read", "mine"])
            with pytest.raises(tau.CommandError, match="There is no tool nobody"):
                agent.set_tools(["nobody"])
            return before, agent.tools

    assert play(story()) == (["read", "bash", "edit", "write", "mine"], ["read", "mine"])


def test_functions_can_be_added_while_it_lives(tmp_path: Path) -> None:
    def added() -> str:
        """Added."""
        return "called"

    async def story() -> tuple[list[str], list[str]]:
        async with opened(tmp_path, calls("added"), says("ok"), tools=["read"]) as agent:
            agent.set_tools(["read", added])
            await agent.prompt("go")
            results = [message for message in agent.messages() if isinstance(message, events.ToolResult)]
            return agent.tools, [block.text for result in results for block in result.content]

    assert play(story()) == (["read", "added"], ["called"])


def test_a_tool_of_ones_own_making_is_one(tmp_path: Path) -> None:
    async def run(arguments: dict[str, Any], context: tau.ToolContext) -> tau.Outcome:
        return tau.Outcome([tau.Text(f"{arguments} in {Path(context.cwd).name}")])

    tool = tau.Tool("own", "Own.", "own", {"type": "object"}, run)

    async def story() -> list[events.ToolEnd]:
        async with opened(tmp_path, calls("own", a=1), says("done"), tools=[tool]) as agent:
            return [event async for event in agent.prompt("go") if isinstance(event, events.ToolEnd)]

    assert text_of(play(story())) == ("{'a': 1} in work", False)
