"""Actions of extensions on tools and on the system prompt."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from typing import Any

from tau.errors import ExtensionFailure, ToolError
from tau.records.base import Record, to_builtins
from tau.records.events import Outcome
from tau.runtime.extensions.registry import current_pieces
from tau.runtime.session.prompt_options import prompt_options
from tau.runtime.session.session import Session
from tau.tools import Tool, edit
from tau.tools.registry import TOOLS


class Nothing(Record):
    pass


def _described(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


async def get_all_tools(session: Session, wanted: Nothing) -> list[dict[str, Any]]:
    """All tools that the model could have. `sourceInfo` says where each comes from."""
    sources = session.extension_lifecycle.tool_sources()
    builtin = {"source": "builtin", "scope": "temporary", "origin": "top-level"}
    found = []
    for tool in session.tool_runner.all_tools.values():
        source = sources.get(tool.name)
        info = {"path": f"<builtin:{tool.name}>", **builtin} if source is None else to_builtins(source)
        guidelines = {"promptGuidelines": list(tool.guidelines)} if tool.guidelines else {}
        found.append({**_described(tool), **guidelines, "sourceInfo": info})
    return found


async def get_builtin_tools(session: Session, wanted: Nothing) -> list[dict[str, Any]]:
    """tau's own tools, for extensions that wrap them, with the schemas of pi."""
    others = {"edit": edit.DEFINITION}
    return [
        {
            **_described(tool),
            **others.get(tool.name, {}),
            "promptSnippet": tool.snippet,
            "promptGuidelines": list(tool.guidelines),
        }
        for tool in TOOLS.values()
    ]


class RunTool(Record):
    name: str
    arguments: dict[str, Any]
    cwd: str | None = None
    env: dict[str, str] | None = None


async def run_tool(session: Session, wanted: RunTool) -> dict[str, Any]:
    """Run one of tau's own tools for an extension. Its progress is sent in pieces."""
    if wanted.name not in TOOLS:
        raise ExtensionFailure(f"There is no tool {wanted.name}")
    arguments = dict(wanted.arguments)
    if wanted.env and isinstance(arguments.get("command"), str):
        set_variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in wanted.env.items())
        arguments["command"] = f"export {set_variables}; {arguments['command']}"
    try:
        outcome = await session.tool_runner.run_builtin(
            TOOLS[wanted.name], arguments, wanted.cwd or session.services.cwd, _progress(current_pieces.get())
        )
    except ToolError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {**to_builtins(outcome), "isError": False}


def _progress(send: Callable[[Any], None] | None) -> Callable[[Outcome], None]:
    def progress(outcome: Outcome) -> None:
        if send is not None:
            send(to_builtins(outcome))

    return progress


async def get_system_prompt_options(session: Session, wanted: Nothing) -> dict[str, Any]:
    return await prompt_options(session.resources, list(session.tool_runner.tools.values()))


TOOL_ACTIONS: dict[str, tuple[type[Record], Callable[[Session, Any], Awaitable[Any]]]] = {
    "get_all_tools": (Nothing, get_all_tools),
    "get_builtin_tools": (Nothing, get_builtin_tools),
    "run_tool": (RunTool, run_tool),
    "get_system_prompt_options": (Nothing, get_system_prompt_options),
}
