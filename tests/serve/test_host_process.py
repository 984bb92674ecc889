"""`tau serve` as a process: its files, its end, its death, and clients on a real socket."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from long import host_kills
from support.host_process import HostProcess, Json, SocketClient, processes_with
from support.limits import no_descriptors
from support.rpc_process import calls, endless, surroundings

pytestmark = pytest.mark.process


def tau(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tau", *words],
        cwd=folder / "work",
        env=surroundings(folder),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_host_has_private_files_and_there_is_one_for_a_folder(tmp_path: Path) -> None:
    assert tau_status(tmp_path) == (1, "no host is running: tau serve starts one\n")
    with HostProcess(tmp_path) as host:
        folder = tmp_path / "agent" / "serve"
        modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.iterdir())}
        assert modes == {"serve": 0o700, "host.json": 0o600, "host.sock": 0o600, "lock": 0o600}
        info = json.loads((folder / "host.json").read_bytes())
        assert info["pid"] == host.process.pid and info["url"] is None
        with host.client() as client:
            assert client.greeting["host"] == info["host"]
            assert host.memory() <= (32_000_000 if sys.version_info < (3, 14) else 35_000_000)  # 3.14 itself has more
            client.get("open_session", name="the one")
            code, text = tau_status(tmp_path)
            assert code == 0 and f"process {host.process.pid}" in text and "1 sessions open" in text
            assert "the one" in text
            assert "1 sessions open" in tau(tmp_path, "doctor").stdout
        second = tau(tmp_path, "serve", "--no-tcp", "--model", "demo")
        assert (second.returncode, second.stdout) == (2, "")
        assert f"A host is running already (process {host.process.pid})" in second.stderr
        assert host.stop() == 143
        assert [path.name for path in folder.iterdir()] == ["lock"]


def tau_status(folder: Path) -> tuple[int, str]:
    done = tau(folder, "serve", "status")
    return done.returncode, done.stdout


def test_another_process_is_told_to_attach_to_a_session_of_the_host(tmp_path: Path) -> None:
    with HostProcess(tmp_path) as host, host.client() as client:
        session = client.get("open_session")["session"]
        client.get("prompt", session=session, message="hi")
        refused = tau(tmp_path, "-p", "--model", "demo", "--session", session, "hello")
        assert refused.returncode == 2
        assert f"is open in tau serve (process {host.process.pid}): tau attach continues it." in refused.stderr


def test_a_question_waits_for_a_client_on_the_socket_and_not_for_a_silent_program(tmp_path: Path) -> None:
    asks = calls("echo ran")
    args = ("--no-tcp", "--permissions", "ask", "--answer-timeout", "0")
    with HostProcess(tmp_path, asks, {"text": "done"}, args=args) as host, host.client() as client:
        session = client.get("open_session")["session"]
        client.get("prompt", session=session, message="run it")
        question = client.until("extension_ui_request")
        assert client.get("list_sessions", live=True)["sessions"][0]["attention"] is True
        client.send("extension_ui_response", session=session, id=question["id"], value="Allow once")
        client.until("agent_settled")
    argv = [sys.executable, "-P", "-c", "from tau.cli.main import pi; pi()", "--mode", "rpc", "--connect", "unix:"]
    pipe = subprocess.PIPE
    with (
        HostProcess(tmp_path, asks, {"text": "done"}, args=args),
        subprocess.Popen(argv, stdin=pipe, stdout=pipe, cwd=tmp_path / "work", env=surroundings(tmp_path)) as bridge,
    ):
        assert bridge.stdin is not None and bridge.stdout is not None
        bridge.stdin.write(b'{"type":"prompt","message":"run it"}\n')
        bridge.stdin.flush()
        records = []
        while not records or records[-1]["type"] != "agent_settled":
            records.append(json.loads(bridge.stdout.readline()))
        bridge.stdin.close()
    (result,) = [record for record in records if record["type"] == "tool_execution_end"]
    assert "no client can answer" in result["result"]["content"][0]["text"]


def test_a_model_that_repeats_a_failing_call_is_stopped_on_a_host(tmp_path: Path) -> None:
    wrong = {"blocks": [{"tool": "no_such_tool", "arguments": {}, "id": "a"}]}
    with HostProcess(tmp_path, wrong) as host, host.client() as client:
        session = client.get("open_session")["session"]
        client.get("prompt", session=session, message="hi")
        exceeded = client.until("budget_exceeded")
        assert (exceeded["limit"], exceeded["used"], exceeded["allowed"]) == ("stuck", 8, 8)
        client.until("agent_settled")
        last = client.get("get_messages", session=session)["messages"][-1]
        assert last["errorMessage"] == "Stopped: the tool calls of 8 answers in a row all failed in the same way."


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--root", "missing"), "there is no such folder"),
        (("--idle", "soon"), "--idle needs a number"),
        (("--session", "x"), "clients of a host choose sessions"),
        (("--model", "no-such-model"), "no-such-model"),
        (("upwards",), "usage: tau serve"),
    ],
)
def test_mistakes_in_the_flags_are_usage_errors(tmp_path: Path, words: tuple[str, ...], error: str) -> None:
    done = tau(tmp_path, "serve", *words, "--no-tcp")
    assert done.returncode == 2 and error in done.stderr


def test_a_session_that_cannot_be_opened_for_want_of_descriptors_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with HostProcess(tmp_path) as host, host.client() as client:
        with no_descriptors(host.process.pid):
            refused = client.ask("open_session")
        assert not refused["success"] and "Too many open files" in refused["error"], refused
        assert "Internal error" not in refused["error"]
        assert client.get("open_session")["created"] is True


@pytest.mark.promise("N17")
def test_sigterm_keeps_the_partial_answers_of_all_runs_and_leaves_no_process(tmp_path: Path) -> None:
    mark = f"7{os.getpid()}3"
    answers = ({"blocks": [*endless("so far")["blocks"]], "hangAfter": 1},)
    with HostProcess(tmp_path, *answers, args=("--no-tcp", "--drain", "0.2")) as host, host.client() as client:
        opened = [client.get("open_session") for _ in range(100)]
        for one in opened:
            client.get("prompt", session=one["session"], message="go")
        client.get("bash", session=opened[0]["session"], command=f"sleep 1000{mark} & echo started")
        waiting = {one["session"] for one in opened}
        while waiting:
            record = client.until(lambda one: "assistantMessageEvent" in one and one["session"] in waiting, 0)
            waiting.discard(record["session"])
        host.process.send_signal(signal.SIGTERM)
        while client.read():
            pass
        assert host.stop() == 143
        assert [one["type"] for one in client.records].count("host_closing") == 1
        assert sum(one["type"] == "agent_settled" and one["aborted"] for one in client.records) == 100
    for one in opened:
        (answer,) = [line for line in Path(one["sessionFile"]).read_bytes().splitlines() if b'"aborted"' in line]
        assert json.loads(answer)["message"]["content"][0]["text"] == "so far"
    assert processes_with(f"1000{mark}") == []


@pytest.mark.promise("N17")
def test_a_run_goes_on_and_ends_without_clients(tmp_path: Path) -> None:
    talk = {"blocks": [{"text": ["a", "b", "c"]}], "delayMs": 20}
    with HostProcess(tmp_path, talk) as host:
        with host.client() as client:
            session = client.get("open_session")["session"]
            client.get("prompt", session=session, message="go", key="k")
        with host.client(session=session) as again:
            snapshot = again.until("snapshot", 0)
            if snapshot["settled"] is None:
                again.until("agent_settled", 0)
            assert again.get("get_last_assistant_text") == {"text": "abc"}


@pytest.mark.promise("N09")
def test_keyed_prompts_survive_fifty_deaths_of_the_host(tmp_path: Path) -> None:
    figures = host_kills.run(tmp_path, 50)
    assert figures.acknowledged == figures.prompts - 1 > 50


def test_a_run_that_a_death_interrupted_is_named_and_not_continued(tmp_path: Path) -> None:
    host = HostProcess(tmp_path, endless("so far"))
    with host.client() as client:
        session = client.get("open_session")["session"]
        client.get("prompt", session=session, message="go")
        client.until("message_update")
        host.kill()
    with HostProcess(tmp_path, {"text": "fine"}) as again, again.client(session=session) as client:
        snapshot = client.until("snapshot", 0)
        (prompt,) = [entry for entry in snapshot["entries"] if entry["type"] == "message"]
        assert snapshot["interrupted"] == {"entryId": prompt["id"]}
        assert not client.get("get_state")["isStreaming"]
        client.get("prompt", message="go on")
        client.until("agent_settled")
        with again.client(session=session) as other:
            assert other.until("snapshot", 0)["interrupted"] is None


@pytest.mark.promise("N10")
def test_a_connection_cut_at_any_byte_loses_nothing_but_its_last_line(tmp_path: Path) -> None:
    with HostProcess(tmp_path, {"blocks": [{"text": ["one ", "two ", "three"]}]}) as host:
        with host.client() as client:
            session = client.get("open_session", attach=False)["session"]
        hello = json.dumps({"type": "hello", "version": 1, "session": session, "numbers": True}).encode() + b"\n"
        prompt = json.dumps({"type": "prompt", "message": "hi", "key": "k", "streamingBehavior": "followUp"}).encode()
        lines = hello + prompt + b"\n"
        for cut in range(1, len(lines), 3):
            half = SocketClient(host.socket_path)
            half.socket.sendall(lines[:cut])
            half.close()
        with SocketClient(host.socket_path) as whole:
            whole.socket.sendall(lines)
            last = whole.until("agent_settled", 0)["seq"]
            stream = whole.until("snapshot", 0)["stream"]
            for cut in range(1, 4000, 61):
                heard = heard_in_two_parts(host, hello, stream, cut, last)
                seqs = [record["seq"] for record in heard]
                assert seqs == sorted(set(seqs)) and seqs[-1] == last
                pieces = [record["assistantMessageEvent"] for record in heard if "assistantMessageEvent" in record]
                assert "".join(piece.get("delta", "") for piece in pieces) == "one two three"
            assert [one["role"] for one in whole.get("get_messages")["messages"]] == ["user", "assistant"]


def heard_in_two_parts(host: HostProcess, hello: bytes, stream: str, cut: int, last: int) -> list[Json]:
    """The records of a client that lost its connection after so many bytes and came back with its last number."""
    heard: list[Json] = []
    for size in (cut, 1 << 20):
        seq = max([record["seq"] for record in heard], default=0)
        after = b',"after":{"stream":"%b","seq":%d}}\n' % (stream.encode(), seq)
        with SocketClient(host.socket_path) as client:
            client.socket.sendall(hello[:-2] + after)
            data = b""
            while len(data) < size and not (seq == last or b'"seq":%d}\n' % last in data):
                data += client.socket.recv(size - len(data))
            heard += [json.loads(line) for line in data.split(b"\n")[1:-1]]
    return heard


def test_a_second_signal_ends_the_host_at_once(tmp_path: Path) -> None:
    with HostProcess(tmp_path, endless("so far"), args=("--no-tcp", "--drain", "600")) as host, host.client() as client:
        session = client.get("open_session")["session"]
        client.get("prompt", session=session, message="go")
        host.process.send_signal(signal.SIGTERM)
        client.until("host_closing", 0)
        assert host.stop(signal.SIGINT) == 130


def test_without_the_extra_the_socket_works_and_a_sentence_says_what_to_install(tmp_path: Path) -> None:
    missing = "import sys; sys.modules['starlette'] = sys.modules['uvicorn'] = None; sys.argv[0] = 'tau'\n"
    program = f"{missing}from tau.cli.main import tau; tau()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "serve", "--model", "demo"],
        cwd=tmp_path,
        env=surroundings(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().startswith(b"listening on ")
    assert b"[serve]'" in process.stderr.readline()
    with SocketClient(tmp_path / "agent" / "serve" / "host.sock") as client:
        assert client.get("hello", version=1)["scope"] == "admin"
    process.terminate()
    assert process.wait(30) == 143
    process.stdout.close()
    process.stderr.close()
