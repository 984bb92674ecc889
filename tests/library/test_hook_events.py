"""Hooks receive events of the types in tau.hooks, whose attributes are the fields that are sent."""

from __future__ import annotations

import re
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest

import tau
from support.library_agent import calls, opened, play, says
from tau import hooks, sync
from tau.extension_api.hook_events import EVENTS
from tau.extension_api.hooks import HOOKS

DOCS = Path(__file__).parents[2] / "docs" / "extensions.md"


def test_every_hook_has_an_event_type() -> None:
    assert list(EVENTS) == list(HOOKS)
    assert {kind.__name__ for kind in EVENTS.values()} <= set(hooks.__all__)
    assert all(kind.__doc__ for kind in EVENTS.values())


def test_event_types_have_the_documented_fields() -> None:
    rows = re.findall(r"^\| `(\w+)` \|(.*?) \| .*\|$", DOCS.read_text().partition("## Events")[2], re.MULTILINE)
    documented = {name: fields for name, fields in rows if name in EVENTS}
    assert documented.keys() == EVENTS.keys()
    for name, fields in documented.items():
        if not name.endswith(("before_compact", "before_tree")):
            typed = {_camel(field) for field in get_type_hints(EVENTS[name])}
            assert set(re.findall(r"`(\w+)\??`", fields)) <= typed, name


def test_events_match_their_types(tmp_path: Path) -> None:
    seen: dict[str, hooks.HookEvent] = {}

    def remember(name: str) -> Any:
        def hook(event: hooks.HookEvent) -> None:
            seen[name] = event

        return hook

    async def story() -> None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "a.txt").write_text("a")
        answers = [calls("read", path="a.txt"), says("done"), says("more")]
        async with opened(tmp_path, *answers, session=True, hooks={name: remember(name) for name in HOOKS}) as agent:
            await agent.prompt("go")
            await agent.bash("true")
            await agent.set_name("x")
            await agent.fork(agent.fork_points()[0].entry_id)
            await agent.new_session()

    play(story())
    assert len(seen) >= 24, sorted(seen)
    for name, event in seen.items():
        hints = get_type_hints(EVENTS[name])
        assert type(event) is EVENTS[name]
        assert set(event) - {_camel(field) for field in hints} <= {"type"}, name
        required = {
            _camel(field) for field, kind in hints.items() if NoneType not in get_args(kind) and kind is not Any
        }
        assert required <= set(event), name


def test_an_event_has_attributes_and_can_be_changed(tmp_path: Path) -> None:
    seen: list[str] = []

    async def story() -> None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "b.txt").write_text("the other file")
        async with opened(tmp_path, calls("read", path="a.txt"), says("done")) as agent:

            @agent.on("tool_call")
            def other(event: hooks.ToolCallEvent) -> None:
                event["input"] = {**event.input, "path": "b.txt"}

            @agent.on("tool_result")
            async def remember(event: hooks.ToolResultEvent, ctx: hooks.Context) -> None:
                seen.append(f"{event.tool_name} {event.is_error} {event.content[0]['text'].strip()}")
                assert ctx.cwd == agent.cwd

            await agent.prompt("go")

    play(story())
    assert seen == ["read False the other file"]


def test_a_wrong_hook_or_handler_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as agent:
            with pytest.raises(tau.UsageError, match=r"^hook: there is no hook 'tool_cal'\. Did you mean tool_call"):
                agent.on("tool_cal")  # type: ignore[call-overload]
            with pytest.raises(tau.UsageError, match=r"^handler: expected a function"):
                agent.on("tool_call", 1)  # type: ignore[call-overload]
            with pytest.raises(tau.UsageError, match=r"^handler: expected a function with the parameters \(event\) or"):
                agent.on("tool_call", lambda: None)  # type: ignore[call-overload]

    play(story())


def test_the_synchronous_agent_has_the_decorator_too(tmp_path: Path) -> None:
    seen: list[bool] = []
    with sync.open(tmp_path, agent_dir=tmp_path, session=False, script=[{"text": "ok"}]) as agent:

        @agent.on("agent_settled")
        def settled(event: hooks.AgentSettledEvent) -> None:
            seen.append(event.aborted)

        remove = agent.on("agent_settled", settled)
        agent.prompt("one")
        remove()
        agent.prompt("two")
    assert seen[:2] == [False, False]


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
