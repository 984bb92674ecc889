"""What clients in use do and do not do, although the protocol is clear."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from support.acp_peer import EVERYTHING, Failure, Peer, memory_peer
from support.rpc_process import Json
from support.virtual_clock import Clock, played
from tau.acp.requests import Capabilities, capabilities_of
from tau.mcp.elicitation import parse_form
from tau.mcp.elicitation_request import checked_content
from tau.mcp.messages import ServerProfile

PAGE = Path(__file__).parents[2] / "docs" / "acp.md"
OLD: Json = {}  # the capabilities of a client without notices


def tool(name: str, id: str = "call_1", **arguments: Any) -> Json:
    return {"blocks": [{"tool": name, "arguments": arguments, "id": id}]}


def lua_value(text: str) -> Any:
    """A table without functions, as `vim.json.encode` writes it: an empty one is a list."""
    text = re.sub(r"(\w+)\s*=\s*", r'"\1": ', text)
    for _ in range(text.count("{")):
        text = re.sub(r"\{\s*\}", "[]", text)
        text = re.sub(r",(\s*\})", r"\1", text)
    text = re.sub(r'\{(\s*"[^"]*"\s*(?:,\s*"[^"]*"\s*)*)\}', r"[\1]", text)
    return json.loads(text)


def commands_of_the_page() -> Iterator[list[str]]:
    """Every command that the page gives to an editor."""
    page = PAGE.read_text()
    for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL):
        for server in json.loads(block)["agent_servers"].values():
            yield [server["command"].rpartition("/")[2], *server["args"]]
    lua = "\n".join(re.findall(r"```lua\n(.*?)```", page, re.DOTALL))
    yield lua_value(re.findall(r"commands = (\{.*\}),\n", lua)[0])["default"]
    command, args = re.findall(r'command = "(\w+)", args = (\{.*?\})', lua)[0]
    yield [command, *lua_value(args)]
    command, args = re.findall(r""":command "(\w+)" :command-params '\((.*?)\)""", page)[0]
    yield [command, *re.findall(r'"(.*?)"', args)]
    yield re.findall(r'stdio-to-ws "(.*?)"', page)[0].split()


def test_every_command_of_the_page_starts_this_front_end() -> None:
    commands = list(commands_of_the_page())
    assert len(commands) == 6
    assert commands == [["tau", "acp"]] * 6


def test_the_lines_of_the_page_for_codecompanion_open_a_session_and_run_a_prompt(tmp_path: Path) -> None:
    page = PAGE.read_text()
    parameters = lua_value(re.findall(r"parameters = (\{.*?\n {10}\})", page, re.DOTALL)[0])
    defaults = lua_value(re.findall(r"defaults = (\{.*?\}),\n", page)[0])
    assert parameters["clientCapabilities"] == [] and defaults["mcpServers"] == []

    async def main() -> None:
        async with memory_peer(tmp_path, {"text": "ok"}) as peer:
            assert (await peer.call("initialize", **parameters))["protocolVersion"] == 1
            opened = await peer.call("session/new", cwd=str(tmp_path), mcpServers=defaults["mcpServers"], _meta=[])
            assert await peer.prompt(opened["sessionId"], _meta=[]) == "end_turn"
            listing = peer.request("session/list")
            listing["params"] = []
            await peer.send(listing)
            assert len((await peer.response(listing))["sessions"]) == 1

    asyncio.run(main())


def test_an_empty_list_is_an_empty_object_where_one_is_expected() -> None:
    known = {"session": {"notices": [], "configOptions": {"boolean": []}}, "elicitation": {"form": []}, "auth": []}
    assert capabilities_of(known) == Capabilities(notices=True, boolean_options=True, form=True)
    assert ServerProfile("legacy", "1", capabilities={"tools": []}).has("tools")
    assert not ServerProfile("legacy", "1", capabilities={"tools": [1]}).has("tools")
    form = parse_form({"message": "Who?", "requestedSchema": {"properties": {"name": {"type": "string"}}}})
    assert form is not None
    assert checked_content(form, []) == {} and checked_content(form, [1]) is None


@pytest.mark.parametrize("field", ["clientCapabilities", "clientInfo"])
def test_a_list_that_is_not_empty_is_still_no_object(tmp_path: Path, field: str) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path) as peer:
            with pytest.raises(Failure, match=f"{field}: expected object"):
                await peer.call("initialize", protocolVersion=1, **{field: [1]})

    asyncio.run(main())


