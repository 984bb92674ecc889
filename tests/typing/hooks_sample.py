"""Handlers of hooks know the type of their event: checked by mypy --strict and pyright, never run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

from tau import Agent, hooks, sync


def protect(event: hooks.ToolCallEvent) -> hooks.ToolCallAnswer | None:
    assert_type(event.tool_name, str)
    assert_type(event.input, dict[str, Any])
    assert_type(event["toolName"], Any)
    return {"block": True, "reason": "no"} if event.tool_name == "bash" else None


async def later(event: hooks.ContextEvent, ctx: hooks.Context) -> hooks.ContextAnswer:
    assert_type(ctx.cwd, str)
    return {"messages": event.messages[-1:]}


def any_event(event: dict[str, Any]) -> None:
    """A handler for several hooks."""


def asynchronous(agent: Agent) -> None:
    assert_type(agent.on("tool_call", protect), Callable[[], None])
    agent.on("context", later)
    agent.on("agent_end", any_event)
    agent.on("turn_start", lambda event: print(event.turn_index))
    agent.on("tool_call")(protect)

    @agent.on("tool_result")
    def shorten(event: hooks.ToolResultEvent) -> hooks.ToolResultAnswer | None:
        return {"content": event.content[:1]} if event.is_error else None

    @agent.on("before_provider_request")
    async def tag(event: hooks.BeforeProviderRequestEvent, ctx: hooks.Context) -> dict[str, Any]:
        return {**event.payload, "user": ctx.cwd}

    @agent.on("agent_settled")
    def settled(event: hooks.AgentSettledEvent) -> None:
        assert_type(event.aborted, bool)

    settled(hooks.AgentSettledEvent(aborted=False))
    shorten(hooks.ToolResultEvent())


def synchronous(agent: sync.Agent) -> None:
    assert_type(agent.on("tool_call", protect), Callable[[], None])

    @agent.on("session_start")
    def started(event: hooks.SessionStartEvent) -> None:
        assert_type(event.previous_session_file, str | None)
