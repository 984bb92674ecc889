"""An MCP server that keeps notes, over stdio, without any library: one JSON message per line.

Try it: .venv/bin/python examples/mcp_notes.py
"""

from __future__ import annotations

import json
import sys
from typing import Any

NOTES: list[str] = []
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "add_note", "description": "Keep a note.", "inputSchema": TEXT},
    {"name": "list_notes", "description": "List all notes.", "inputSchema": {"type": "object"}},
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": "notes", "version": "1.0"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        if params["name"] == "add_note":
            NOTES.append(params["arguments"]["text"])
        return {"content": [{"type": "text", "text": "\n".join(NOTES)}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:  # a notification
        continue
    result = answer(message["method"], message.get("params", {}))
    error = {"error": {"code": -32601, "message": "Method not found"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **({"result": result} if result else error)}), flush=True)
