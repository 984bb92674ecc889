"""An agent that uses an MCP server: two calls of its tools. The model is scripted, so no key is needed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import tau
from tau import events

SERVER = Path(__file__).with_name("mcp_notes_server.py")
SCRIPT = [
    {"blocks": [{"tool": "mcp__notes__add_note", "arguments": {"text": "Buy pears."}}]},
    {"blocks": [{"tool": "mcp__notes__list_notes", "arguments": {}}]},
    {"text": "You wanted to buy pears."},
]


def show(event: object) -> None:
    match event:
        case events.McpServerUpdate(server, state):
            print(f"[{server}: {state}]")
        case events.ToolEnd(tool_name=name, result=result):
            print(f"{name}: {''.join(block.text for block in result.content if isinstance(block, tau.Text))}")


async def main() -> None:
    servers = {"notes": {"command": sys.executable, "args": [str(SERVER)]}}
    async with tau.open(script=SCRIPT, session=False, mcp_servers=servers, on_event=show) as agent:
        print((await agent.prompt("What did I want to buy?")).text)


if __name__ == "__main__":
    asyncio.run(main())
