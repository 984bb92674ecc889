"""The phases of a prompt over ACP in which it can be cancelled, and how a client knows that one has begun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from support.acp_peer import Peer
from support.rpc_process import Json

AFTERWARDS: Json = {"text": "afterwards"}  # the answer to the next prompt


def tool(name: str, id: str = "call_1", **arguments: Any) -> Json:
    return {"blocks": [{"tool": name, "arguments": arguments, "id": id}]}


async def kind(peer: Peer, name: str) -> Any:
    return await peer.update(name)


async def question(peer: Peer, _: str) -> Any:
    return await peer.until(lambda one: one.get("method") == "session/request_permission")


async def running(peer: Peer, _: str) -> Any:
    return await peer.update("tool_call_update", status="in_progress")


async def at_once(peer: Peer, _: str) -> None:
    return


Reached = Callable[[Peer, str], Awaitable[Any]]
PHASES: dict[str, tuple[Json, Reached, str, list[str]]] = {
    "before the first byte": ({"text": "x", "hangAfter": 0}, at_once, "", []),
    "while text streams": ({"blocks": [{"text": ["a", "b"]}], "hangAfter": 1}, kind, "agent_message_chunk", []),
    "in thinking": ({"blocks": [{"thinking": ["a", "b"]}], "hangAfter": 1}, kind, "agent_thought_chunk", []),
    "in the arguments of a call": (
        {"blocks": [{"tool": "bash", "arguments": ['{"comm', 'and"'], "id": "call_1"}], "hangAfter": 1},
        kind,
        "tool_call",
        [],
    ),
    "in a command": (tool("bash", command="sleep 60"), running, "", []),
    "in a permission question": (tool("bash", command="touch no"), question, "", ["--permissions", "ask"]),
    "in the wait for a retry": ({"error": {"message": "529 overloaded"}}, kind, "notice", []),
}
