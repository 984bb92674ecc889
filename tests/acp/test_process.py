"""`tau acp` as a process: its streams, its end, and what is left of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.acp_peer import Failure, Peer, process_peer
from support.limits import no_descriptors
from support.rpc_process import Json, surroundings

pytestmark = pytest.mark.process


def tool(name: str, id: str = "call_1", **arguments: Any) -> Json:
    return {"blocks": [{"tool": name, "arguments": arguments, "id": id}]}


async def gone(pid_file: Path) -> bool:
    """True when the process with the id in a file has ended."""
    pid = int(pid_file.read_text())
    async with asyncio.timeout(20):
        while True:
            try:
                os.kill(pid, 0)
                if Path(f"/proc/{pid}/stat").read_text().split(") ")[1].startswith("Z"):
                    return True
            except (ProcessLookupError, FileNotFoundError):
                return True
            await asyncio.sleep(0.01)


async def running_command(peer: Peer, folder: Path) -> Json:
    """A prompt whose command runs."""
    await peer.initialize()
    session = await peer.new(folder / "work")
    request = peer.prompt_request(session)
    await peer.send(request)
    async with asyncio.timeout(30):
        while not (folder / "work" / "pid").exists() or not (folder / "work" / "pid").read_text().strip():
            await asyncio.sleep(0.01)
    return request


SLEEP = tool("bash", command="sleep 100 & echo $! > pid.new; mv pid.new pid; wait")


@pytest.mark.promise("K06")
def test_the_end_of_stdin_aborts_the_run_answers_it_and_leaves_no_process(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_peer(tmp_path, SLEEP) as (peer, process):
            request = await running_command(peer, tmp_path)
            began = time.monotonic()
            assert process.stdin is not None
            process.stdin.close()
            assert await process.wait() == 0
            assert time.monotonic() - began < 20  # 2 s on a machine that has nothing else to do
            assert (await peer.response(request))["stopReason"] == "cancelled"
            assert await gone(tmp_path / "work" / "pid")

    asyncio.run(main())


@pytest.mark.promise("K06")
@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_signal_ends_it_and_leaves_no_process(number: signal.Signals, code: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with process_peer(tmp_path, SLEEP) as (peer, process):
            await running_command(peer, tmp_path)
            process.send_signal(number)
            assert await process.wait() == code
            assert await gone(tmp_path / "work" / "pid")

    asyncio.run(main())


CLIENT = """
import json, subprocess, sys, time
agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
open(sys.argv[1], "w").write(str(agent.pid))
def ask(id, method, **params):
    agent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\\n")
    agent.stdin.flush()
def answer(id):
    while (message := json.loads(agent.stdout.readline())).get("id") != id:
        pass
    return message["result"]
ask(1, "initialize", protocolVersion=1)
answer(1)
ask(2, "session/new", cwd=sys.argv[1] + ".work", mcpServers=[])
ask(3, "session/prompt", sessionId=answer(2)["sessionId"], prompt=[{"type": "text", "text": "go"}])
time.sleep(100)
"""


@pytest.mark.promise("K06")
def test_killing_the_editor_ends_the_agent_and_its_commands(tmp_path: Path) -> None:
    work = tmp_path / "agent.pid.work"
    work.mkdir()
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"answers": [SLEEP]}))
    agent = [sys.executable, "-m", "tau", "acp", "--model", "scripted", "--script", str(script)]
    argv = [sys.executable, "-c", CLIENT, str(tmp_path / "agent.pid"), *agent]
    client = subprocess.Popen(argv, env=surroundings(tmp_path))
    try:
        until = time.monotonic() + 30
        while not (work / "pid").exists() and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        client.kill()
        client.wait()
    assert asyncio.run(gone(tmp_path / "agent.pid"))
    assert asyncio.run(gone(work / "pid"))


@pytest.mark.promise("K06")
def test_a_client_that_closes_its_end_of_stdout_ends_the_agent(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"answers": [SLEEP]}))
    argv = [sys.executable, "-m", "tau", "acp", "--model", "scripted", "--script", str(tmp_path / "script.json")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, env=surroundings(tmp_path), **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert b"protocolVersion" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 0


@pytest.mark.promise("K07")
def test_everything_that_was_sent_is_in_the_session_after_kill_9(tmp_path: Path) -> None:
    answers = [{"text": f"answer {at}"} for at in range(3)]

    async def main() -> None:
        async with process_peer(tmp_path, *answers) as (peer, process):
            await peer.initialize()
            session = await peer.new(tmp_path / "work")
            for _ in answers:
                await peer.prompt(session)
            process.kill()
            await process.wait()
        async with process_peer(tmp_path, *answers) as (peer, process):
            await peer.initialize()
            await peer.call("session/load", sessionId=session, cwd=str(tmp_path / "work"), mcpServers=[])
            assert peer.text() == "answer 0answer 1answer 2"

    asyncio.run(main())


@pytest.mark.promise("K08")
def test_a_client_that_does_not_read_costs_little_memory_and_gets_the_whole_text(tmp_path: Path) -> None:
    words = [f"w{at} " + "x" * 1000 for at in range(3000)]

    async def main() -> None:
        script = {"blocks": [{"text": words}], "repeat": 6}
        (tmp_path / "script.json").write_text(json.dumps({"answers": [script]}))
        with (tmp_path / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-m",
                        "tau",
                        "acp",
                        "--model",
                        "scripted",
                        "--script",
                        str(tmp_path / "script.json"),
                    )
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**surroundings(tmp_path), "PYTHONWARNINGS": "always"},
            )
        assert process.stdin is not None and process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(id: int, method: str, **params: Any) -> None:
            stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")
            stdin.flush()

        text: list[str] = []

        def next_message() -> Json:
            message: Json = json.loads(stdout.readline())
            update = message["params"]["update"] if "params" in message else {}
            if update.get("sessionUpdate") == "agent_message_chunk":
                text.append(update["content"]["text"])
            return message

        def answer(id: int) -> Json:
            while (message := next_message()).get("id") != id:
                pass
            result: Json = message["result"]
            return result

        try:
            ask(1, "initialize", protocolVersion=1)
            answer(1)
            ask(2, "session/new", cwd=str(tmp_path / "work"), mcpServers=[])
            session = answer(2)["sessionId"]
            before = memory(process.pid)
            ask(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
            while not text:
                next_message()
            while memory(process.pid) != await settled_memory(process.pid):
                pass
            assert memory(process.pid) - before < 32 * 1024
            assert answer(3) == {"stopReason": "end_turn"}
            assert len("".join(text)) == 6 * sum(map(len, words))
            stdin.close()
            assert process.wait(10) == 0
            assert b"never awaited" not in (tmp_path / "stderr").read_bytes()
        finally:
            process.kill()
            process.wait()
            stdout.close()
            stdin.close()

    asyncio.run(main())


def test_requests_without_a_descriptor_are_refused_in_one_sentence(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_peer(tmp_path, {"text": "ok"}) as (peer, process):
            await peer.initialize()
            new: tuple[str, Json] = ("session/new", {"cwd": str(tmp_path / "work"), "mcpServers": []})
            with no_descriptors(process.pid):
                for method, params in (new, ("session/list", {})):
                    with pytest.raises(Failure, match="Too many open files") as failure:
                        await peer.call(method, **params)
                    assert "Internal error" not in str(failure.value)
            assert await peer.new(tmp_path / "work")

    asyncio.run(main())


def memory(pid: int) -> int:
    """Resident memory in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