def test_models_are_one_flat_list_with_their_providers_in_the_names(tmp_path: Path) -> None:
    def provider(*ids: str) -> Json:
        models = [{"id": id, "name": id.upper()} for id in ids]
        return {"api": "openai-completions", "baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": models}

    (tmp_path / "agent").mkdir()
    models = {"providers": {"one": provider("a", "b"), "two": provider("a")}}
    (tmp_path / "agent" / "models.json").write_text(json.dumps(models))

    async def main() -> None:
        async with memory_peer(tmp_path, model="two/a") as peer:
            await peer.initialize()
            result = await peer.call("session/new", cwd=str(tmp_path), mcpServers=[])
            (model,) = [one for one in result["configOptions"] if one["id"] == "model"]
            listed = {one["value"]: one["name"] for one in model["options"]}
            assert listed == {"one/a": "one: A", "one/b": "one: B", "two/a": "two: A"}
            assert model["currentValue"] == "two/a"

    asyncio.run(main())


@pytest.mark.parametrize(
    "arguments", [{"command": "touch yes"}, ['{"command": "touch', ' yes"}']], ids=["whole", "cut"]
)
def test_a_client_that_keeps_the_first_title_of_a_call_shows_what_runs(tmp_path: Path, arguments: Any) -> None:
    async def main() -> None:
        call = {"blocks": [{"tool": "bash", "arguments": arguments, "id": "call_1"}]}
        async with memory_peer(tmp_path, call, {"text": "ok"}, args=["--permissions", "ask"]) as peer:
            await peer.initialize(OLD)
            session = await peer.new(tmp_path / "work")
            request = peer.prompt_request(session)
            await peer.send(request)
            asked = await peer.until(lambda one: one.get("method") == "session/request_permission")
            first, *_ = peer.updates("tool_call")
            for shown in (first, asked["params"]["toolCall"]):
                assert (shown["title"], shown["rawInput"]) == ("touch yes", {"command": "touch yes"})
            await peer.reply(asked, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
            assert (await peer.response(request))["stopReason"] == "end_turn"

    asyncio.run(main())


def test_a_call_whose_arguments_take_long_is_announced_after_a_second(tmp_path: Path) -> None:
    async def story(clock: Clock) -> None:
        cut = {"blocks": [{"tool": "bash", "arguments": ['{"comm', 'and"'], "id": "call_1"}], "hangAfter": 1}
        async with memory_peer(tmp_path, cut) as peer:
            await peer.initialize(OLD)
            session = await peer.new(tmp_path / "work")
            request = peer.prompt_request(session)
            await peer.send(request)
            waiting = asyncio.create_task(peer.update("tool_call", title="bash", status="pending"))
            while not waiting.done():
                await peer.call("session/list", cwd="/nowhere")
                clock.let_pass(0.5)
            await waiting
            await peer.notify("session/cancel", sessionId=session)
            assert (await peer.response(request))["stopReason"] == "cancelled"
            assert peer.calls()["call_1"]["status"] == "failed"

    played(story)


class Refusing(BaseHTTPRequestHandler):
    """A provider that refuses every request, with a page of JSON."""

    def do_POST(self) -> None:
        body = b'{"error":{"message":"the parameter x is wrong","type":"invalid_request_error","code":null}}'
        self.send_response(400)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


def test_a_refused_request_is_a_sentence_that_every_client_shows(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    Thread(target=server.serve_forever, daemon=True).start()
    lab = {"api": "openai-completions", "baseUrl": f"http://127.0.0.1:{server.server_port}/v1", "apiKey": "k"}
    (tmp_path / "agent").mkdir()
    models = {"providers": {"lab": {**lab, "models": [{"id": "m"}]}}}
    (tmp_path / "agent" / "models.json").write_text(json.dumps(models))

    async def main() -> None:
        async with memory_peer(tmp_path, model="lab/m") as peer:
            await peer.initialize(OLD)
            session = await peer.new(tmp_path / "work")
            with pytest.raises(Failure) as failed:
                await peer.prompt(session)
            sentence = "lab refused the request (400): the parameter x is wrong."
            assert failed.value.message == failed.value.data["details"] == sentence
            assert failed.value.data["status"] == 400
            assert failed.value.data["response"].startswith('400 {"error":')

    try:
        asyncio.run(main())
    finally:
        server.shutdown()
        server.server_close()


def test_every_error_has_details_because_some_clients_show_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path, {"error": {"message": "broken"}}, settings=NO_RETRY) as peer:
            await peer.initialize(OLD)
            session = await peer.new(tmp_path / "work")
            requests: list[tuple[str, Json]] = [
                ("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}),
                ("session/prompt", {"sessionId": session, "prompt": []}),
                ("session/new", {"cwd": "relative", "mcpServers": []}),
                ("session/load", {"sessionId": "none", "cwd": str(tmp_path), "mcpServers": []}),
                ("session/set_mode", {"sessionId": session, "modeId": "x"}),
                ("session/close", {"sessionId": "none"}),
            ]
            for method, params in requests:
                with pytest.raises(Failure) as failed:
                    await peer.call(method, **params)
                assert failed.value.data["details"] == failed.value.message, method

    asyncio.run(main())


NO_RETRY = {"retry": {"enabled": False}}


def broken(name: str = "gone") -> Json:
    return {"name": name, "command": "/nowhere/server", "args": [], "env": []}


@pytest.mark.process
def test_a_server_that_does_not_start_is_told_in_the_first_prompt_to_a_client_without_notices(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path, {"text": "ok"}) as peer:
            await peer.initialize(OLD)
            opened = await peer.call("session/new", cwd=str(tmp_path), mcpServers=[broken()])
            session = opened["sessionId"]
            await peer.update("available_commands_update")  # the servers have been tried
            assert peer.updates("agent_thought_chunk") == []
            assert await peer.prompt(session) == "end_turn"
            (told,) = peer.updates("agent_thought_chunk")
            assert "The MCP server gone failed." in told["content"]["text"]
            assert await peer.prompt(session) == "end_turn"
            assert len(peer.updates("agent_thought_chunk")) == 1
            assert peer.text() == "okok"

    asyncio.run(main())


async def loaded(peer: Peer, session: str, folder: Path) -> dict[str, Any]:
    result = await peer.call("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
    return {one["id"]: one["currentValue"] for one in result["configOptions"]}


def test_a_session_without_a_prompt_is_loaded_by_another_process_with_its_choices(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    sessions: list[str] = []

    async def first() -> None:
        async with memory_peer(tmp_path) as peer:
            await peer.initialize(EVERYTHING)
            sessions.append(await peer.new(work))
            await peer.call("session/set_mode", sessionId=sessions[0], modeId="ask")
            option: Json = {"configId": "compaction", "value": False}
            await peer.call("session/set_config_option", sessionId=sessions[0], **option)

    async def second() -> None:
        async with memory_peer(tmp_path, {"text": "ok"}) as peer:
            await peer.initialize(EVERYTHING)
            assert (await peer.call("session/list"))["sessions"] == []
            assert not list((tmp_path / "agent").rglob("*.jsonl"))  # nothing for --continue and other programs
            choices = await loaded(peer, sessions[0], work)
            assert (choices["mode"], choices["compaction"]) == ("ask", False)
            assert await peer.prompt(sessions[0]) == "end_turn"
            assert [one["sessionId"] for one in (await peer.call("session/list"))["sessions"]] == sessions
        assert not list((tmp_path / "agent" / "acp").iterdir())  # it has a file now

    async def third() -> None:
        async with memory_peer(tmp_path) as peer:
            await peer.initialize(EVERYTHING)
            await loaded(peer, sessions[0], work)
            assert peer.updates("user_message_chunk")
            await peer.call("session/delete", sessionId=sessions[0])
            with pytest.raises(Failure, match="There is no session"):
                await loaded(peer, sessions[0], work)

    for story in (first, second, third):
        asyncio.run(story())


def test_a_mode_that_asks_less_than_the_flag_is_not_brought_back(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()

    async def main(*flags: str) -> Any:
        async with memory_peer(tmp_path, args=flags) as peer:
            await peer.initialize(EVERYTHING)
            if not flags:
                return await peer.new(work)
            return (await loaded(peer, session, work))["mode"]

    session = asyncio.run(main())
    assert asyncio.run(main("--permissions", "ask")) == "ask"


def test_only_the_newest_sessions_without_a_prompt_are_kept(tmp_path: Path) -> None:
    from tau.store.empty_sessions import MAX_KEPT, EmptySessions

    kept = EmptySessions(tmp_path)
    for at in range(MAX_KEPT + 5):
        kept.write(f"{at:04}", {"mode": "ask"})
    assert len(list((tmp_path / "acp").iterdir())) == MAX_KEPT
    assert kept.read("0004") is None and kept.read("0005") == {"mode": "ask"}
    (tmp_path / "acp" / "0005.json").write_text('{"mode": "a')
    assert kept.read("0005") == {}


def test_commands_are_sent_again_after_the_first_prompt(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path, {"text": "ok"}) as peer:
            await peer.initialize(OLD)
            session = await peer.new(tmp_path / "work")
            first = await peer.update("available_commands_update")
            before = len(peer.received)
            assert await peer.prompt(session) == "end_turn"
            assert await peer.update("available_commands_update", before) == first

    asyncio.run(main())
