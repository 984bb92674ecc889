"""MCP servers that a client hands over with a session."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.acp_peer import Failure, Peer, memory_peer
from support.mcp_server import server_entry
from support.rpc_process import Json, is_gone
from tau.acp.mcp_servers import literal, mcp_entries
from tau.acp.requests import McpServer, NameValue
from tau.mcp.config import expand_variables


def handed_over(name: str = "lab", env: list[Json] | None = None, **options: Any) -> Json:
    entry = server_entry(**options)
    return {"name": name, "command": entry["command"], "args": entry["args"], "env": env or []}


async def open_with(peer: Peer, folder: Path, *servers: Json) -> str:
    await peer.initialize()
    result = await peer.call("session/new", cwd=str(folder / "work"), mcpServers=[*servers])
    session: str = result["sessionId"]
    return session


def tool(name: str, id: str = "call_1", **arguments: Any) -> Json:
    return {"blocks": [{"tool": name, "arguments": arguments, "id": id}]}


@pytest.mark.process
def test_a_tool_of_a_server_of_the_client_is_called(tmp_path: Path) -> None:
    async def main() -> None:
        answers = tool("mcp__lab__echo", text="hello"), tool("mcp__lab__env", "call_2"), {"text": "done"}
        async with memory_peer(tmp_path, *answers) as peer:
            variables = [{"name": "LITERAL", "value": "!echo ${HOME}"}]
            server = handed_over(env=variables, tools=["echo", "env"])
            session = await open_with(peer, tmp_path, server)
            assert await peer.prompt(session) == "end_turn"
            calls = peer.calls()
            assert calls["call_1"]["status"] == "completed", calls
            assert "hello" in calls["call_1"]["content"][0]["content"]["text"]
            assert "!echo ${HOME}" in calls["call_2"]["content"][0]["content"]["text"]

    asyncio.run(main())


@pytest.mark.promise("K11")
@pytest.mark.process
def test_a_server_that_does_not_work_is_reported_and_the_session_works(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path) as peer:
            missing = {"name": "gone", "command": "/nowhere/server", "args": [], "env": []}
            session = await open_with(peer, tmp_path, missing)
            await peer.until(lambda one: "gone" in json.dumps(one) and "notice" in json.dumps(one))
            assert await peer.prompt(session) == "end_turn"

    asyncio.run(main())


@pytest.mark.promise("K10")
@pytest.mark.process
def test_closing_a_session_ends_its_servers(tmp_path: Path) -> None:
    async def main() -> None:
        answers = tool("mcp__lab__pid"), {"text": "done"}
        async with memory_peer(tmp_path, *answers) as peer:
            session = await open_with(peer, tmp_path, handed_over(tools=["pid"]))
            await peer.prompt(session)
            pid = int(peer.calls()["call_1"]["content"][0]["content"]["text"])
            os.kill(pid, 0)
            await peer.call("session/close", sessionId=session)
            assert await asyncio.to_thread(lambda: is_gone(pid, within=10))

    asyncio.run(main())


@pytest.mark.process
@pytest.mark.promise("K05")
def test_a_cancel_during_a_call_of_a_server_is_answered_soon(tmp_path: Path) -> None:
    async def main() -> None:
        answers = tool("mcp__lab__silent"), {"text": "afterwards"}
        async with memory_peer(tmp_path, *answers) as peer:
            session = await open_with(peer, tmp_path, handed_over(tools=["silent"]))
            request = peer.prompt_request(session)
            await peer.send(request)
            await peer.update("tool_call_update", status="in_progress")
            await peer.notify("session/cancel", sessionId=session)
            assert (await peer.response(request))["stopReason"] == "cancelled"
            assert peer.calls()["call_1"]["status"] == "failed"
            assert await peer.prompt(session) == "end_turn"

    asyncio.run(main())


@pytest.mark.promise("K14")
def test_servers_that_are_incomplete_are_refused_by_field(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path) as peer:
            await peer.initialize()
            wrong: list[tuple[Json, str]] = [
                ({"name": "a"}, "mcpServers[0].command"),
                ({"name": "a", "type": "http", "headers": []}, "mcpServers[0].url"),
                ({"name": "a", "type": "acp"}, "mcpServers[0].type"),
                ({"command": "x", "args": [], "env": []}, "mcpServers[0].name"),
            ]
            for server, field in wrong:
                with pytest.raises(Failure) as refused:
                    await peer.call("session/new", cwd=str(tmp_path), mcpServers=[server])
                assert (refused.value.code, refused.value.data["field"]) == (-32602, field)

    asyncio.run(main())


def test_values_are_literal_and_names_are_unique() -> None:
    for text in ("plain", "${HOME}", "!date", "$HOME ${A} ${B:-c}", "!${X}", "$${HOME}", "${"):
        quoted = literal(text)
        assert not quoted.startswith("!")
        assert expand_variables(quoted, {"HOME": "/root", "A": "a"}) == text
    servers = [
        McpServer(name="my server", command="a"),
        McpServer(name="my_server", command="b"),
        McpServer(name="web", type="http", url="http://localhost/mcp", headers=[NameValue("X-Key", "!k")]),
    ]
    entries = mcp_entries(servers)
    assert [*entries] == ["my_server", "my_server_2", "web"]
    assert entries["web"]["type"] == "http"


@pytest.mark.process
def test_a_form_of_a_server_is_one_question_and_an_address_another(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 2},
            "size": {"type": "string", "enum": ["s", "l"]},
            "count": {"type": "integer", "default": 3},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        },
        "required": ["name"],
    }
    asked: list[Json] = []

    def answer(params: Json) -> Json:
        asked.append(params)
        if params["mode"] == "url":
            return {"action": "accept"}
        return {"action": "accept", "content": {"name": "Ada", "size": "l", "count": 4, "tags": ["b"], "more": 1}}

    async def main() -> None:
        url = tool("mcp__lab__ask", "call_2", url="https://example.com/login")
        async with memory_peer(tmp_path, tool("mcp__lab__ask", schema=schema), url, {"text": "done"}) as peer:
            session = await open_with(peer, tmp_path, handed_over(tools=["ask"]))
            peer.answers["elicitation/create"] = answer
            assert await peer.prompt(session) == "end_turn"
            form, address = asked
            assert [*form["requestedSchema"]["properties"]] == ["name", "size", "count", "tags"]
            assert address["url"] == "https://example.com/login" and address["elicitationId"]
            shown = json.dumps(peer.calls()["call_1"])
            assert "Ada" in shown and "more" not in shown

    asyncio.run(main())


@pytest.mark.process
def test_an_answer_to_a_form_that_its_schema_does_not_allow_is_no_answer(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

    async def main() -> None:
        async with memory_peer(tmp_path, tool("mcp__lab__ask", schema=schema), {"text": "done"}) as peer:
            session = await open_with(peer, tmp_path, handed_over(tools=["ask"]))
            peer.answers["elicitation/create"] = lambda params: {"action": "accept", "content": {"name": 7}}
            assert await peer.prompt(session) == "end_turn"
            assert "cancel" in json.dumps(peer.calls()["call_1"])

    asyncio.run(main())
