"""`tau mcp serve`: the agent as tools, built-in tools, sessions as resources, for clients of both eras."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.mcp_serving import Json, McpClient, served, text, tool
from tau.errors import UsageError
from tau.mcp_server.agents import Agents, AgentSession
from tau.mcp_server.features import checked_names

OK: Json = {"text": "ok"}
HANGS: Json = {"blocks": [{"text": ["for ", "ever"]}], "hangAfter": 1}
both = pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])


@both
def test_the_agent_works_on_a_prompt_and_goes_on_with_the_session(tmp_path: Path, modern: bool) -> None:
    async def story(client: McpClient) -> None:
        names = [tool["name"] for tool in (await client.get("tools/list"))["tools"]]
        assert names == ["tau", "tau_reply"]
        first = await client.call("tau", prompt="go", token="t")
        details = first["structuredContent"]
        assert (text(first), first.get("isError")) == ("Written.", None)
        assert {name: details[name] for name in ("stopReason", "cost")} == {"stopReason": "stop", "cost": 0.0}
        assert details["usage"]["input"] == 20
        assert (tmp_path / "work" / "x").read_text() == "y"
        steps = [note["params"] for note in client.notifications if note["method"] == "notifications/progress"]
        assert steps == [{"progressToken": "t", "progress": 1, "message": 'write {"path":"x","content":"y"}'}]
        second = await client.call("tau_reply", sessionId=details["sessionId"], prompt="and?")
        assert (text(second), second["structuredContent"]["sessionId"]) == ("More.", details["sessionId"])
        if modern:
            assert first["resultType"] == "complete"
            assert first["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "tau"

    served(
        tmp_path, story, tool("write", path="x", content="y"), {"text": "Written."}, {"text": "More."}, modern=modern
    )


def test_a_result_can_have_a_schema(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def story(client: McpClient) -> None:
        result = await client.call("tau", prompt="count", outputSchema=schema)
        assert result["structuredContent"]["output"] == {"n": 3}
        assert json.loads(text(result)) == {"n": 3}
        wrong = await client.call("tau", prompt="count", outputSchema={"type": "nothing"})
        assert wrong["isError"] and text(wrong).startswith("outputSchema: ")

    served(tmp_path, story, tool("return_result", n=3))


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("tau", {}, "prompt: must have required property 'prompt'"),
        ("tau", {"prompt": "x", "cwd": "nowhere"}, "cwd: there is no folder "),
        ("tau", {"prompt": "x", "cwd": "a\0b"}, "cwd: not a path: "),
        ("tau", {"prompt": "x", "model": "acme/rocket"}, 'Model "acme/rocket" not found'),
        ("tau_reply", {"prompt": "x", "sessionId": "0000"}, "No session found matching '0000'"),
        ("tau_reply", {"prompt": "x", "sessionId": "../../x.jsonl"}, "sessionId: there is no session"),
    ],
)
def test_what_cannot_be_done_is_an_error_result(tmp_path: Path, name: str, arguments: Json, error: str) -> None:
    async def story(client: McpClient) -> None:
        result = await client.call(name, **arguments)
        assert result["isError"] is True
        assert text(result).startswith(error)

    served(tmp_path, story)


def test_a_failed_answer_is_an_error_result_with_its_session(tmp_path: Path) -> None:
    async def story(client: McpClient) -> None:
        result = await client.call("tau", prompt="go")
        assert (result["isError"], text(result)) == (True, "400 no")
        assert result["structuredContent"]["stopReason"] == "error"

    served(tmp_path, story, {"error": {"message": "400 no"}})


@pytest.mark.promise("M19")
@both
def test_a_cancelled_call_is_aborted_and_not_answered(tmp_path: Path, modern: bool) -> None:
    async def story(client: McpClient) -> None:
        id, response = await client.send("tools/call", {"name": "tau", "arguments": {"prompt": "go"}}, token="t")
        await client.until(lambda: bool(client.notifications))
        await client.cancel(id)
        result = await client.call("bash", command="cat pid; kill -0 $(cat pid) 2>/dev/null || echo gone")
        assert "gone" in text(result)
        assert not response.done()

    hanging = tool("bash", command="echo $$ > pid; sleep 600")
    served(tmp_path, story, hanging, modern=modern, tools=("tau", "bash"))


def test_a_session_with_a_waiting_prompt_is_busy_between_two_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it could be closed in that moment, as the oldest of too many."""
    busy: list[bool] = []
    monkeypatch.setattr(Agents, "_keep", watched(Agents._keep, busy))

    async def story(client: McpClient) -> None:
        session = (await client.call("tau", prompt="one"))["structuredContent"]["sessionId"]
        replies = [client.call("tau_reply", sessionId=session, prompt=prompt) for prompt in ("two", "three")]
        assert [text(reply) for reply in await asyncio.gather(*replies)] == ["ok", "ok"]

    served(tmp_path, story, OK, OK, OK)
    assert busy == [False, False, True, False]  # opened; after each prompt


def watched(keep: Callable[[Agents, AgentSession], None], busy: list[bool]) -> Callable[[Agents, AgentSession], None]:
    def watch(agents: Agents, session: AgentSession) -> None:
        busy.append(session.busy)
        keep(agents, session)

    return watch


def test_many_calls_run_side_by_side(tmp_path: Path) -> None:
    async def story(client: McpClient) -> None:
        calls = [client.call("tau", prompt=f"number {at}") for at in range(20)]
        results = await asyncio.gather(*calls)
        assert [text(result) for result in results] == ["ok"] * 20
        assert len({result["structuredContent"]["sessionId"] for result in results}) == 20

    served(tmp_path, story)


