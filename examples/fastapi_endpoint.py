"""An agent behind an HTTP endpoint, with its answer as server-sent events.

    pip install fastapi uvicorn
    uvicorn --app-dir examples fastapi_endpoint:app
    curl -N -d '{"text": "list the files here"}' -H 'content-type: application/json' localhost:8000/prompt

Run as a program, it sends one request to itself, without a network.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import tau
from tau import events

try:
    from fastapi import FastAPI
    from fastapi.responses import StreamingResponse
except ImportError:
    print("This example needs FastAPI: pip install fastapi")
    sys.exit(0)

app = FastAPI()


@dataclass
class Question:
    text: str


@app.post("/prompt")
async def prompt(question: Question) -> StreamingResponse:
    """Each request has its own agent, which is closed if the client disconnects."""

    async def stream() -> AsyncIterator[str]:
        async with tau.open(model="demo", session=False) as agent:
            run = agent.prompt(question.text)
            async for event in run:
                match event:
                    case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
                        yield line("text", text)
                    case events.ToolStart(tool_name=name, args=args):
                        yield line("tool", {"name": name, "args": args})
                    case _:
                        pass
            result = await run
            yield line("done", {"stopReason": result.stop_reason, "tokens": result.usage.total_tokens})

    return StreamingResponse(stream(), media_type="text/event-stream")


def line(event: str, data: object) -> str:
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


async def request_once(text: str) -> None:
    """One request, as a server would hand it to the application."""
    body = json.dumps({"text": text}).encode()
    scope: dict[str, Any] = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": ""},
        **{"method": "POST", "path": "/prompt", "raw_path": b"/prompt", "query_string": b""},
        **{"headers": [(b"content-type", b"application/json")], "server": ("here", 80), "client": ("here", 1)},
    }
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:
            await asyncio.Event().wait()
        asked = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        print(message.get("body", b"").decode(), end="")

    await app(scope, receive, send)


if __name__ == "__main__":
    asyncio.run(request_once(" ".join(sys.argv[1:]) or "list the files here"))
