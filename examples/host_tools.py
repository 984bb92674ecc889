"""Functions of a client as tools of an agent in another process: they run here, and the agent waits for their results.

    python examples/host_tools.py

A script plays the model here, so that it runs offline and always calls the tool.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import tau
from tau import events

TICKETS = {"ABC-1": "open", "ABC-2": "closed"}


async def lookup_ticket(id: str, context: tau.CallContext) -> dict[str, str]:
    """Look a ticket up.

    Args:
        id: its number
    """
    context.progress(f"Asking for {id}.")  # the agent publishes it as tool_execution_update
    await asyncio.sleep(0.01)
    if id not in TICKETS:
        raise tau.ToolError(f"There is no ticket {id}.")  # the model reads this
    return {"id": id, "state": TICKETS[id]}


SCRIPT = [
    {"blocks": [{"tool": "lookup_ticket", "arguments": {"id": "ABC-9"}}]},
    {"blocks": [{"tool": "lookup_ticket", "arguments": {"id": "ABC-1"}}]},
    {"text": "ABC-1 is open; there is no ABC-9."},
]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.json")
        script.write_text(json.dumps({"answers": SCRIPT}))
        args = ["--script", str(script), "--no-session"]
        async with tau.RpcClient(folder, model="scripted", args=args, tools=[lookup_ticket]) as agent:
            async for event in agent.prompt_events("Which of ABC-1 and ABC-9 are open?"):
                match event:
                    case events.ToolRequest(tool_name=name, arguments=arguments):
                        print(f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})")
                    case events.ToolEnd(result=events.Outcome(content=[events.Text(text=text), *_])):
                        print(f"    {text}")
                    case _:
                        pass
            print(await agent.get_last_assistant_text())


if __name__ == "__main__":
    asyncio.run(main())
