"""Replies to a session that this server has not opened yet: several at once open it once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.mcp_serving import McpClient, served, text
from tau.mcp_server import agents


def test_replies_to_a_session_of_an_earlier_server_open_it_once(tmp_path: Path) -> None:
    ids: list[str] = []

    async def started(client: McpClient) -> None:
        ids.append((await client.call("tau", prompt="go"))["structuredContent"]["sessionId"])

    async def continued(client: McpClient) -> None:
        replies = [client.call("tau_reply", sessionId=ids[0], prompt=f"on {at}") for at in range(4)]
        assert [text(result) for result in await asyncio.gather(*replies)] == ["ok"] * 4

    served(tmp_path, started)
    served(tmp_path, continued)
    files = list((tmp_path / "agent" / "sessions").rglob("*.jsonl"))
    entries = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    messages = {entry["id"]: entry for entry in entries if entry["type"] == "message"}
    # One line of conversation: every message but the first has another as its parent, and none has two children.
    parents = [entry["parentId"] for entry in messages.values() if entry["parentId"] in messages]
    assert len(messages) == 10 and len(set(parents)) == len(parents) == 9


def test_a_session_that_is_being_closed_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "MAX_OPEN_SESSIONS", 1)

    async def story(client: McpClient) -> None:
        first = (await client.call("tau", prompt="go"))["structuredContent"]["sessionId"]
        await client.call("tau", prompt="another")  # closes the first
        assert text(await client.call("tau_reply", sessionId=first, prompt="on")) == "ok"

    served(tmp_path, story)


def test_a_session_of_an_earlier_server_goes_on_in_its_own_folder(tmp_path: Path) -> None:
    other, ids = tmp_path / "other", list[str]()
    other.mkdir()

    async def started(client: McpClient) -> None:
        ids.append((await client.call("tau", prompt="go", cwd=str(other)))["structuredContent"]["sessionId"])

    async def continued(client: McpClient) -> None:
        part = await client.call("tau_reply", sessionId=ids[0][:-1], prompt="on")
        assert part["isError"] and "there is no session" in text(part)
        await client.call("tau_reply", sessionId=ids[0], prompt="on")

    write = {"blocks": [{"tool": "write", "arguments": {"path": "here", "content": "x"}, "id": "call_1"}]}
    served(tmp_path, started, roots=[other])
    served(tmp_path, continued, write, {"text": "Written."}, roots=[other])
    assert (other / "here").exists() and not (tmp_path / "work" / "here").exists()


def test_the_model_of_a_client_gets_no_folder_outside_of_the_roots(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / "link").symlink_to(tmp_path / "secret")
    ids: list[str] = []

    async def started(client: McpClient) -> None:
        for cwd in (
            str(tmp_path / "secret"),
            "../secret",
            "link",
            "~",
            "/",
            "..",
            str(tmp_path / "work" / ".." / "secret"),
        ):
            refused = await client.call("tau", prompt="go", cwd=cwd)
            assert refused["isError"] and "is not below a folder that this host was started with" in text(refused)
        for cwd in ("sub", ".", str(tmp_path / "work" / "sub")):
            assert text(await client.call("tau", prompt="go", cwd=cwd)) == "ok"

    async def elsewhere(client: McpClient) -> None:
        ids.append((await client.call("tau", prompt="go", cwd="../secret"))["structuredContent"]["sessionId"])

    async def continued(client: McpClient) -> None:
        refused = await client.call("tau_reply", sessionId=ids[0], prompt="go")
        assert refused["isError"] and text(refused).startswith(f"sessionId: {tmp_path}/secret is not below a folder")
        listed = (await client.get("resources/list"))["resources"]
        assert not [one for one in listed if ids[0] in one["uri"]]
        missing = await client.request("resources/read", {"uri": f"tau://session/{ids[0]}"})
        assert missing["error"]["message"] == "Resource not found"

    served(tmp_path, started)
    for sessions in (None, tmp_path / "sessions"):  # a folder of its own has the sessions of all projects
        ids.clear()
        served(tmp_path, elsewhere, roots=[tmp_path / "secret"], sessions=sessions)
        served(tmp_path, continued, sessions=sessions)
