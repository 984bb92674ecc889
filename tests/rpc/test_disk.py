"""A disk that fails while a session is written to it: the real program under strace, which lets calls fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

from support.rpc_process import Agent, Json, calls, command_line, of, texts

STRACE = shutil.which("strace")


def _can_trace() -> bool:
    return STRACE is not None and not subprocess.run([STRACE, "-f", "true"], capture_output=True).returncode


pytestmark = pytest.mark.skipif(not _can_trace(), reason="needs strace, and the right to use it")


class Faulty:
    """A session whose file is on a disk that fails as `faults` says, in the words of strace."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *faults: str) -> None:
        self.folder, self.file, self._trace = folder, folder / "s.jsonl", folder / "trace"
        self.args = ["--session", str(self.file)]
        calls = ["-e", "trace=openat,write,pwrite64,fsync"]
        injected = [word for fault in faults for word in ("-e", f"inject={fault}")]
        # -D: the program stays our child, and strace is its. -I1: and can be ended.
        strace = [
            str(STRACE),
            *("-D", "-I1", "-f", "-qq"),
            "-o",
            str(self._trace),
            "-P",
            str(self.file),
            *calls,
            *injected,
        ]
        monkeypatch.setenv("TAU_RPC", " ".join([*strace, *command_line()]))

    def kept(self) -> list[tuple[str, str]]:
        """What is said in the file, every line of which must be whole."""
        entries = [json.loads(line) for line in self.file.read_bytes().splitlines()]
        said = [entry["message"] for entry in entries if entry["type"] == "message"]
        return [(message["role"], message["content"][0]["text"]) for message in said]

    def calls(self) -> list[tuple[str, bool]]:
        """Each that was made, by its name, and whether it failed, in the order in which they ended."""
        ended = re.findall(r"^\d+ +(?:<\.\.\. )?(\w+).*? = (.*)$", self._trace.read_text(), re.MULTILINE)
        return [(name, result.endswith("(INJECTED)")) for name, result in ended]

    def syncs(self) -> list[int]:
        """Where among them something was synced."""
        return [at for at, (name, _) in enumerate(self.calls()) if name == "fsync"]

    def mend(self, agent: Agent) -> None:
        """From now on the disk is well. Strace counts in each thread anew, so it cannot be told beforehand."""
        status = Path(f"/proc/{agent.pid}/status").read_text()
        (tracer,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("TracerPid:"))
        os.kill(tracer, signal.SIGTERM)


def settled_and_recovered(agent: Agent) -> list[Json]:
    """What was told of failed writes, when the run and the trouble are over: either may be first."""
    wanted = {"agent_settled", "session_write_recovered"}
    while not wanted <= {event["type"] for event in agent.events}:
        agent.until(lambda event: event["type"] in wanted)
    return of("session_write_failed", agent.events)


@pytest.mark.promise("D21")
def test_a_sync_that_fails_is_reported_and_made_good_by_writing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = Faulty(tmp_path, monkeypatch, "fsync:error=EIO")
    with Agent(tmp_path, args=faulty.args) as agent:
        agent.get("prompt", message="go")
        while len(faulty.syncs()) < 3:
            time.sleep(0.01)
        faulty.mend(agent)
        (failed,) = settled_and_recovered(agent)
        assert (failed["sessionFile"], failed["error"]) == (str(faulty.file), "Input/output error")
        agent.close()
        assert agent.exit_code() == 0
    calls = faulty.calls()
    # After each failure everything was written once more, which nobody had promised to be safe.
    for failed, again in pairwise(faulty.syncs()[:3]):
        written = [name for name, _ in calls[:failed]].count("write")
        assert [name for name, _ in calls[failed:again]].count("pwrite64") >= written > 0
    assert faulty.kept() == [("user", "go"), ("assistant", "ok")]


