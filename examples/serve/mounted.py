"""tau inside your own web application: sessions over HTTP and WebSocket below /agent, with your own tokens.

    pip install '.[serve]'
    uvicorn --app-dir examples/serve mounted:app
    curl -H 'Authorization: Bearer secret-of-ann' localhost:8000/agent/v1/sessions

FastAPI has the same `mount` and `lifespan`. Run as a program, it sends some requests to itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import tau.serve

try:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Mount, Route
except ImportError:
    print("This example needs an extra: pip install '.[serve]'")
    sys.exit(0)

PORT = int(os.environ.get("PORT", "8000"))
# In your application: look the token up where your users are, and compare it in constant time.
USERS = {"secret-of-ann": tau.serve.Access("ann", "admin"), "secret-of-bob": tau.serve.Access("bob", "watch")}

agent = tau.serve.app(
    allowed_hosts=[f"localhost:{PORT}", f"127.0.0.1:{PORT}"],
    authenticate=USERS.get,
    model="demo",
    tools=["read", "ls", "grep"],
)


async def home(request: Request) -> PlainTextResponse:
    return PlainTextResponse("my own application")


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with agent.router.lifespan_context(agent):  # a mounted application is not told of the end by itself
        yield


app = Starlette(routes=[Route("/", home), Mount("/agent", agent)], lifespan=lifespan)


async def main() -> None:
    """Serve for a moment, and be the client."""
    import uvicorn

    config = uvicorn.Config(app, host="127.0.0.1", port=PORT, log_level="error", ws="websockets-sansio")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.05)
    print("without a token:", (await ask("GET", "/agent/v1/sessions", ""))[0])
    print("bob opens a session:", (await ask("POST", "/agent/v1/sessions", "secret-of-bob", {}))[0])
    status, opened = await ask("POST", "/agent/v1/sessions", "secret-of-ann", {"memory": True})
    print("ann opens a session:", status)
    commands = f"/agent/v1/sessions/{opened['session']}/commands"
    status, result = await ask("POST", commands, "secret-of-ann", {"type": "prompt", "message": "hello"})
    print("the model answers:", status, result["stopReason"])
    server.should_exit = True
    await serving


async def ask(method: str, path: str, token: str, body: object = None) -> tuple[int, dict[str, str]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    data = b"" if body is None else json.dumps(body).encode()
    head = [
        f"{method} {path} HTTP/1.1",
        f"Host: localhost:{PORT}",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
        "Prefer: wait=30",
        "Connection: close",
    ]
    writer.write("\r\n".join([*head, "", ""]).encode() + data)
    head_bytes, _, answer = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head_bytes.split()[1]), json.loads(answer)


if __name__ == "__main__":
    asyncio.run(main())