def test_two_replies_to_one_session_run_one_after_the_other(tmp_path: Path) -> None:
    async def story(client: McpClient) -> None:
        id = (await client.call("tau", prompt="go"))["structuredContent"]["sessionId"]
        replies = [client.call("tau_reply", sessionId=id, prompt="on") for _ in range(2)]
        assert [text(result) for result in await asyncio.gather(*replies)] == ["ok", "ok"]

    served(tmp_path, story)


def accept(value: Any) -> Any:
    return lambda form: {"action": "accept", "content": {"answer": value}}


@both
@pytest.mark.parametrize(
    ("answer", "ran"),
    [(accept("Allow once"), True), (accept("Deny"), False), (lambda form: {"action": "decline"}, False), (None, False)],
    ids=["allowed", "denied", "declined", "nobody"],
)
def test_permissions_are_asked_of_the_clients_user(tmp_path: Path, modern: bool, answer: Any, ran: bool) -> None:
    async def story(client: McpClient) -> None:
        result = await client.call("tau", prompt="go")
        assert text(result) == "ok"
        assert (tmp_path / "work" / "x").exists() is ran
        direct = await client.call("bash", command="touch y")
        assert direct.get("isError", False) is not ran
        assert (tmp_path / "work" / "y").exists() is ran
        if answer is not None:
            form = client.questions[0]["params"]
            assert "touch x" in form["message"]
            assert form["requestedSchema"]["properties"]["answer"]["enum"][0] == "Allow once"

    served(
        tmp_path,
        story,
        tool("bash", command="touch x"),
        OK,
        modern=modern,
        answer=answer,
        tools=("tau", "bash"),
        permissions="ask",
    )


def test_a_question_that_is_over_is_taken_back(tmp_path: Path) -> None:
    async def story(client: McpClient) -> None:
        id, _ = await client.send("tools/call", {"name": "tau", "arguments": {"prompt": "go"}})
        await client.until(lambda: bool(client.questions))
        await client.cancel(id)
        await client.until(lambda: bool(client.notifications))
        cancelled = {"requestId": client.questions[0]["id"]}
        assert client.notifications[-1]["params"] == cancelled

    served(tmp_path, story, tool("bash", command="touch x"), OK, answer=lambda form: {}, permissions="ask")


def test_built_in_tools_are_offered_by_name(tmp_path: Path) -> None:
    async def story(client: McpClient) -> None:
        (tmp_path / "work" / "a.txt").write_text("hello\n")
        listed = {tool["name"]: tool for tool in (await client.get("tools/list"))["tools"]}
        assert list(listed) == ["read", "bash"]
        assert listed["read"]["annotations"] == {"readOnlyHint": True}
        assert listed["read"]["inputSchema"]["required"] == ["path"]
        assert text(await client.call("read", path="a.txt")) == "hello\n"
        failed = await client.call("bash", command="exit 3")
        assert failed["isError"] and "exited with code 3" in text(failed)
        wrong = await client.call("read")
        assert wrong["isError"] and "required property 'path'" in text(wrong)
        unknown = await client.request("tools/call", {"name": "tau", "arguments": {"prompt": "x"}})
        assert unknown["error"]["code"] == -32602

    served(tmp_path, story, tools=("read", "bash"))
    with pytest.raises(UsageError, match='there is no tool "rm"'):
        checked_names(["read", "rm"])


@both
def test_sessions_of_the_folder_are_resources(tmp_path: Path, modern: bool) -> None:
    async def story(client: McpClient) -> None:
        assert (await client.get("resources/list"))["resources"] == []
        done = await client.call("tau", prompt="Tell me.")
        uri = f"tau://session/{done['structuredContent']['sessionId']}"
        (listed,) = (await client.get("resources/list"))["resources"]
        assert listed == {"uri": uri, "name": "Tell me.", "mimeType": "text/plain"}
        (content,) = (await client.get("resources/read", {"uri": uri}))["contents"]
        assert content["text"] == "# User\n\nTell me.\n\n# Assistant\n\nIt is so.\n"
        for wrong in ("tau://session/../x", "file:///etc/passwd", f"{uri}0"):
            missing = await client.request("resources/read", {"uri": wrong})
            assert missing["error"]["code"] == (-32602 if modern else -32002)

    served(tmp_path, story, {"text": "It is so."}, modern=modern)


def test_input_that_ends_aborts_what_is_under_way(tmp_path: Path) -> None:
    async def story(client: McpClient) -> None:
        await client.send("tools/call", {"name": "tau", "arguments": {"prompt": "go"}})
        await client.send("tools/call", {"name": "tau", "arguments": {"prompt": "go"}})

    served(tmp_path, story, HANGS)


def test_short_requests_are_answered_although_the_input_has_ended(tmp_path: Path) -> None:
    async def story(client: McpClient) -> None:
        _, answer = await client.send("tools/list")
        client.end_input()
        assert (await answer)["result"]["tools"][0]["name"] == "ls"

    served(tmp_path, story, tools=("ls",))


@pytest.mark.promise("M17")
def test_lines_that_are_not_requests_get_errors_and_the_rest_works(tmp_path: Path) -> None:
    async def story(client: McpClient) -> None:
        lines = (b"x", b"[]", b'{"jsonrpc":"2.0","id":"a","method":"nope"}', b'{"id":1,"method":"ping"}')
        for line in (*lines, b'{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":5}}', b""):
            await client.write(line)
        await client.until(lambda: len(client.received) == 5)
        codes = {str(message["id"]): message["error"]["code"] for message in client.received}
        assert codes == {"None": -32600, "a": -32601, "1": -32600, "b": -32602}
        assert [message["error"]["code"] for message in client.received if message["id"] is None] == [-32700, -32600]
        assert await client.get("ping") == {}

    served(tmp_path, story)
