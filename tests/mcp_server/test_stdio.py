"""`tau mcp serve` as a process: raw lines, the client of the official SDK, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.limits import no_descriptors
from support.rpc_process import WITHIN, Json, surroundings

SERVE = ["-P", "-m", "tau", "mcp", "serve"]


def command(folder: Path, *answers: Json, args: tuple[str, ...] = ()) -> list[str]:
    script = folder / "script.json"
    script.write_text(json.dumps({"answers": answers or [{"text": "ok"}]}))
    return [sys.executable, *SERVE, "--model", "scripted", "--script", str(script), *args]


def started(folder: Path, *answers: Json, args: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    env = surroundings(folder)
    argv = command(folder, *answers, args=args)
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=folder / "work", env=env, stdin=pipe, stdout=pipe, stderr=pipe)


def request(id: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


INITIALIZE = request(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t"})


def test_lines_in_lines_out_and_the_end_of_input_ends_it(tmp_path: Path) -> None:
    with started(tmp_path, {"text": "Hello."}) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(INITIALIZE + request(2, "tools/call", name="tau", arguments={"prompt": "hi"}))
        server.stdin.flush()
        first, second = (json.loads(server.stdout.readline()) for _ in range(2))
        assert first["result"]["protocolVersion"] == "2025-06-18"
        assert second["result"]["content"] == [{"type": "text", "text": "Hello."}]
        out, err = server.communicate(timeout=WITHIN)
        assert (server.returncode, out, err) == (0, b"", b"")


def test_a_model_that_repeats_a_failing_call_is_stopped_and_the_client_reads_why(tmp_path: Path) -> None:
    wrong = {"blocks": [{"tool": "no_such_tool", "arguments": {}, "id": "a"}]}
    with started(tmp_path, wrong) as server:
        ask = request(2, "tools/call", name="tau", arguments={"prompt": "hi"})
        out, _ = server.communicate(INITIALIZE + ask, timeout=WITHIN)
    result = json.loads(out.splitlines()[-1])["result"]
    why = "Stopped: the tool calls of 8 answers in a row all failed in the same way."
    assert (result["isError"], result["content"]) == (True, [{"type": "text", "text": why}])


@pytest.mark.parametrize(
    ("method", "params"), [("resources/list", {}), ("tools/call", {"name": "tau", "arguments": {"prompt": "hi"}})]
)
def test_requests_without_a_descriptor_are_refused_in_one_sentence(tmp_path: Path, method: str, params: Json) -> None:
    with started(tmp_path, {"text": "Hello."}) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(INITIALIZE)
        server.stdin.flush()
        server.stdout.readline()
        with no_descriptors(server.pid):
            server.stdin.write(request(2, method, **params))
            server.stdin.flush()
            refused = server.stdout.readline().decode()
        assert "Too many open files" in refused and "Internal error" not in refused, refused
        server.stdin.write(request(3, method, **params))
        server.stdin.flush()
        assert "Too many" not in server.stdout.readline().decode()
        server.stdin.close()
        assert server.stderr is not None and b"Traceback" not in server.stderr.read()


@pytest.mark.promise("M18")
@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
def test_nothing_survives_it(tmp_path: Path, how: str) -> None:
    running = {"blocks": [{"tool": "bash", "arguments": {"command": "echo $$ > pid; sleep 600"}}]}
    with started(tmp_path, running) as server:
        assert server.stdin is not None and server.stdout is not None
        call = {"name": "tau", "arguments": {"prompt": "hi"}, "_meta": {"progressToken": "t"}}
        server.stdin.write(INITIALIZE + request(2, "tools/call", **call))
        server.stdin.flush()
        server.stdout.readline()
        assert json.loads(server.stdout.readline())["method"] == "notifications/progress"
        if how == "SIGTERM":
            server.send_signal(signal.SIGTERM)
        server.communicate(timeout=WITHIN)
        assert server.returncode == (143 if how == "SIGTERM" else 0)
    pid = tmp_path / "work" / "pid"
    if pid.exists():  # else it was aborted before the shell had started
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("--tools", "read,rm"), '--tools: there is no tool "rm". Available: tau, tau_reply, read, '),
        (("--cwd", "nowhere"), "--cwd: there is no folder "),
        (("--continue",), "--continue is not for a server."),
        (("--what",), "Unknown option: --what"),
    ],
)
def test_a_wrong_flag_is_reported_at_once(tmp_path: Path, args: tuple[str, ...], error: str) -> None:
    with started(tmp_path, args=args) as server:
        out, err = server.communicate(timeout=WITHIN)
    assert (server.returncode, out) == (2, b"")
    assert error.casefold() in err.decode().casefold()


def test_its_help_is_that_of_tau_mcp(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, *SERVE, "--help"], capture_output=True, text=True, timeout=WITHIN)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tau mcp serve [--tools A,B] [--cwd DIR]" in done.stdout


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_the_client_of_the_official_sdk_lists_and_calls(tmp_path: Path, mode: str) -> None:
    sdk = pytest.importorskip("mcp.client.client", reason="the official MCP SDK is not installed")
    env = surroundings(tmp_path)
    program, *args = command(tmp_path, {"text": "Hello."}, args=("--tools", "tau,tau_reply,ls"))
    parameters = sdk.StdioServerParameters(command=program, args=args, env=env, cwd=tmp_path / "work")

    async def story() -> None:
        async with asyncio.timeout(WITHIN), sdk.Client(sdk.stdio_client(parameters), mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["tau", "tau_reply", "ls"]
            first = await client.call_tool("tau", {"prompt": "hi"})
            assert first.content[0].text == "Hello."
            id = first.structured_content["sessionId"]
            replies = [client.call_tool("tau_reply", {"sessionId": id, "prompt": "on"}) for _ in range(3)]
            assert [reply.content[0].text for reply in await asyncio.gather(*replies)] == ["Hello."] * 3
            assert (await client.call_tool("ls", {})).content[0].text == "(empty directory)"
            (session,) = (await client.list_resources()).resources
            (text,) = (await client.read_resource(session.uri)).contents
            assert "# Assistant\n\nHello." in text.text

    asyncio.run(story())


def test_the_inspector_lists_the_tools(tmp_path: Path) -> None:
    inspector = shutil.which("mcp-inspector")
    if inspector is None:
        pytest.skip("mcp-inspector (npm @modelcontextprotocol/inspector) is not installed")
    env = surroundings(tmp_path)
    argv = [inspector, "--cli", *command(tmp_path), "--method", "tools/list"]
    done = subprocess.run(argv, cwd=tmp_path / "work", env=env, capture_output=True, text=True, timeout=2 * WITHIN)
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == ["tau", "tau_reply"]
