"""Functions of the program may raise anything, also what is no Exception: it harms them only, and the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tau
from support.library_agent import calls, opened, play, says
from tau import events

Raise = Callable[[], Any]
WORK = (calls("bash", command="touch ran"), says("done"))


def exits() -> None:
    raise GeneratorExit


def fails() -> None:
    pytest.fail("not this")


def skips() -> None:
    pytest.skip("not this")


def nothing_awaited() -> None:
    raise asyncio.CancelledError


RAISED = pytest.mark.parametrize("raises", [fails, skips, exits, nothing_awaited])


async def outcome(folder: Path, **wanted: Any) -> tuple[bool, str, bool, bool]:
    """Did the command run, what was the answer, is the agent idle, and does it take another prompt?"""
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    subscribed = wanted.pop("subscribed", None)
    async with opened(folder, *WORK, says("again"), **wanted) as agent:
        if subscribed is not None:
            agent.subscribe(subscribed)
        text = (await agent.prompt("go")).text
        idle = not agent.is_busy
        again = (await agent.prompt("again")).text == "again"
        ran = (folder / "work" / "ran").exists()
    assert len(reported) > 0 or subscribed is None
    return ran, text, idle, again


@RAISED
def test_a_tool_does_not_run_without_its_permission(raises: Raise, tmp_path: Path) -> None:
    async def permission(name: str, arguments: dict[str, Any]) -> bool:
        raises()
        return True

    assert play(outcome(tmp_path, permission=permission)) == (False, "done", True, True)


@RAISED
@pytest.mark.parametrize("hook", ["before_agent_start", "context", "before_provider_request", "turn_end", "agent_end"])
def test_a_hook_that_only_looks_on_stops_nothing(hook: str, raises: Raise, tmp_path: Path) -> None:
    async def look(event: dict[str, Any]) -> None:
        raises()

    assert play(outcome(tmp_path, hooks={hook: look})) == (True, "done", True, True)


@RAISED
def test_a_gate_that_fails_stays_closed(raises: Raise, tmp_path: Path) -> None:
    async def gate(event: dict[str, Any]) -> None:
        raises()

    assert play(outcome(tmp_path, hooks={"tool_call": gate})) == (False, "done", True, True)


@pytest.mark.parametrize("raises", [fails, skips, nothing_awaited])  # a plain function cannot leave a generator
def test_event_handlers_do_not_reach_the_run(raises: Raise, tmp_path: Path) -> None:
    def plain(event: tau.Event) -> None:
        if isinstance(event, events.MessageEnd):
            raises()

    async def awaited(event: tau.Event) -> None:
        plain(event)

    assert play(outcome(tmp_path / "plain", subscribed=plain)) == (True, "done", True, True)
    assert play(outcome(tmp_path / "async", subscribed=awaited)) == (True, "done", True, True)


@RAISED
def test_a_tool_that_raises_has_failed(raises: Raise, tmp_path: Path) -> None:
    async def look() -> None:
        """Look."""
        raises()

    async def story() -> tuple[str, bool]:
        async with opened(tmp_path, calls("look"), says("done"), tools=[look]) as agent:
            text = (await agent.prompt("go")).text
            results = [message for message in agent.messages() if isinstance(message, events.ToolResult)]
            return text, results[0].is_error

    assert play(story()) == ("done", True)
