"""A permission callback: asks at the terminal before each tool call that does more than read.

python examples/permission.py
yes n | python examples/permission.py
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import tau

HARMLESS = {"read", "ls", "grep", "find"}
HELLO = "echo hello > greeting.txt && cat greeting.txt; rm greeting.txt"
SCRIPT = [
    {"blocks": [{"tool": "ls", "arguments": {"path": "."}}]},
    {"blocks": [{"tool": "bash", "arguments": {"command": HELLO}}]},
    {"text": "That is all I wanted to do."},
]


def permission(tool: str, input: dict[str, Any]) -> bool | str:
    """True, False, or the reason why not, which the model reads. If this fails, nothing runs."""
    if tool in HARMLESS:
        return True
    print(f"May it run {tool} with {input}? [y/n, or why not] ", end="", flush=True)
    answer = sys.stdin.readline()  # this runs in a thread of its own, so it may wait
    if not answer:
        return "There is no user to ask."
    return {"y": True, "n": False}.get(answer.strip().lower(), answer.strip())


async def main() -> None:
    async with tau.open(script=SCRIPT, session=False, tools=["ls", "bash"], permission=permission) as agent:
        result = await agent.prompt("Say hello, and clean up after yourself.")
        for message in result.messages:
            if isinstance(message, tau.events.ToolResult):
                (block, *_) = message.content
                text = block.text if isinstance(block, tau.Text) else "(an image)"
                print(f"{message.tool_name}: {'refused: ' if message.is_error else ''}{text.strip()}")
        print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
