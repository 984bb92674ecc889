"""A chat at the terminal that shows everything as it happens. Ctrl-C stops an answer, Ctrl-D ends it.

python examples/chat.py
echo "read README.md" | python examples/chat.py
"""

from __future__ import annotations

import asyncio
import signal
import sys

import tau
from tau import events


def show(event: tau.AgentEvent) -> None:
    match event:
        case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
            print(text, end="", flush=True)
        case events.MessageUpdate(assistant_message_event=events.TextEnd()):
            print()
        case events.ToolStart(tool_name=name, args=args):
            print(f"[{name}] {args}")
        case events.ToolEnd(is_error=True, result=events.Outcome(content=[events.Text(text=text), *_])):
            print(f"    failed: {text}")
        case events.AutoRetryStart(delay_ms=delay, error_message=why):
            print(f"    {why}; again in {delay / 1000:g} s")
        case _:
            pass  # there are more: see tau.events


async def main() -> None:
    loop = asyncio.get_running_loop()
    async with tau.open(model="demo", session=False) as agent:
        print(f"You are talking to {agent.model.name if agent.model else 'no model'}. Ask it to list the files.")
        while True:
            print("> ", end="", flush=True)
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                print()
                return
            if not line.strip():
                continue
            run = agent.prompt(line.strip())
            # The agent leaves signals alone; what Ctrl-C means is for this program to say.
            loop.add_signal_handler(signal.SIGINT, lambda: asyncio.ensure_future(agent.abort()))
            async for event in run:
                show(event)
            loop.remove_signal_handler(signal.SIGINT)
            result = await run
            if not result.ok:
                print(f"({result.error})")


if __name__ == "__main__":
    asyncio.run(main())
