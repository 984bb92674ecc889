"""Host tools over RPC: set_tools, tool_request, tool_progress, tool_result, tool_request_cancelled, get_tools."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from long import fuzz_host_tools
from support.rpc_agent import Agent
from support.rpc_process import Json, kinds, of, said, scripted, surroundings, text
from tau.records import commands as c
from tau.records import events as e
from tau.wire import dialects

OK: Json = {"text": "ok"}
LOOKUP: Json = {
    "name": "lookup_ticket",
    "description": "Look a ticket up.",
    "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
}
EMPTY: Json = {"type": "object", "properties": {}}


def named(name: str, **more: Any) -> Json:
    return {"name": name, "description": name, "parameters": EMPTY, **more}


def call(name: str = "lookup_ticket", count: int = 1, **arguments: Any) -> Json:
    return {"blocks": [{"tool": name, "arguments": arguments, "id": f"call_{at}"} for at in range(1, count + 1)]}


def lend(agent: Agent, *tools: Json) -> None:
    assert agent.get("set_tools", tools=list(tools)) == {"tools": [tool["name"] for tool in tools]}


def request(agent: Agent) -> Json:
    return agent.until("tool_request")[-1]


def finish(agent: Agent, to: Json, content: Any = "Open.", **more: Any) -> Json:
    return agent.ask("tool_result", requestId=to["id"], content=content, **more)


def result(events: list[Json]) -> Json:
    (message,) = said(events, "toolResult")
    return message


def test_a_call_goes_to_the_client_and_its_result_to_the_model(tmp_path: Path) -> None:
    with Agent(tmp_path, call(id="ABC-1"), OK) as agent:
        lend(agent, {**LOOKUP, "timeoutMs": 30000})
        agent.send("prompt", message="go")
        before = agent.until("tool_request")
        asked = before[-1]
        assert asked == {
            "type": "tool_request",
            "id": asked["id"],
            "toolCallId": "call_1",
            "toolName": "lookup_ticket",
            "arguments": {"id": "ABC-1"},
            "timeout": 30000,
        }
        assert list(asked) == ["type", "id", "toolCallId", "toolName", "arguments", "timeout"]
        assert before[-2]["type"] == "tool_execution_start"
        assert agent.ask("tool_progress", requestId=asked["id"], content="Asking.")["success"]
        update = agent.until("tool_execution_update")[-1]
        assert update["partialResult"]["content"] == [{"type": "text", "text": "Asking."}]
        assert finish(agent, asked, [{"type": "text", "text": "Open."}], details={"n": 1})["success"]
        events = agent.settled()
        end = of("tool_execution_end", events)[0]
        assert (end["isError"], end["result"]) == (
            False,
            {"content": [{"type": "text", "text": "Open."}], "details": {"n": 1}},
        )
        assert result(events)["details"] == {"n": 1}


def test_an_error_result_keeps_its_content_and_details(tmp_path: Path) -> None:
    with Agent(tmp_path, call(id="x"), OK) as agent:
        lend(agent, LOOKUP)
        agent.send("prompt", message="go")
        finish(agent, request(agent), "No such ticket.", isError=True, details={"code": 404})
        message = result(agent.settled())
        assert (message["isError"], text(message), message["details"]) == (True, "No such ticket.", {"code": 404})


@pytest.mark.parametrize(
    ("tools", "error"),
    [
        ([named("a b")], "tools[0].name: 'a b' does not match [A-Za-z0-9_-]{1,64}"),
        ([named("a"), named("x" * 65)], "tools[1].name: "),
        ([named("a"), named("a")], "tools[1].name: there are two tools named a"),
        ([named("bash")], "tools[0].name: bash is a built-in tool; set `replaces` to put this one in its place"),
        ([named("a"), {"name": "b", "description": "", "parameters": {"type": "string"}}], "tools[1].parameters: "),
        ([{**named("a"), "parameters": {"type": "object", "properties": {"x": 1}}}], "tools[0].parameters: /prop"),
        ([{**named("a"), "parameters": []}], "tools[0].parameters: expected object, got array"),
        ([{"name": "a", "parameters": EMPTY}], "tools[0].description: missing"),
        ([named("a", timeoutMs=0)], "tools[0].timeoutMs: must be between 1 and 2147483647"),
        ([named("a", timeoutMs="1")], "tools[0].timeoutMs: expected int | null, got str"),
        ([named("a", exposure="hidden")], "tools[0].exposure: invalid enum value 'hidden'"),
        ([named(f"t{at}") for at in range(129)], "tools: 129 tools; at most 128 are possible"),
        ([{**named("a"), "description": "x" * (1 << 20)}], "tools: "),
        ({}, "tools: expected array, got object"),
    ],
)
def test_an_invalid_set_is_refused_with_the_field_and_the_old_one_stays(tmp_path: Path, tools: Any, error: str) -> None:
    with Agent(tmp_path) as agent:
        lend(agent, LOOKUP)
        refused = agent.ask("set_tools", tools=tools)
        assert not refused["success"]
        assert refused["error"].startswith(error)
        assert [tool["name"] for tool in agent.get("get_tools")["tools"] if tool["source"] == "host"] == [
            "lookup_ticket"
        ]


@pytest.mark.process  # a host does not let a client add built-in tools
def test_get_tools_lists_all_tools_with_their_source_and_set_active_tools_selects(tmp_path: Path) -> None:
    with Agent(tmp_path, args=["--tools", "read,bash"]) as agent:
        lend(agent, LOOKUP, named("ls", replaces=True))
        listed = {tool["name"]: tool for tool in agent.get("get_tools")["tools"]}
        assert listed["lookup_ticket"] == {
            "name": "lookup_ticket",
            "description": "Look a ticket up.",
            "source": "host",
            "active": True,
            "exposure": "direct",
        }
        shown = {name: (tool["source"], tool["active"]) for name, tool in listed.items()}
        assert shown == {
            **{
                name: ("builtin", name in ("read", "bash"))
                for name in ("read", "bash", "edit", "write", "grep", "find")
            },
            "ls": ("host", True),
            "lookup_ticket": ("host", True),
        }
        assert agent.ask("set_active_tools", names=["edit", "lookup_ticket", "none"])["success"]
        active = [tool["name"] for tool in agent.get("get_tools")["tools"] if tool["active"]]
        assert sorted(active) == ["edit", "lookup_ticket"]


def test_a_set_counts_from_the_next_model_call_of_the_same_run(tmp_path: Path) -> None:
    with Agent(tmp_path, call(id="1"), call("second"), call(id="2"), OK) as agent:
        lend(agent, LOOKUP)
        agent.send("prompt", message="go")
        first = request(agent)
        lend(agent, named("second"))
        assert finish(agent, first)["success"]  # a request stays open when its tool is taken away
        second = request(agent)
        assert second["toolName"] == "second"
        finish(agent, second)
        last = said(agent.settled(), "toolResult")[-1]
        assert (last["isError"], text(last)) == (True, "Tool lookup_ticket not found")


def test_a_tool_that_replaces_a_built_in_gets_its_calls(tmp_path: Path) -> None:
    with Agent(tmp_path, call("bash", command="touch x"), OK) as agent:
        parameters = {"type": "object", "properties": {"command": {"type": "string"}}}
        lend(agent, named("bash", replaces=True) | {"parameters": parameters})
        agent.send("prompt", message="go")
        finish(agent, request(agent), "elsewhere")
        assert text(result(agent.settled())) == "elsewhere"
        assert not (agent.cwd / "x").exists()


def test_arguments_that_do_not_match_the_schema_are_not_sent(tmp_path: Path) -> None:
    with Agent(tmp_path, call(), OK) as agent:
        lend(agent, LOOKUP)
        events = agent.prompt("go")
        assert "must have required property 'id'" in text(result(events))
        assert of("tool_request", events) == []


def test_an_answer_to_a_request_that_is_not_open_is_an_error_and_nothing_else(tmp_path: Path) -> None:
    with Agent(tmp_path, call(id="1"), OK) as agent:
        lend(agent, LOOKUP)
        agent.send("prompt", message="go")
        asked = request(agent)
        for kind in ("tool_result", "tool_progress"):
            wrong = agent.ask(kind, requestId="other", content="x")
            assert (wrong["success"], wrong["error"]) == (False, "requestId: no tool request 'other' is open")
        bad = finish(agent, asked, [{"type": "image", "data": "!", "mimeType": "image/png"}])
        assert bad["error"] == "content[0].data: not valid base64"
        assert finish(agent, asked)["success"]
        assert not finish(agent, asked)["success"]
        assert [text(message) for message in said(agent.settled(), "toolResult")] == ["Open."]


def test_requests_are_open_side_by_side_and_answered_in_any_order(tmp_path: Path) -> None:
    with Agent(tmp_path, call(count=3, id="x"), OK, settings={"toolExecution": "parallel"}) as agent:
        lend(agent, LOOKUP)
        agent.send("prompt", message="go")
        asked = [request(agent) for _ in range(3)]
        for one in reversed(asked):
            finish(agent, one, one["toolCallId"])
        messages = said(agent.settled(), "toolResult")
        assert [(message["toolCallId"], text(message)) for message in messages] == [
            (f"call_{at}", f"call_{at}") for at in (1, 2, 3)
        ]


def test_an_abort_cancels_the_request_and_a_late_result_is_refused(tmp_path: Path) -> None:
    with Agent(tmp_path, call(id="1")) as agent:
        lend(agent, LOOKUP)
        agent.send("prompt", message="go")
        asked = request(agent)
        assert agent.ask("abort")["success"]
        events = agent.settled()
        assert of("tool_request_cancelled", events) == [
            {"type": "tool_request_cancelled", "id": asked["id"], "reason": "aborted"}
        ]
        assert result(events)["isError"]
        assert not finish(agent, asked)["success"]


def test_a_request_times_out_after_the_tools_own_limit(tmp_path: Path) -> None:
    with Agent(tmp_path, call(id="1"), OK) as agent:
        lend(agent, {**LOOKUP, "timeoutMs": 50})
        agent.send("prompt", message="go")
        asked = request(agent)
        events = agent.settled()
        assert of("tool_request_cancelled", events) == [
            {"type": "tool_request_cancelled", "id": asked["id"], "reason": "timeout"}
        ]
        assert (text(result(events)), result(events)["isError"]) == (
            "lookup_ticket did not answer within 0.05 s.",
            True,
        )


def test_another_session_cancels_the_request_and_keeps_the_tools(tmp_path: Path) -> None:
    with Agent(tmp_path, call(id="1"), call(id="2"), OK) as agent:
        lend(agent, LOOKUP)
        agent.send("prompt", message="go")
        asked = request(agent)
        assert agent.ask("new_session")["success"]
        cancelled = agent.until("tool_request_cancelled")[-1]
        assert cancelled == {"type": "tool_request_cancelled", "id": asked["id"], "reason": "session"}
        agent.settled()
        agent.send("prompt", message="go")
        finish(agent, request(agent))
        events = agent.settled()
        assert text(result(events)) == "Open."
        file = Path(agent.get("get_state")["sessionFile"]).read_text()
        assert "Look a ticket up" not in file


def test_permissions_ask_about_a_host_tool_and_rules_name_it(tmp_path: Path) -> None:
    with Agent(tmp_path, call(id="1"), call(id="2"), OK, args=["--permissions", "ask"]) as agent:
        lend(agent, LOOKUP)
        agent.send("prompt", message="go")
        before = agent.until("extension_ui_request")
        assert of("tool_request", before) == []
        asked = before[-1]
        assert "lookup_ticket" in asked["title"]
        agent.write(json.dumps({"type": "extension_ui_response", "id": asked["id"], "value": "Deny"}).encode() + b"\n")
        asked = agent.until("extension_ui_request")[-1]
        agent.write(
            json.dumps({"type": "extension_ui_response", "id": asked["id"], "value": "Allow once"}).encode() + b"\n"
        )
        finish(agent, request(agent))
        agent.settled()
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"deny": [{"tool": "lookup_*"}], "otherwise": "allow"}))
    with Agent(tmp_path / "b", call(id="1"), OK, args=["--permissions", "rules", str(rules)]) as agent:
        lend(agent, LOOKUP)
        events = agent.prompt("go")
        assert of("tool_request", events) == [] and result(events)["isError"]


def test_a_long_result_is_cut_and_a_large_image_is_scaled_down(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    from io import BytesIO

    from PIL import Image

    picture = BytesIO()
    Image.new("RGB", (3000, 10)).save(picture, "PNG")
    image = {"type": "image", "data": base64.b64encode(picture.getvalue()).decode(), "mimeType": "image/png"}
    with Agent(tmp_path, call(id="1"), OK) as agent:
        lend(agent, LOOKUP)
        agent.send("prompt", message="go")
        long = "\n".join(f"line {at}" for at in range(5000))
        finish(agent, request(agent), [{"type": "text", "text": long}, image])
        content = result(agent.settled())["content"]
        shown = content[0]["text"]
        assert shown.count("\n") <= 2000 and shown.startswith("line 0\n")
        (note,) = [block["text"] for block in content if "Full output: " in block.get("text", "")]
        assert Path(note.partition("Full output: ")[2].rstrip("]")).read_text().startswith(long)
        (sent,) = [block for block in content if block["type"] == "image"]
        with Image.open(BytesIO(base64.b64decode(sent["data"]))) as scaled:
            assert scaled.width == 2000


@pytest.mark.process  # a host waits for a client to come back
def test_open_requests_fail_when_the_client_closes_stdin_and_no_new_ones_are_made(tmp_path: Path) -> None:
    with Agent(tmp_path, call(count=2, id="x"), call(id="y"), OK, settings={"toolExecution": "parallel"}) as agent:
        lend(agent, LOOKUP)
        agent.send("prompt", message="go")
        request(agent)
        request(agent)
        agent.close()
        events = agent.settled()
        assert [text(message) for message in said(events, "toolResult")] == ["The client has gone."] * 3
        assert of("tool_request", events) == []
        assert agent.exit_code() == 0


CLIENT = """
import json, subprocess, sys
agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def send(**command): agent.stdin.write(json.dumps(command).encode() + b"\\n"); agent.stdin.flush()
tool = {"name": "wait", "description": "w", "parameters": {"type": "object"}}
send(type="set_tools", tools=[tool]); send(type="prompt", message="go")
open_requests = 0
for line in agent.stdout:
    open_requests += json.loads(line)["type"] == "tool_request"
    if open_requests == 50:
        print(agent.pid, flush=True)
        sys.stdin.read()
