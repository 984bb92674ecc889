"""Tools that clients of a host lend: who gets the calls, who is refused, and who may come back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.served import Client, Json, make_host
from tau.serve.access import LOCAL_USER, Access
from tau.serve.host import Host
from tau.serve.web.calls import Call

PARAMETERS = {"type": "object", "properties": {"id": {"type": "string"}}}
LOOKUP: Json = {"name": "lookup", "description": "Look it up.", "parameters": PARAMETERS}
CALL: Json = {"blocks": [{"tool": "lookup", "arguments": {"id": "A"}, "id": "call_1"}]}
OK: Json = {"text": "ok"}


async def bound(host: Host, session: str, **hello: Any) -> Client:
    client = Client(host)
    assert (await client.hello(session=session, **hello))["success"]
    return client


async def opened(host: Host) -> str:
    client = Client(host)
    await client.hello()
    return str((await client.get("open_session", attach=False))["session"])


async def result_of(client: Client) -> Json:
    ended = await client.until("tool_execution_end", 0)
    return {"text": ended["result"]["content"][0]["text"], "isError": ended["isError"]}


async def test_only_the_client_that_lent_a_tool_gets_its_request_without_a_number(tmp_path: Path) -> None:
    host = make_host(tmp_path, CALL, OK)
    session = await opened(host)
    lender, other = await bound(host, session, client="a"), await bound(host, session, client="b")
    assert await lender.get("set_tools", tools=[LOOKUP]) == {"tools": ["lookup"]}
    await other.get("prompt", message="go")
    request = await lender.until("tool_request", 0)
    assert {name: value for name, value in request.items() if name != "id"} == {
        "type": "tool_request",
        "toolCallId": "call_1",
        "toolName": "lookup",
        "arguments": {"id": "A"},
    }
    assert lender.records[lender.records.index(request) - 1]["type"] == "tool_execution_start"
    wrong = await other.ask("tool_result", requestId=request["id"], content="mine")
    assert wrong["error"].endswith("is open")
    await lender.get("tool_progress", requestId=request["id"], content="half")
    await lender.get("tool_result", requestId=request["id"], content="found")
    await other.until("agent_settled", 0)
    assert await result_of(other) == {"text": "found", "isError": False}
    assert other.events("tool_execution_update") and not other.events("tool_request")


async def test_a_second_lender_of_a_name_is_refused(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    session = await opened(host)
    first, second = await bound(host, session, client="a"), await bound(host, session, client="b")
    await first.get("set_tools", tools=[LOOKUP])
    refused = await second.ask("set_tools", tools=[LOOKUP])
    assert refused["error"] == "tools[0].name: lookup is a tool of another client"
    await second.get("set_tools", tools=[{**LOOKUP, "name": "other"}])
    await first.get("set_tools", tools=[])
    await second.get("set_tools", tools=[LOOKUP])


async def test_a_lost_client_that_offers_its_tools_again_gets_its_open_requests_again(tmp_path: Path) -> None:
    host = make_host(tmp_path, CALL, OK, answer_timeout_s=60)
    session = await opened(host)
    lender, other = await bound(host, session, client="a"), await bound(host, session, client="b")
    await lender.get("set_tools", tools=[LOOKUP])
    await lender.get("prompt", message="go")
    request = await lender.until("tool_request", 0)
    lender.cut()
    await lender.ended()
    assert (await other.ask("set_tools", tools=[LOOKUP]))["error"].endswith("another client")
    back = await bound(host, session, client="a")
    await back.get("set_tools", tools=[LOOKUP])
    assert await back.until("tool_request", 0) == request
    await back.get("tool_result", requestId=request["id"], content="found")
    await other.until("agent_settled", 0)
    assert await result_of(other) == {"text": "found", "isError": False}


async def test_a_lost_client_that_does_not_come_back_fails_its_requests_and_loses_its_tools(tmp_path: Path) -> None:
    host = make_host(tmp_path, CALL, CALL, OK, answer_timeout_s=0.01)
    session = await opened(host)
    lender, other = await bound(host, session, client="a"), await bound(host, session, client="b")
    await lender.get("set_tools", tools=[LOOKUP])
    await other.get("prompt", message="go")
    await lender.until("tool_request", 0)
    lender.cut()
    await other.until("agent_settled", 0)
    texts = [record["result"]["content"][0]["text"] for record in other.events("tool_execution_end")]
    assert texts == ["The client has gone.", "Tool lookup not found"]
    assert "lookup" not in [tool["name"] for tool in (await other.get("get_tools"))["tools"]]
    await other.get("set_tools", tools=[LOOKUP])


async def test_another_credential_does_not_take_over_the_tools_of_a_lost_client(tmp_path: Path) -> None:
    host = make_host(tmp_path, CALL, OK, answer_timeout_s=60)
    session = await opened(host)
    lender = await bound(host, session, client="a")
    await lender.get("set_tools", tools=[LOOKUP])
    lender.cut()
    await lender.ended()
    stranger = Client(host, Access("guest", "drive", "token-1"))
    assert (await stranger.hello(session=session, client="a"))["success"]
    assert (await stranger.ask("set_tools", tools=[LOOKUP]))["error"].endswith("another client")


async def test_a_free_channel_gets_requests_with_the_session_and_keeps_them_when_it_attaches_again(
    tmp_path: Path,
) -> None:
    host = make_host(tmp_path, CALL, OK, answer_timeout_s=60)
    client = Client(host)
    await client.hello()
    session = (await client.get("open_session"))["session"]
    await client.get("set_tools", tools=[LOOKUP], session=session)
    await client.get("prompt", message="go", session=session)
    request = await client.until("tool_request", 0)
    assert request["session"] == session
    start = len(client.records)
    await client.get("attach", session=session)
    assert await client.until("tool_request", start) == request
    await client.get("tool_result", requestId=request["id"], content="found", session=session)
    await client.until("agent_settled", start)


async def test_a_channel_for_one_request_cannot_lend_tools(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    call = Call(host, LOCAL_USER, "http")
    assert (await call.hello(session=await opened(host))).success
    await call.send(json.dumps({"type": "set_tools", "tools": [LOOKUP]}).encode())
    assert (await call.answer()).error.startswith("Tools need a connection that stays open")
    await call.close()


async def test_scopes_and_limits_hold_for_tools(tmp_path: Path) -> None:
    host = make_host(tmp_path, tools=["read"])
    session = await opened(host)
    watcher = Client(host, Access("guest", "watch", None))
    await watcher.hello(session=session)
    assert (await watcher.ask("set_tools", tools=[LOOKUP]))["error"] == "set_tools needs the scope drive."
    assert [tool["name"] for tool in (await watcher.get("get_tools"))["tools"] if tool["active"]] == ["read"]
    driver = await bound(host, session)
    refused = await driver.ask("set_active_tools", names=["read", "bash"])
    assert refused["error"] == "names: this host does not offer bash"
    await driver.get("set_tools", tools=[LOOKUP])
    await driver.get("set_active_tools", names=["lookup"])
