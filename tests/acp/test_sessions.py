"""Sessions over ACP: open, list, load, resume, close and delete them, and their choices."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.acp_peer import EVERYTHING, Failure, Peer, memory_peer
from support.limits import no_descriptors
from support.rpc_process import Json

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""
UNKNOWN = "01a1e396-0000-7000-8000-000000000000"


def run(
    case: Callable[[Peer], Awaitable[None]],
    folder: Path,
    *answers: Json,
    capabilities: Json | None = None,
    **how: Any,
) -> None:
    async def main() -> None:
        async with memory_peer(folder, *answers, **how) as peer:
            await peer.initialize(capabilities)
            await case(peer)

    asyncio.run(main())


def tool(name: str, id: str = "call_1", **arguments: Any) -> Json:
    return {"blocks": [{"tool": name, "arguments": arguments, "id": id}]}


async def refused(peer: Peer, method: str, **params: Any) -> Failure:
    with pytest.raises(Failure) as failure:
        await peer.call(method, **params)
    return failure.value


def test_initialize_says_what_is_offered_and_is_answered_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path) as peer:
            early = await refused(peer, "session/new", cwd="/", mcpServers=[])
            assert early.code == -32600
            for version in (1, 2, 65535):
                result = await peer.call("initialize", protocolVersion=version, clientCapabilities=EVERYTHING)
                assert result["protocolVersion"] == 1
                assert result["agentCapabilities"]["sessionCapabilities"].keys() == {
                    "list",
                    "resume",
                    "close",
                    "delete",
                }
            assert [one["id"] for one in result["authMethods"]] == ["key", "setup"]
            assert result["authMethods"][1]["args"] == ["--setup"]

    asyncio.run(main())


def test_the_terminal_login_is_offered_only_to_clients_that_know_it(tmp_path: Path) -> None:
    async def methods(folder: Path, capabilities: Json) -> list[Json]:
        folder.mkdir()
        async with memory_peer(folder) as peer:
            found: list[Json] = (await peer.initialize(capabilities))["authMethods"]
            return found

    assert [one["id"] for one in asyncio.run(methods(tmp_path / "a", {}))] == ["key"]
    old = asyncio.run(methods(tmp_path / "b", {"_meta": {"terminal-auth": True}}))[1]
    assert old["_meta"]["terminal-auth"] == {"command": "tau", "args": ["acp", "--setup"], "label": old["name"]}
    assert [one["id"] for one in asyncio.run(methods(tmp_path / "c", {"auth": None}))] == ["key"]


def test_a_new_session_needs_an_absolute_folder_that_exists(tmp_path: Path) -> None:
    async def case(peer: Peer) -> None:
        for cwd in ("work", "", str(tmp_path / "nowhere"), "/\0"):
            error = await refused(peer, "session/new", cwd=cwd, mcpServers=[])
            assert error.code == -32602 and error.data["field"] == "cwd"
        error = await refused(peer, "session/new", cwd=str(tmp_path))
        assert (error.code, error.data["field"]) == (-32602, "mcpServers")

    run(case, tmp_path)


def test_nothing_is_sent_about_a_session_before_the_response_that_opens_it(tmp_path: Path) -> None:
    async def case(peer: Peer) -> None:
        request = await peer.start("session/new", cwd=str(tmp_path / "work"), mcpServers=[])
        await peer.response(request)
        await peer.update("available_commands_update")
        at = next(at for at, one in enumerate(peer.received) if one.get("id") == request["id"])
        assert not [one for one in peer.received[:at] if one.get("method") == "session/update"]

    run(case, tmp_path)


def test_each_session_works_in_its_own_folder(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    async def case(peer: Peer) -> None:
        ids = [await peer.new(tmp_path / name) for name in ("one", "two")]
        assert await asyncio.gather(*(peer.prompt(id) for id in ids)) == ["end_turn", "end_turn"]
        for id, name in zip(ids, ("one", "two"), strict=True):
            (call,) = [one for one in peer.updates("tool_call_update", id) if one.get("status") == "completed"]
            assert str(tmp_path / name) in call["content"][0]["content"]["text"]

    run(case, tmp_path, tool("bash", command="pwd"), {"text": "ok"})


def test_a_session_is_replayed_from_its_file(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("two\n")
    answers = (
        {
            "blocks": [
                {"thinking": "Hm."},
                {"text": "Editing."},
                *tool("edit", path="a.txt", oldText="two", newText="2")["blocks"],
            ]
        },
        tool("bash", "call_2", command="exit 4"),
        {"text": "done"},
    )
    ids: list[str] = []

    live: list[str] = []

    async def first(peer: Peer) -> None:
        ids.append(await peer.new(work))
        await peer.prompt(ids[0], "change it")
        live.extend(dict.fromkeys(one["messageId"] for one in peer.updates() if "messageId" in one))

    async def second(peer: Peer) -> None:
        before = len(peer.received)
        result = await peer.call("session/load", sessionId=ids[0], cwd=str(work), mcpServers=[])
        assert {one["id"] for one in result["configOptions"]} >= {"mode", "model"}
        kinds = [one["sessionUpdate"] for one in peer.updates(start=before)]
        expected = ["user_message_chunk", "agent_thought_chunk", "agent_message_chunk", "tool_call", "tool_call"]
        assert kinds[:6] == [*expected, "agent_message_chunk"]
        edit, bash = peer.updates("tool_call", start=before)
        assert edit["content"] == [{"type": "diff", "path": str(work / "a.txt"), "oldText": "two\n", "newText": "2\n"}]
        assert (edit["status"], bash["status"]) == ("completed", "failed")
        assert len({one["messageId"] for one in peer.updates() if "messageId" in one}) == 3
        replayed = dict.fromkeys(one["messageId"] for one in peer.updates() if "messageId" in one)
        assert list(replayed)[1:] == live  # the first one is the message of the user
        assert await peer.prompt(ids[0], "more") == "end_turn"

    async def third(peer: Peer) -> None:
        before = len(peer.received)
        await peer.call("session/resume", sessionId=ids[0], cwd=str(work))
        await peer.update("available_commands_update")
        assert not peer.updates("user_message_chunk", start=before)

    run(first, tmp_path, *answers)
    run(second, tmp_path, *answers)
    run(third, tmp_path, *answers)


def test_a_session_that_is_open_is_replayed_while_its_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()

    async def case(peer: Peer) -> None:
        session = await peer.new(tmp_path / "work")
        request = peer.prompt_request(session, "wait")
        await peer.send(request)
        await peer.update("tool_call_update", status="in_progress")
        await peer.call("session/load", sessionId=session, cwd=str(tmp_path / "work"), mcpServers=[])
        assert peer.updates("user_message_chunk")[0]["content"]["text"] == "wait"
        (tmp_path / "work" / "go").touch()
        assert (await peer.response(request))["stopReason"] == "end_turn"

    run(case, tmp_path, tool("bash", command="while [ ! -e go ]; do sleep .02; done"), {"text": "ok"})


def test_ids_of_calls_are_the_same_live_and_in_every_replay(tmp_path: Path) -> None:
    bash = tool("bash", command="true")

    async def case(peer: Peer) -> None:
        session = await peer.new(tmp_path / "work")
        await peer.prompt(session)
        live = list(peer.calls())
        assert live == ["call_1", "call_1#2"]
        for _ in range(2):
            start = len(peer.received)
            await peer.call("session/load", sessionId=session, cwd=str(tmp_path / "work"), mcpServers=[])
            assert list(peer.calls(start)) == live
        start = len(peer.received)
        await peer.prompt(session)
        assert list(peer.calls(start)) == ["call_1#3"]

    run(case, tmp_path, bash, bash, {"text": "ok"}, bash, {"text": "ok"})


def test_sessions_are_listed_in_pages_newest_first(tmp_path: Path) -> None:
    work = tmp_path / "work"

    async def case(peer: Peer) -> None:
        ids = [await peer.new(work) for _ in range(3)]
        for id in ids:
            await peer.prompt(id, f"prompt of {id} " + "x" * 100)
        await peer.prompt(ids[1], "/name second")
        sessions = (await peer.call("session/list", cwd=str(work)))["sessions"]
        assert {one["sessionId"] for one in sessions} == set(ids)
        assert [one["title"] for one in sessions if one["sessionId"] == ids[1]] == ["second"]
        assert all(one["cwd"] == str(work) and one["updatedAt"].endswith("Z") for one in sessions)
        assert all(len(one["title"]) <= 80 for one in sessions)
        assert len((await peer.call("session/list"))["sessions"]) == 3
        assert (await peer.call("session/list", cwd="/nowhere"))["sessions"] == []
        folder = next((tmp_path / "agent" / "sessions").iterdir())
        original = next(folder.glob("*.jsonl")).read_text()
        for at in range(58):
            (folder / f"copy_{at:02}.jsonl").write_text(original)
        first = await peer.call("session/list", cwd=str(work))
        second = await peer.call("session/list", cwd=str(work), cursor=first["nextCursor"])
        assert (len(first["sessions"]), len(second["sessions"])) == (50, 11)
        assert "nextCursor" not in second
        times = [one["updatedAt"] for one in [*first["sessions"], *second["sessions"]]]
        assert times == sorted(times, reverse=True)
        for cursor in ("x", "AAAA", ""):
            assert (await refused(peer, "session/list", cursor=cursor)).code == -32602

    run(case, tmp_path)


def test_a_closed_session_is_free_and_its_prompts_are_cancelled(tmp_path: Path) -> None:
    async def case(peer: Peer) -> None:
        session, other = await peer.new(tmp_path / "work"), await peer.new(tmp_path / "work")
        requests = [peer.prompt_request(session), peer.prompt_request(session)]
        await peer.send(*requests)
        await peer.update("agent_message_chunk")
        await peer.call("session/close", sessionId=session)
        for request in requests:
            assert (await peer.response(request))["stopReason"] == "cancelled"
        for method in ("session/close", "session/prompt"):
            error = await refused(peer, method, sessionId=session, prompt=[{"type": "text", "text": "x"}])
            assert error.code == -32002
        assert (await peer.call("session/set_mode", sessionId=other, modeId="ask")) == {}
        await peer.call("session/resume", sessionId=session, cwd=str(tmp_path / "work"))

    run(case, tmp_path, {"blocks": [{"text": ["one", "two"]}], "hangAfter": 1})


@pytest.mark.promise("K14")
def test_unknown_sessions_are_errors_and_deleting_one_is_not(tmp_path: Path) -> None:
    async def case(peer: Peer) -> None:
        work = str(tmp_path / "work")
        for id in (UNKNOWN, UNKNOWN[:8], "../../etc/passwd", "", "a.jsonl"):
            assert (await refused(peer, "session/load", sessionId=id, cwd=work, mcpServers=[])).code == -32002
            assert (await peer.call("session/delete", sessionId=id)) == {}
        session = await peer.new(tmp_path / "work")
        await peer.prompt(session)
        assert list((tmp_path / "agent" / "sessions").rglob("*.jsonl"))
        await peer.call("session/delete", sessionId=session)
        assert not list((tmp_path / "agent" / "sessions").rglob("*.jsonl"))
        assert (await refused(peer, "session/load", sessionId=session, cwd=work, mcpServers=[])).code == -32002

    run(case, tmp_path)


def test_without_a_descriptor_no_session_is_taken_for_missing(tmp_path: Path) -> None:
    work = tmp_path / "work"

    async def case(peer: Peer) -> None:
        session = await peer.new(work)
        await peer.prompt(session)
        await peer.call("session/close", sessionId=session)
        requests: tuple[tuple[str, Json], ...] = (
            ("session/list", {}),
            ("session/load", {"sessionId": session, "cwd": str(work), "mcpServers": []}),
            ("session/delete", {"sessionId": session}),
        )
        assert len((await peer.call("session/list"))["sessions"]) == 1  # loads what it needs
        for method, params in requests:
            with no_descriptors():
                error = await refused(peer, method, **params)
            assert (error.code, error.message) == (-32603, "Too many open files. Try again later."), method
        assert len((await peer.call("session/list"))["sessions"]) == 1

    run(case, tmp_path)


@pytest.mark.promise("K15")
def test_a_session_that_another_process_has_open_is_neither_loaded_nor_deleted(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    work = tmp_path / "work"

    async def main() -> None:
        async with memory_peer(tmp_path) as peer:
            await peer.initialize()
            session = await peer.new(work)
            await peer.prompt(session)
            file = next((tmp_path / "agent" / "sessions").rglob("*.jsonl"))
            await peer.call("session/close", sessionId=session)
            holder = await asyncio.create_subprocess_exec(
                *(
                    "python3",
                    "-c",
                    HOLDER,
                    str(file),
                ),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert holder.stdout is not None and holder.stdin is not None
            await holder.stdout.readline()
            error = await refused(peer, "session/load", sessionId=session, cwd=str(work), mcpServers=[])
            assert error.code == -32603
            assert re.fullmatch(
                r"This session is in use by process \d+\. Close it there and load it again, or begin a new session\.",
                error.message,
            )
            assert (await refused(peer, "session/delete", sessionId=session)).code == -32603
            holder.stdin.close()
            await holder.wait()
            await peer.call("session/resume", sessionId=session, cwd=str(work))

    asyncio.run(main())


@pytest.mark.promise("K14")
def test_choices_are_complete_and_only_offered_values_are_taken(tmp_path: Path) -> None:
    async def case(peer: Peer) -> None:
        result = await peer.call("session/new", cwd=str(tmp_path / "work"), mcpServers=[])
        session, options = result["sessionId"], {one["id"]: one for one in result["configOptions"]}
        assert [*options] == ["mode", "model", "compaction"] or [*options] == [
            "mode",
            "model",
            "thinking",
            "compaction",
        ]
        assert result["modes"]["currentModeId"] == options["mode"]["currentValue"] == "auto"
        model = options["model"]["currentValue"]
        values = [one["value"] for one in options["model"]["options"]]
        assert model in values and all("/" in value for value in values)
        for id, value in (("speed", "1"), ("mode", "yolo"), ("model", "a/b"), ("mode", True), ("compaction", "yes")):
            error = await refused(peer, "session/set_config_option", sessionId=session, configId=id, value=value)
            assert error.code == -32602, id
        before = len(peer.received)
        result = await peer.call("session/set_config_option", sessionId=session, configId="mode", value="ask")
        assert {one["id"]: one["currentValue"] for one in result["configOptions"]}["mode"] == "ask"
        assert (await peer.update("current_mode_update", before))["currentModeId"] == "ask"
        await peer.call("session/set_mode", sessionId=session, modeId="auto")
        update = await peer.update("config_option_update", before)
        assert update["configOptions"][0]["currentValue"] == "auto"
        result = await peer.call("session/set_config_option", sessionId=session, configId="compaction", value=False)
        assert result["configOptions"][-1]["currentValue"] is False
        assert (await refused(peer, "session/set_mode", sessionId=session, modeId="x")).code == -32602

    run(case, tmp_path)


def test_a_model_with_thinking_offers_its_levels_and_choices_stay_in_the_session(tmp_path: Path) -> None:
    models = {
        "providers": {
            "lab": {
                "api": "openai-completions",
                "baseUrl": "http://127.0.0.1:9/v1",
                "apiKey": "k",
                "models": [{"id": "small"}, {"id": "large", "reasoning": True}],
            }
        }
    }
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "models.json").write_text(__import__("json").dumps(models))

    async def case(peer: Peer) -> None:
        result = await peer.call("session/new", cwd=str(tmp_path / "work"), mcpServers=[])
        session = result["sessionId"]
        assert "thinking" not in [one["id"] for one in result["configOptions"]]
        result = await peer.call("session/set_config_option", sessionId=session, configId="model", value="lab/large")
        thinking = next(one for one in result["configOptions"] if one["id"] == "thinking")
        assert thinking["category"] == "thought_level"
        result = await peer.call("session/set_config_option", sessionId=session, configId="thinking", value="low")
        assert next(one for one in result["configOptions"] if one["id"] == "thinking")["currentValue"] == "low"
        error = await refused(peer, "session/set_config_option", sessionId=session, configId="thinking", value="wild")
        assert error.code == -32602
        assert not (tmp_path / "agent" / "settings.json").exists()

    run(case, tmp_path, model="lab/small")


def test_without_a_key_a_session_opens_and_a_prompt_says_how_to_set_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path, model="anthropic/claude-sonnet-4-5") as peer:
            await peer.initialize()
            session = await peer.new(tmp_path / "work")
            with pytest.raises(Failure) as failed:
                await peer.prompt(session)
            assert failed.value.code == -32000
            assert "ANTHROPIC_API_KEY" in failed.value.message
            assert failed.value.data["authMethods"][0]["id"] == "key"
            error = await refused(peer, "authenticate", methodId="key")
            assert error.code == -32000
            assert (await refused(peer, "authenticate", methodId="magic")).code == -32602
            (tmp_path / "agent" / "auth.json").write_text('{"anthropic": {"type": "api_key", "key": "sk-x"}}')
            assert await peer.call("authenticate", methodId="key") == {}

    asyncio.run(main())