"""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waiting for a process that is not a child needs pidfd_open")
def test_a_client_killed_with_fifty_open_requests_leaves_nothing_behind(tmp_path: Path) -> None:
    env = surroundings(tmp_path, {"toolExecution": "parallel"})
    argv = scripted(tmp_path, call("wait", count=50), OK)
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, *argv],
        cwd=tmp_path / "work",
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as client:
        assert client.stdout is not None
        pid = int(client.stdout.readline())
        watch = os.pidfd_open(pid)
        client.send_signal(signal.SIGKILL)
        client.wait()
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    try:
        assert poll.poll(10_000), "the agent lives on without its client"
    finally:
        os.close(watch)


@pytest.mark.parametrize("dialect", ["2025-12", "2026-01"])
def test_the_two_oldest_dialects_do_not_have_them(tmp_path: Path, dialect: str) -> None:
    found = dialects.find(dialect)
    names = {"set_tools", "tool_progress", "tool_result", "get_tools", "set_active_tools"}
    assert names.isdisjoint(found.command_types)
    assert found.command_type("set_tools") is None
    assert {e.ToolRequest, e.ToolRequestCancelled}.isdisjoint(found.event_types())
    assert names <= set(dialects.find("2026-03").command_types)
    assert c.SetTools in dialects.find("default").command_types.values()


def test_get_protocol_names_the_commands_and_events(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        capabilities = agent.get("get_protocol")["capabilities"]
        assert {"set_tools", "tool_progress", "tool_result", "get_tools"} <= set(capabilities["commands"])
        assert {"tool_request", "tool_request_cancelled"} <= set(capabilities["events"])


def test_a_deferred_tool_is_searched_for_or_called_by_its_name(tmp_path: Path) -> None:
    find = call("tool_search", query="ticket")
    answers = [find, call(id="1"), call("hidden"), OK]
    with Agent(tmp_path, *answers, args=["--permissions", "ask"]) as agent:
        lend(agent, {**LOOKUP, "exposure": "deferred"}, named("hidden", exposure="deferred"), named("plain"))
        listed = {tool["name"]: tool for tool in agent.get("get_tools")["tools"] if tool["source"] == "host"}
        shown = {name: (tool["active"], tool["exposure"]) for name, tool in listed.items()}
        assert shown == {
            "plain": (True, "direct"),
            "tool_search": (True, "direct"),
            "lookup_ticket": (False, "deferred"),
            "hidden": (False, "deferred"),
        }
        agent.send("prompt", message="go")
        for expected in ("lookup_ticket", "hidden"):
            question = agent.until("extension_ui_request")[-1]  # nobody is asked about the search
            assert expected in question["title"]
            allowed = {"type": "extension_ui_response", "id": question["id"], "value": "Allow once"}
            agent.write(json.dumps(allowed).encode() + b"\n")
            asked = request(agent)
            assert asked["toolName"] == expected
            finish(agent, asked)
        first = said(agent.settled(), "toolResult")
        assert first[-1]["isError"] is False
        active = {tool["name"] for tool in agent.get("get_tools")["tools"] if tool["active"]}
        assert {"lookup_ticket", "hidden", "plain"} <= active


GATE = """
def setup(pi):
    @pi.on("tool_call")
    async def check(event, ctx):
        if event.input["id"] == "secret":
            return {"block": True, "reason": "Not that one."}
        return {"input": {"id": event.input["id"].upper()}}

    @pi.tool
    def mine(ctx) -> str:
        "A tool of the extension."
        return "mine"
