"""List and call MCP servers with the official client, for `python scripts/mcp_servers`.

Runs in an environment with the package `mcp` 2.x. stdin: entries by name, each with `calls`; stdout: what came back.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mcp import MCPError
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

TIMEOUT_S = 60


async def roots(context: Any) -> Any:
    from mcp_types import ListRootsResult, Root

    return ListRootsResult(roots=[Root(uri=f"file://{os.getcwd()}")])


async def tried(entry: dict[str, Any]) -> dict[str, Any]:
    env = {**os.environ, **entry.get("env", {})}
    server = StdioServerParameters(command=entry["command"], args=entry["args"], env=env)
    async with Client(stdio_client(server), list_roots_callback=roots, read_timeout_seconds=TIMEOUT_S) as client:
        tools: list[Any] = []
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += [tool.model_dump(by_alias=True, mode="json") for tool in page.tools]
            cursor = page.next_cursor
            if not cursor:
                break
        results = []
        for name, arguments in entry["calls"]:
            try:
                result = await client.call_tool(name, arguments)
            except MCPError as error:
                results.append({"content": [{"type": "text", "text": str(error)}], "isError": True})
                continue
            content = [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content]
            results.append({"content": content, "isError": bool(result.is_error)})
    return {"tools": tools, "results": results}


async def main() -> None:
    answers: dict[str, Any] = {}
    for name, entry in json.load(sys.stdin).items():
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answers[name] = await tried(entry)
        except Exception as error:
            answers[name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answers))


asyncio.run(main())
