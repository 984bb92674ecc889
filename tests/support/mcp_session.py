"""Runs tool calls of a scripted model against MCP servers, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import tau
from tau import events
from tau.records.messages import Image, Text


class Called(NamedTuple):
    """The result of a tool call."""

    name: str
    text: str
    is_error: bool
    details: Any
    images: int


class McpRun:
    """What happened in a session: results, progress, states of servers."""

    def __init__(self) -> None:
        self.called: list[Called] = []
        self.progress: list[str] = []
        self.states: list[tuple[str, str]] = []
        self.errors: list[str] = []
        self.agent: Any = None

    def saw(self, event: Any) -> None:
        match event:
            case events.ToolEnd():
                blocks = event.result.content
                text = "\n".join(block.text for block in blocks if isinstance(block, Text))
                images = sum(isinstance(block, Image) for block in blocks)
                self.called.append(Called(event.tool_name, text, event.is_error, event.result.details, images))
            case events.ToolUpdate():
                self.progress += [block.text for block in event.partial_result.content if isinstance(block, Text)]
            case events.McpServerUpdate():
                self.states.append((event.server, event.state))
                if isinstance(event.error, str):
                    self.errors.append(event.error)

    @property
    def last(self) -> Called:
        return self.called[-1]

    async def prompt(self, text: str = "go") -> Any:
        return await self.agent.prompt(text)


Call = tuple[str, Mapping[str, Any]]
NEXT_PROMPT: Call = ("", {})  # what follows is for the next prompt


def script(*calls: Call) -> list[dict[str, Any]]:
    """Answers of a model that calls these tools one after another, then says "done"."""
    answers: list[dict[str, Any]] = [
        {"blocks": [{"tool": name, "arguments": dict(arguments), "id": f"call_{at}"}]} if name else {"text": "done"}
        for at, (name, arguments) in enumerate(calls)
    ]
    return [*answers, {"text": "done"}]


@asynccontextmanager
async def mcp_session(folder: Path, servers: Mapping[str, Any], *calls: Call, **options: Any) -> AsyncIterator[McpRun]:
    """A session with these servers. `run.prompt()` lets the model make the calls."""
    for name in ("agent", "work", "home"):
        (folder / name).mkdir(exist_ok=True)
    run = McpRun()
    given = {"script": script(*calls), "agent_dir": folder / "agent", "session": False, **options}
    async with tau.open(folder / "work", mcp_servers=servers, on_event=run.saw, **given) as agent:
        run.agent = agent
        yield run


async def results(folder: Path, servers: Mapping[str, Any], *calls: Call, **options: Any) -> McpRun:
    """Make the calls in a session of their own, and return what happened."""
    async with mcp_session(folder, servers, *calls, **options) as run:
        await run.prompt()
    return run
