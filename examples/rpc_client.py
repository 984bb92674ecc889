"""An agent in another process, from Python: ask it something and watch it work, offline.

    python examples/rpc_client.py "list the files here"

`model="demo"` needs no key; leave it out, or name another, for real work.
"""

from __future__ import annotations

import asyncio
import sys

from tau import RpcClient, events


def show(event: events.RpcEvent) -> None:
    match event:
        case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
            print(text, end="", flush=True)
        case events.MessageUpdate(assistant_message_event=events.TextEnd()):
            print()
        case events.ToolStart(tool_name=name, args=args):
            print(f"[{name}] {args}")
        case events.ToolEnd(result=events.Outcome(content=[events.Text(text=text), *_])):
            print("\n".join(f"    {line}" for line in text.splitlines()[:3]))
        case _:
            pass  # there are more: see tau.events


async def main(question: str) -> None:
    async with RpcClient(model="demo", args=["--no-session"]) as agent:
        unsubscribe = agent.on_event(show)
        received = await agent.prompt_and_wait(question)
        unsubscribe()
        stats = await agent.get_session_stats()
        print(f"{len(received)} events, {stats.tool_calls} tool calls, {stats.total_messages} messages")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "list the files here"))