async def settled_memory(pid: int) -> int:
    """The memory when the process waits for its reader."""
    await asyncio.sleep(0.2)
    return memory(pid)


def test_setup_asks_for_a_key_as_login_does(tmp_path: Path) -> None:
    env = surroundings(tmp_path)
    argv = [sys.executable, "-m", "tau", "acp", "--setup", "--offline", "groq"]
    done = subprocess.run(argv, env=env, input=b"sk-test-1234567890\n", capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    stored = json.loads((tmp_path / "agent" / "auth.json").read_text())
    assert stored["groq"]["key"] == "sk-test-1234567890"


def test_flags_that_choose_a_session_and_messages_are_refused(tmp_path: Path) -> None:
    for args in (["--continue"], ["hello"], ["--session", "x"]):
        argv = [sys.executable, "-m", "tau", "acp", *args]
        done = subprocess.run(argv, env=surroundings(tmp_path), input=b"", capture_output=True, check=False)
        assert done.returncode == 2 and b"tau acp" in done.stderr, args


@pytest.mark.promise("K13")
def test_mode_acp_is_the_same_and_what_extensions_print_is_not_on_stdout(tmp_path: Path) -> None:
    file = tmp_path / "loud.py"
    file.write_text("print('loud')\ndef setup(pi):\n    print('louder')\n")

    async def main() -> None:
        async with process_peer(tmp_path, args=["-e", str(file)]) as (peer, _process):
            await peer.initialize()
            session = await peer.new(tmp_path / "work")
            assert await peer.prompt(session) == "end_turn"

    asyncio.run(main())
    argv = [sys.executable, "-m", "tau", "--mode", "acp"]
    line = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n42\n'
    done = subprocess.run(argv, env=surroundings(tmp_path), input=line, capture_output=True, check=True)
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["result"]["protocolVersion"] == 1 and second["error"]["code"] == -32600


class Refusing(BaseHTTPRequestHandler):
    """A provider that refuses every key."""

    def do_POST(self) -> None:
        body = b'{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}'
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.mark.promise("K03")
def test_a_key_that_the_provider_refuses_is_an_error_with_its_sentence(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    models = {
        "providers": {
            "lab": {"api": "anthropic-messages", "baseUrl": url, "apiKey": "sk-wrong-key", "models": [{"id": "m"}]}
        }
    }

    async def main() -> None:
        async with process_peer(tmp_path, models=models, model="lab/m") as (peer, _):
            await peer.initialize()
            session = await peer.new(tmp_path / "work")
            with pytest.raises(Failure) as failed:
                await peer.prompt(session)
            assert failed.value.code == -32000
            assert "invalid x-api-key" in failed.value.message and "sk-wrong-key" not in failed.value.message
            assert failed.value.data["status"] == 401 and failed.value.data["provider"] == "lab"

    try:
        asyncio.run(main())
    finally:
        server.shutdown()
        server.server_close()
