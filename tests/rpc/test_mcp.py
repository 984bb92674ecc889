"""MCP in RPC mode, with the real program: start, events, trust, and that no server process is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.anthropic_server import ModelServer
from support.mcp_server import server_entry
from support.mcp_session import script
from support.rpc_process import Agent, of, surroundings


def configure(folder: Path, servers: dict[str, Any], name: str = "agent/mcp.json") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, ValueError):
        return False


def wait_for_end(pids: list[int], seconds: float) -> list[int]:
    until = time.monotonic() + seconds
    while (left := [pid for pid in pids if is_running(pid)]) and time.monotonic() < until:
        time.sleep(0.01)
    return left


@pytest.mark.promise("M09")
@pytest.mark.parametrize("ending", ["eof", "term", "kill"])
def test_no_server_process_is_left(tmp_path: Path, ending: str) -> None:
    configure(tmp_path, {"s": server_entry(tools=["pid", "spawn", "silent"], fault="stubborn")})
    calls = [("mcp__s__pid", {}), ("mcp__s__spawn", {})]
    with Agent(tmp_path, *script(*calls)) as agent:
        events = agent.prompt("go")
        pids = [int(end["result"]["content"][0]["text"]) for end in of("tool_execution_end", events)]
        assert len(pids) == 2 and all(map(is_running, pids))
        if ending == "eof":
            agent.close()
        else:
            agent.signal(signal.SIGTERM if ending == "term" else signal.SIGKILL)
        agent.exit_code()
        assert wait_for_end(pids, 2) == []


def test_states_are_told_and_can_be_asked_for(tmp_path: Path) -> None:
    configure(tmp_path, {"s": server_entry(), "off": {**server_entry(), "enabled": False}, "bad": {"command": 3}})
    with Agent(tmp_path, *script(("mcp__s__echo", {"text": "hi"}))) as agent:
        data = agent.get("get_mcp_servers")
        assert [(row["name"], row["state"]) for row in data["servers"]] == [("off", "disabled"), ("s", "stopped")]
        assert "mcpServers.bad.command" in data["problems"][0]
        events = agent.prompt("go")
        updates = of("mcp_server_update", events)
        assert [(update["state"], update.get("tools")) for update in updates] == [("starting", None), ("ready", 1)]
        assert agent.get("restart_mcp_server", server="s")["state"] == "ready"
        assert not agent.ask("restart_mcp_server", server="nothing")["success"]


def test_an_eager_server_starts_with_the_session(tmp_path: Path) -> None:
    configure(tmp_path, {"s": {**server_entry(prompts=True), "eager": True}})
    with Agent(tmp_path) as agent:
        events = agent.until(lambda event: event["type"] == "mcp_server_update" and event["state"] == "ready")
        assert of("agent_start", events) == []
        names = [(row["name"], row["source"]) for row in agent.get("get_commands")["commands"]]
        assert names == [("mcp__s__write", "mcp")]


@pytest.mark.promise("M10")
def test_servers_of_an_untrusted_project_are_not_started(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    entry = server_entry(journal=str(journal))
    for name in ("work/.mcp.json", "work/.pi/mcp.json", "work/.pi/settings.json"):
        configure(tmp_path, {"s": entry, "t": {**entry, "eager": True}}, name)
    with Agent(tmp_path) as agent:
        agent.prompt("go")
        assert agent.get("get_mcp_servers")["servers"] == []
    assert not journal.exists()
    assert ".mcp.json" in agent.stderr
    with Agent(tmp_path, args=["--approve"]) as agent:
        agent.prompt("go")
        rows = agent.get("get_mcp_servers")["servers"]
        assert [row["name"] for row in rows] == ["s", "t"]
    assert "started" in journal.read_text()


@pytest.mark.promise("M10")
def test_trust_covers_the_file_of_servers_and_ends_with_its_change(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    configure(tmp_path, {"s": server_entry(journal=str(journal))}, "work/.mcp.json")
    environment = surroundings(tmp_path)
    trust = [sys.executable, "-c", "from tau.cli.main import tau; tau()", "trust"]
    done = subprocess.run(trust, cwd=tmp_path / "work", env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and ".mcp.json" in done.stdout and sys.executable in done.stdout
    with Agent(tmp_path) as agent:
        agent.prompt("go")
    assert journal.read_text().count("started") == 1
    configure(tmp_path, {"s": server_entry(journal=str(journal), more=1)}, "work/.mcp.json")
    with Agent(tmp_path) as agent:
        agent.prompt("go")
    assert journal.read_text().count("started") == 1


def test_nothing_of_mcp_is_loaded_unless_a_server_is_configured(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from tau.cli import main\n"
        "real = os._exit\n"
        "def report(code):\n"
        "    print(*(name for name in sys.modules if 'mcp' in name), file=sys.stderr)\n"
        "    sys.stderr.flush(); real(code)\n"
        "os._exit = report\n"
        "sys.argv = ['pi', *sys.argv[1:]]\n"
        "main.pi()\n"
    )
    (tmp_path / "script.json").write_text(json.dumps({"answers": [{"text": "ok"}]}))
    argv = [
        sys.executable,
        "-c",
        code,
        "--mode",
        "rpc",
        "--model",
        "scripted",
        "--script",
        str(tmp_path / "script.json"),
    ]
    lines = b'{"type":"get_state","id":"1"}\n{"type":"prompt","message":"x","id":"2"}\n'

    def run() -> tuple[bytes, list[str]]:
        env = surroundings(tmp_path)
        done = subprocess.run(argv, input=lines, cwd=tmp_path / "work", env=env, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr.decode().split()

    output, loaded = run()
    assert loaded == []
    assert b"mcp_server" not in output
    configure(tmp_path, {"s": server_entry()})
    with_server, loaded = run()
    assert "tau.runtime.mcp.server" in loaded
    assert b"mcp_server_update" in with_server


def test_elicitation_is_a_dialog_of_the_protocol(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "title": "Your name"}}, "required": ["name"]}
    configure(tmp_path, {"s": server_entry(tools=["ask"])})
    with Agent(tmp_path, *script(("mcp__s__ask", {"schema": schema}))) as agent:
        agent.send("prompt", message="go")
        *_, question = agent.until("extension_ui_request")
        assert (question["method"], question["title"]) == ("input", "s: What?\nYour name")
        agent.write(
            json.dumps({"type": "extension_ui_response", "id": question["id"], "value": "Ada"}).encode() + b"\n"
        )
        events = agent.settled()
        (end,) = of("tool_execution_end", events)
        assert json.loads(end["result"]["content"][0]["text"]) == {"action": "accept", "content": {"name": "Ada"}}


@pytest.mark.promise("M02")
def test_a_start_does_not_wait_for_servers(tmp_path: Path) -> None:
    configure(tmp_path, {f"s{at}": {**server_entry(startSeconds=30), "exposure": "deferred"} for at in range(3)})
    with Agent(tmp_path) as agent:
        assert agent.get("get_state")
        agent.prompt("go")  # servers with deferred tools are not waited for


def test_a_model_gets_few_definitions_of_many_tools_and_the_same_at_every_start(tmp_path: Path) -> None:
    many = server_entry(toolCount=300, description="Does something useful. " * 20, instructions="Ask me first.")
    configure(tmp_path, {"b": server_entry(tools=["echo", "pid"]), "many": {**many, "exposure": "deferred"}})
    requests: list[Any] = []
    with Agent(tmp_path) as agent:  # what is listed is cached
        for name in ("b", "many"):
            agent.get("restart_mcp_server", server=name)
    for _ in range(2):
        with ModelServer("fine") as server:
            with Agent(tmp_path, models=server.models, args=["--model", "mock/m1"], offline=False) as agent:
                agent.prompt("hello")
            requests.append(server.asked[0])
    first, again = (json.dumps(request["tools"]) for request in requests)
    assert first == again and len(first) < 32 * 1024
    names = [tool["name"] for tool in requests[0]["tools"]]
    assert names[-3:] == ["mcp__b__echo", "mcp__b__pid", "tool_search"]
    prompt = json.dumps(requests[0]["system"])
    assert "Ask me first." in prompt and "many (300)" in prompt
    assert prompt == json.dumps(requests[1]["system"])