@pytest.mark.promise("H08")
def test_a_disk_that_fails_each_write_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = Faulty(tmp_path, monkeypatch, "write:error=EIO:when=1+")
    with Agent(tmp_path, args=faulty.args) as agent:
        for _ in range(2):
            refused = agent.ask("prompt", message="go")
            assert (refused["success"], refused["error"]) == (
                False,
                f"The session file {faulty.file} cannot be written: Input/output error",
            )
        assert agent.get("get_messages") == {"messages": []}
        assert not faulty.file.exists()


@pytest.mark.promise("D22", "H08")
@pytest.mark.parametrize("error", ["EDQUOT", "EROFS", "EIO", "ENOSPC"])
def test_a_disk_that_fails_for_a_while_is_reported_and_has_everything_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    faulty = Faulty(tmp_path, monkeypatch, f"write:error={error}:when=2..4")
    with Agent(tmp_path, calls("echo hi"), {"text": "done"}, args=faulty.args) as agent:
        agent.get("prompt", message="go")
        told = settled_and_recovered(agent)
        assert (told[0]["sessionFile"], told[0]["waiting"]) == (str(faulty.file), 1)
        assert texts(agent.prompt("more"), "assistant") == ["done"]
        heard = agent.get("get_messages")
    monkeypatch.delenv("TAU_RPC")
    with Agent(tmp_path, args=faulty.args) as agent:
        assert (agent.get("get_messages"), agent.events) == (heard, [])
        assert [message["role"] for message in heard["messages"]] == [
            *("user", "assistant", "toolResult", "assistant"),
            *("user", "assistant"),
        ]


# Leaving a session in which messages wait: that they will not be said there is on disk first.


@pytest.mark.promise("D22")
def test_a_session_is_not_left_before_it_is_kept_that_what_waits_there_will_not_be_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = Faulty(tmp_path, monkeypatch, "write:error=ENOSPC:when=3")
    with Agent(tmp_path, args=faulty.args) as agent:
        agent.get("follow_up", message="one")
        agent.get("follow_up", message="two")
        refused = agent.ask("new_session")
        assert (refused["success"], refused["error"]) == (
            False,
            f"The session file {faulty.file} cannot be written: No space left on device. "
            "1 entries wait for that, so the session cannot be left now.",
        )
        state = agent.get("get_state")
        assert (state["sessionFile"], state["pendingMessageCount"]) == (str(faulty.file), 2)
        assert agent.get("new_session") == {"cancelled": False}
        assert of("session_write_failed", agent.events) == []
        agent.signal(signal.SIGKILL)
        agent.exit_code()
    last = [name for name, failed in faulty.calls() if not failed][-2:]
    assert last == ["write", "fsync"]  # before anybody was told that the session was left
    monkeypatch.delenv("TAU_RPC")
    with Agent(tmp_path, args=faulty.args) as agent:
        assert agent.get("get_state")["pendingMessageCount"] == 0


def test_what_waits_goes_on_waiting_where_a_session_could_not_be_left(tmp_path: Path) -> None:
    sessions, elsewhere = tmp_path / "sessions", tmp_path / "elsewhere"
    args = ["--session-dir", str(sessions)]
    with Agent(tmp_path, args=args) as agent:
        agent.prompt("go")
        agent.get("follow_up", message="one")
        agent.get("steer", message="two")
        sessions.rename(elsewhere)
        sessions.write_text("no folder: nothing can be copied to it")
        assert not agent.ask("clone")["success"]
        assert agent.get("get_state")["pendingMessageCount"] == 2
        agent.signal(signal.SIGKILL)
        agent.exit_code()
    (file,) = elsewhere.glob("*.jsonl")
    with Agent(tmp_path, args=["--session", str(file)]) as agent:
        assert agent.get("clear_queue") == {"steering": ["two"], "followUp": ["one"]}


def test_a_session_that_was_left_is_synced_at_the_latest_when_the_program_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = Faulty(tmp_path, monkeypatch, "fsync:error=EIO")
    with Agent(tmp_path, args=faulty.args) as agent:
        agent.write(b'{"type":"follow_up","message":"one"}\n{"type":"new_session"}\n')  # sooner than it would be synced
        agent.close()
        assert agent.exit_code() == 0
    assert len(faulty.syncs()) >= 2  # when it was left, and at the end