"""


def test_hooks_of_extensions_see_a_call_before_the_client(tmp_path: Path) -> None:
    (tmp_path / "gate.py").write_text(GATE)
    args = ["-e", str(tmp_path / "gate.py")]
    with Agent(tmp_path, call(id="secret"), call(id="abc"), OK, args=args) as agent:
        taken = agent.ask("set_tools", tools=[named("mine")])
        assert taken["error"] == "tools[0].name: mine is a tool of an extension"
        lend(agent, LOOKUP)
        agent.send("prompt", message="go")
        before = agent.until("tool_request")
        assert before[-1]["arguments"] == {"id": "ABC"}
        assert [text(message) for message in said(before, "toolResult")] == ["Not that one."]
        finish(agent, before[-1])
        agent.settled()
        sources = {tool["name"]: tool["source"] for tool in agent.get("get_tools")["tools"]}
        assert (sources["mine"], sources["lookup_ticket"]) == ("extension", "host")


@pytest.mark.parametrize("seed", range(4))
def test_requests_end_once_whatever_the_client_does(tmp_path: Path, seed: int) -> None:
    """tests/long/fuzz_host_tools.py does more."""
    fuzz_host_tools.run(tmp_path, 120, seed)


def test_a_run_without_host_tools_has_the_events_that_it_had(tmp_path: Path) -> None:
    with Agent(tmp_path, call("ls", path="."), OK, args=["--tools", "ls"]) as agent:
        assert "tool_request" not in kinds(agent.prompt("go"))
