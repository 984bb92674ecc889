"""Sessions as a client and their files know them: what was acknowledged is there, whatever happens."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.rpc_agent import Agent
from support.rpc_process import Json, Pipe, calls, endless, kinds, of, piece, said, text, texts

IN_USE = r"Session .*{name} is in use by process {pid}\. Close it there, or start with --fork to continue in a copy\."


def file_of(agent: Agent) -> Path:
    return Path(agent.get("get_state")["sessionFile"])


def entries(path: Path) -> list[Json]:
    """The entries of a sound file."""
    header, *rest = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert header["type"] == "session"
    return rest


def messages(path: Path) -> list[tuple[str, str]]:
    found = [entry["message"] for entry in entries(path) if entry["type"] == "message"]
    return [(message["role"], text(message)) for message in found]


def conversation(agent: Agent) -> list[str]:
    return [text(message) for message in agent.get("get_messages")["messages"]]


def streaming(agent: Agent, prompt: str = "go") -> None:
    """Have it say something and not come to an end."""
    agent.get("prompt", message=prompt)
    agent.until(piece)


def killed(agent: Agent) -> None:
    agent.signal(signal.SIGKILL)
    assert agent.exit_code() == -signal.SIGKILL


def refusal(agent: Agent, kind: str, **fields: Any) -> str:
    response = agent.ask(kind, **fields)
    assert response["success"] is False
    return str(response["error"])


def stored(path: Path, *lines: Json | bytes, **header: Any) -> Path:
    """A session file of somebody else's making."""
    first = {"type": "session", "version": 3, "id": path.stem, "timestamp": TIME, "cwd": "", **header}
    path.parent.mkdir(parents=True, exist_ok=True)
    content = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in (first, *lines)]
    path.write_bytes(b"".join(line + b"\n" for line in content))
    return path


TIME = "2026-03-15T10:00:00.000Z"


def message(id: str, parent: str | None, content: Any = None, role: str = "user") -> Json:
    blocks = [{"type": "text", "text": id.upper()}] if content is None else content
    return {
        "type": "message",
        "id": id,
        "parentId": parent,
        "timestamp": TIME,
        "message": {"role": role, "content": blocks, "timestamp": 1},
    }


# Written before it is told.


@pytest.mark.promise("D12", "D13")
def test_a_prompt_is_in_a_private_file_when_it_is_acknowledged(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("so far")) as agent:
        path = file_of(agent)
        folder = "--" + str(agent.cwd).removeprefix("/").replace("/", "-") + "--"
        assert (path.parent, path.exists()) == (tmp_path / "agent" / "sessions" / folder, False)
        agent.get("prompt", message="go")
        assert messages(path) == [("user", "go")]
        assert [entry["type"] for entry in entries(path)] == ["model_change", "thinking_level_change", "message"]
        modes = [item.stat().st_mode & 0o777 for item in (path, path.parent, path.parent.parent)]
        assert modes == [0o600, 0o700, 0o700]
        killed(agent)
    assert messages(path) == [("user", "go")]


@pytest.mark.promise("D11")
def test_everything_that_was_reported_is_in_the_file_at_that_moment(tmp_path: Path) -> None:
    with Agent(tmp_path, calls("echo hi"), {"text": "done"}) as agent:
        agent.get("prompt", message="go")
        path, heard = file_of(agent), 0
        while heard < 4:
            agent.until("message_end")
            heard += 1
            assert len(messages(path)) >= heard
        agent.settled()
        ended = [event["message"] for event in of("message_end", agent.events)]
        assert [entry["message"] for entry in entries(path) if entry["type"] == "message"] == ended
        agent.get("set_session_name", name="  mine ")
        assert entries(path)[-1]["name"] == "mine"
        agent.get("set_thinking_level", level="low")
        assert entries(path)[-1]["thinkingLevel"] == "low"
        agent.get("bash", command="echo $((20 + 22))")
        assert entries(path)[-1]["message"]["output"] == "42\n"


def test_a_session_that_is_opened_again_is_what_it_was(tmp_path: Path) -> None:
    with Agent(tmp_path, calls("echo hi"), {"text": "done"}) as agent:
        agent.prompt("go")
        agent.get("set_session_name", name="mine")
        told = ("get_messages", "get_entries", "get_tree", "get_fork_messages", "get_last_assistant_text")
        before = {command: agent.get(command) for command in told}
        stats, state = agent.get("get_session_stats"), agent.get("get_state")
    with Agent(tmp_path, args=["--continue"]) as agent:
        assert {command: agent.get(command) for command in told} == before
        assert (agent.get("get_session_stats"), agent.get("get_state")) == (stats, state)
        assert agent.events == []
        agent.prompt("more")
        assert messages(Path(state["sessionFile"]))[-2:] == [("user", "more"), ("assistant", "ok")]


@pytest.mark.promise("B16")
@pytest.mark.parametrize("command", ["steer", "follow_up"])
def test_what_was_queued_survives_a_kill_and_is_delivered_in_the_resumed_session(tmp_path: Path, command: str) -> None:
    with Agent(tmp_path, endless("so far")) as agent:
        streaming(agent)
        for at in range(3):
            agent.get(command, message=f"later {at}")
        killed(agent)
    with Agent(tmp_path, args=["--continue"]) as agent:
        assert agent.get("get_state")["pendingMessageCount"] == 3
        assert texts(agent.prompt("again"), "user") == ["again", "later 0", "later 1", "later 2"]
    with Agent(tmp_path, args=["--continue"]) as agent:
        assert agent.get("get_state")["pendingMessageCount"] == 0
        assert texts(agent.prompt("once more"), "user") == ["once more"]


@pytest.mark.process
def test_what_was_queued_before_the_first_prompt_survives_a_kill(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.get("steer", message="psst")
        killed(agent)
    with Agent(tmp_path, args=["--continue"]) as agent:
        assert texts(agent.prompt("hello"), "user") == ["hello", "psst"]


@pytest.mark.process
def test_a_cleared_queue_does_not_come_back(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("hello")
        agent.get("follow_up", message="later")
        agent.get("clear_queue")
        killed(agent)
    with Agent(tmp_path, args=["--continue"]) as agent:
        assert agent.get("get_state")["pendingMessageCount"] == 0


# From one session to another.


def test_a_new_session_is_another_file_that_may_name_its_parent(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("old")
        old = file_of(agent)
        assert agent.get("new_session", parentSession=str(old)) == {"cancelled": False}
        new = file_of(agent)
        assert (new != old, new.exists(), conversation(agent)) == (True, False, [])
        agent.prompt("new")
        assert json.loads(new.read_bytes().splitlines()[0])["parentSession"] == str(old)
        assert (messages(old), messages(new)) == (
            [("user", "old"), ("assistant", "ok")],
            [("user", "new"), ("assistant", "ok")],
        )


@pytest.mark.parametrize(
    ("words", "level"),
    [
        ([], "high"),
        (["--model", "p/m"], "high"),
        (["--provider", "p"], "high"),
        (["--thinking", "low"], "low"),
        (["--model", "p/m", "--thinking", "low"], "low"),
        (["--model", "p/m:low"], "low"),
    ],
)
@pytest.mark.parametrize("extension", [False, True])
def test_only_a_named_level_replaces_the_level_of_a_session(
    tmp_path: Path, words: list[str], level: str, extension: bool
) -> None:
    model = {"id": "m", "reasoning": True, "contextWindow": 1000}
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "apiKey": "k", "models": [model]}
    given: Json = {
        "offline": False,
        "models": {"providers": {"p": provider}},
        "settings": {"defaultThinkingLevel": "off", "retry": {"enabled": False}},
    }
    lines = [
        {"type": "model_change", "id": "a", "parentId": None, "timestamp": TIME, "provider": "p", "modelId": "m"},
        {"type": "thinking_level_change", "id": "b", "parentId": "a", "timestamp": TIME, "thinkingLevel": "high"},
    ]
    file = stored(tmp_path / "old.jsonl", *lines)
    if extension:  # models are then chosen again when it is loaded
        code = f"def setup(pi):\n    pi.register_provider('q', {provider!r})\n"
        (tmp_path / "ext.py").write_text(code)
        words = [*words, "-e", str(tmp_path / "ext.py")]
    with Agent(tmp_path, args=["--session", str(file), *words], **given) as agent:
        assert agent.get("get_state")["thinkingLevel"] == level
        agent.prompt("hi")
        changes = [entry["thinkingLevel"] for entry in entries(file) if entry["type"] == "thinking_level_change"]
        assert changes == (["high"] if level == "high" else ["high", level])
    with Agent(tmp_path, args=["--session", str(file)], **given) as agent:
        assert agent.get("get_state")["thinkingLevel"] == level


def test_switching_brings_back_what_a_session_was(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("first")
        agent.get("set_session_name", name="one")
        agent.get("set_thinking_level", level="high")
        first, was = file_of(agent), agent.get("get_state")
        agent.get("new_session")
        agent.get("set_thinking_level", level="low")
        agent.prompt("second")
        second = file_of(agent)
        assert agent.get("switch_session", sessionPath=str(first)) == {"cancelled": False}
        assert (agent.get("get_state"), conversation(agent)) == (was, ["first", "ok"])
        agent.prompt("third")
        assert [words for _, words in messages(first)] == ["first", "ok", "third", "ok"]
        agent.get("switch_session", sessionPath=os.path.relpath(second, agent.cwd))
        assert conversation(agent) == ["second", "ok"]
        agent.get("switch_session", sessionPath=str(second))
        assert conversation(agent) == ["second", "ok"]


@pytest.mark.process
def test_a_switch_tells_what_waits_there_though_as_many_waited_here(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("there")
        there = file_of(agent)
        agent.get("follow_up", message="waits there")
        killed(agent)
    with Agent(tmp_path) as agent:
        agent.prompt("here")
        agent.get("steer", message="waits here")
        agent.get("switch_session", sessionPath=str(there))
        assert agent.get("get_state")["pendingMessageCount"] == 1
        told = of("queue_update", agent.events)[-1]
        assert (told["steering"], told["followUp"]) == ([], ["waits there"])


@pytest.mark.process
def test_a_queue_is_cleared_in_the_session_that_is_gone_to(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("there")
        there = file_of(agent)
        agent.get("follow_up", message="waits there")
        killed(agent)
    with Agent(tmp_path) as agent:
        agent.prompt("here")
        switching = agent.send("switch_session", sessionPath=str(there))
        assert agent.get("clear_queue") == {"steering": [], "followUp": ["waits there"]}
        assert agent.response(switching)["success"]


def test_switching_to_where_nothing_is_begins_a_session_there(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        path = tmp_path / "mine.jsonl"
        agent.get("switch_session", sessionPath=str(path))
        assert (file_of(agent), path.exists()) == (path, False)
        agent.prompt("here")
        assert messages(path) == [("user", "here"), ("assistant", "ok")]


def test_a_fork_begins_before_a_message_of_the_user(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        agent.prompt("two")
        old = file_of(agent)
        before = old.read_bytes()
        points = agent.get("get_fork_messages")["messages"]
        assert [point["text"] for point in points] == ["one", "two"]
        assert agent.get("fork", entryId=points[1]["entryId"]) == {"text": "two", "cancelled": False}
        new = file_of(agent)
        assert (conversation(agent), messages(new), old.read_bytes()) == (
            ["one", "ok"],
            [("user", "one"), ("assistant", "ok")],
            before,
        )
        assert json.loads(new.read_bytes().splitlines()[0])["parentSession"] == str(old)
        agent.prompt("2")
        assert (conversation(agent), old.read_bytes()) == (["one", "ok", "2", "ok"], before)
        for nowhere in ("zork", entries(new)[-1]["id"]):
            assert refusal(agent, "fork", entryId=nowhere) == "Invalid entry ID for forking"
        agent.get("fork", entryId=points[0]["entryId"])
        assert (conversation(agent), file_of(agent).exists()) == ([], False)


def test_a_clone_is_a_copy_that_goes_its_own_way(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        old = file_of(agent)
        before = old.read_bytes()
        assert agent.get("clone") == {"cancelled": False}
        new = file_of(agent)
        assert (new != old, entries(new), conversation(agent)) == (True, entries(old), ["one", "ok"])
        agent.prompt("two")
        assert (len(messages(new)), old.read_bytes()) == (4, before)


def leave(agent: Agent, how: str, folder: Path) -> None:
    match how:
        case "new_session" | "clone":
            agent.get(how)
        case "fork":
            agent.get("fork", entryId=agent.get("get_fork_messages")["messages"][-1]["entryId"])
        case "switch_session":
            agent.get("switch_session", sessionPath=str(stored(folder / "other.jsonl", message("a", None))))


@pytest.mark.promise("B03", "B04", "B05")
@pytest.mark.parametrize("how", ["new_session", "clone", "fork", "switch_session"])
def test_leaving_a_session_ends_its_run_and_keeps_its_partial_answer(tmp_path: Path, how: str) -> None:
    with Agent(tmp_path, endless("so ", "far")) as agent:
        streaming(agent)
        old = file_of(agent)
        agent.get("steer", message="never said")
        leave(agent, how, tmp_path)
        assert kinds(agent.settled())[-2:] == ["agent_end", "agent_settled"]
        answer = [entry["message"] for entry in entries(old) if entry["type"] == "message"][-1]
        assert (answer["role"], answer["stopReason"]) == ("assistant", "aborted")
        assert "so far".startswith(text(answer)) and text(answer)
        state = agent.get("get_state")
        assert (state["sessionFile"] != str(old), state["isStreaming"], state["pendingMessageCount"]) == (
            True,
            False,
            0,
        )
        before = old.read_bytes()
        agent.get("set_session_name", name="new")
        assert old.read_bytes() == before


# What no session is.


@pytest.mark.promise("D04", "D05", "H10")
def test_what_is_no_session_is_refused_and_left_alone(tmp_path: Path) -> None:
    notes, fifo, folder = tmp_path / "notes.md", tmp_path / "fifo.jsonl", tmp_path / "folder"
    notes.write_text("# Notes\n")
    os.mkfifo(fifo)
    folder.mkdir()
    no_file = "is not a regular file, so it cannot be a session."
    refused = {
        notes: f"{notes} is not a session file; it was left untouched.",
        fifo: f"{fifo} {no_file}",
        folder: f"{folder} {no_file}",
        Path("/dev/zero"): f"/dev/zero {no_file}",
        tmp_path / "no" / "where.jsonl": f"Cannot begin a session at {tmp_path}/no/where.jsonl: "
        f"there is no folder {tmp_path}/no.",
    }
    with Agent(tmp_path, endless("so far")) as agent:
        streaming(agent)
        before = file_of(agent)
        for path, words in refused.items():
            assert refusal(agent, "switch_session", sessionPath=str(path)) == words
        state = agent.get("get_state")
        assert (state["sessionFile"], state["isStreaming"]) == (str(before), True)
    assert (notes.read_text(), notes.stat().st_size, folder.is_dir()) == ("# Notes\n", 8, True)
    for path, words in refused.items():
        started = Agent(tmp_path, args=["--session", str(path)])
        assert started.exit_code() == 2
        assert started.stderr == f"Error: {words}\n"
        started.end()
    assert notes.read_text() == "# Notes\n"


# One writer.


@pytest.mark.promise("D10")
def test_a_second_process_is_refused_at_the_start(tmp_path: Path) -> None:
    with Agent(tmp_path / "first") as first:
        first.prompt("mine")
        path = file_of(first)
        before = path.read_bytes()
        second = Agent(tmp_path / "second", args=["--session", str(path)])
        assert second.exit_code() == 2
        expected = IN_USE.format(name=re.escape(path.name), pid=first.pid)
        assert re.fullmatch(f"Error: {expected}\n", second.stderr)
        second.end()
        assert path.read_bytes() == before


@pytest.mark.promise("D10")
def test_a_second_process_is_refused_when_it_switches_and_goes_on_where_it_was(tmp_path: Path) -> None:
    with Agent(tmp_path / "first") as first, Agent(tmp_path / "second", endless("so far")) as second:
        first.prompt("mine")
        path = file_of(first)
        streaming(second)
        error = refusal(second, "switch_session", sessionPath=str(path))
        assert re.fullmatch(IN_USE.format(name=re.escape(path.name), pid=first.pid), error)
        assert second.get("get_state")["isStreaming"]
        first.prompt("still mine")
        assert len(messages(path)) == 4
        # What one process leaves, another may have.
        first.get("new_session")
        second.get("switch_session", sessionPath=str(path))
        assert conversation(second) == ["mine", "ok", "still mine", "ok"]
        assert "in use by process" in refusal(first, "switch_session", sessionPath=str(path))


def test_a_session_in_use_can_be_gone_on_with_in_a_copy(tmp_path: Path) -> None:
    with Agent(tmp_path / "first") as first:
        first.prompt("mine")
        path = file_of(first)
        with Agent(tmp_path / "second", args=["--fork", str(path)]) as second:
            assert conversation(second) == ["mine", "ok"]
            second.prompt("yours")
            first.prompt("mine again")
            assert (conversation(first), len(messages(path))) == (["mine", "ok", "mine again", "ok"], 4)
            assert conversation(second) == ["mine", "ok", "yours", "ok"]


# Writes that fail.


def fill(agent: Agent, room: int | None) -> None:
    """Let its files grow no larger than this: to the program it is a full disk. None: as large as they like."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (hard if room is None else room, hard))


@pytest.mark.promise("H07")
def test_when_the_disk_is_full_a_prompt_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("before")
        path = file_of(agent)
        content = path.read_bytes()
        fill(agent, len(content) + 10)
        for _ in range(2):
            error = refusal(agent, "prompt", message="refused")
            assert error == f"The session file {path} cannot be written: File too large"
        assert (path.read_bytes(), conversation(agent)) == (content, ["before", "ok"])
        fork = agent.get("get_fork_messages")["messages"][0]["entryId"]
        fill(agent, 10)
        assert "cannot be written: File too large" in refusal(agent, "clone")
        assert len(list(path.parent.iterdir())) == 1
        agent.get("fork", entryId=fork)
        assert "cannot be written: File too large" in refusal(agent, "prompt", message="refused")
        agent.get("switch_session", sessionPath=str(path))
        fill(agent, None)
        agent.prompt("after")
        assert [words for _, words in messages(path)] == ["before", "ok", "after", "ok"]
        assert of("session_write_failed", agent.events) == []


@pytest.mark.promise("H07")
def test_when_the_disk_fills_up_during_a_run_the_client_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path, calls(f"read x <{gate.path}"), {"text": "done"}) as agent:
        agent.get("prompt", message="go")
        agent.until("tool_execution_start")
        path = file_of(agent)
        content = path.read_bytes()
        fill(agent, len(content) + 100)
        gate.say()
        events = agent.settled()
        failures = of("session_write_failed", events)
        assert failures[0] == {
            "type": "session_write_failed",
            "sessionFile": str(path),
            "error": "File too large",
            "waiting": 1,
        }
        assert [failure["waiting"] for failure in failures] == [1, 2]
        assert path.read_bytes() == content  # no half line
        assert len(agent.get("get_messages")["messages"]) == 4
        assert "File too large" in refusal(agent, "prompt", message="refused")
        fill(agent, None)
        assert agent.until("session_write_recovered")[-1] == {
            "type": "session_write_recovered",
            "sessionFile": str(path),
        }
        assert [role for role, _ in messages(path)] == ["user", "assistant", "toolResult", "assistant"]
        agent.prompt("next")
        told = agent.get("get_messages")
    with Agent(tmp_path, args=["--continue"]) as agent:
        assert (agent.get("get_messages"), agent.events) == (told, [])


@contextmanager
def without_room(folder: Path) -> Iterator[tuple[Agent, Path]]:
    """An agent whose session cannot be written."""
    with Pipe(folder / "gate") as gate, Agent(folder, calls(f"read x <{gate.path}"), {"text": "done"}) as agent:
        agent.get("prompt", message="go")
        agent.until("tool_execution_start")
        path = file_of(agent)
        fill(agent, path.stat().st_size + 100)
        gate.say()
        agent.settled()
        yield agent, path


@pytest.mark.promise("H07")
def test_a_session_that_is_left_as_soon_as_there_is_room_again_is_reported_to_be_whole(tmp_path: Path) -> None:
    with without_room(tmp_path) as (agent, path):
        fill(agent, None)
        agent.get("new_session")
        assert [role for role, _ in messages(path)] == ["user", "assistant", "toolResult", "assistant"]
        whole = {"type": "session_write_recovered", "sessionFile": str(path)}
        assert of("session_write_recovered", agent.events) == [whole]


@pytest.mark.promise("H07")
def test_a_session_that_was_left_while_it_could_not_be_synced_is_reported_to_be_whole_when_it_is(
    tmp_path: Path,
) -> None:
    with without_room(tmp_path) as (agent, path):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft, hard = resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (3, most))
        fill(agent, None)  # only now: it finds out by itself, at some moment
        agent.get("new_session")
        assert of("session_write_recovered", agent.events) == []
        resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (soft, hard))
        whole = {"type": "session_write_recovered", "sessionFile": str(path)}
        assert agent.until("session_write_recovered")[-1] == whole
        assert [role for role, _ in messages(path)] == ["user", "assistant", "toolResult", "assistant"]


@pytest.mark.promise("D17")
def test_a_file_that_is_deleted_comes_back_whole(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        path = file_of(agent)
        path.unlink()
        agent.prompt("two")
        assert [words for _, words in messages(path)] == ["one", "ok", "two", "ok"]
        told = agent.get("get_entries")
    with Agent(tmp_path, args=["--continue"]) as agent:
        assert agent.get("get_entries") == told


@pytest.mark.promise("D16")
def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "sessions").write_text("in the way")
    with Agent(tmp_path) as agent:
        assert "cannot be written: Not a directory" in refusal(agent, "prompt", message="hello")
        (tmp_path / "agent" / "sessions").unlink()
        agent.prompt("hello")
        assert messages(file_of(agent)) == [("user", "hello"), ("assistant", "ok")]


# Damage.


@pytest.mark.promise("D01", "D02", "D03", "D09")
def test_damage_is_reported_and_the_rest_is_there(tmp_path: Path) -> None:
    odd = message("d", "c", content=5)
    path = stored(tmp_path / "s.jsonl", message("a", None), b"\0" * 50, message("c", "b"), odd, message("e", "d"))
    with path.open("ab") as file:
        file.write(b'{"type":"message","id":"torn')
    content = path.read_bytes()
    with Agent(tmp_path) as agent:
        agent.get("switch_session", sessionPath=str(path))
        told = agent.until("session_damaged")[-1]
        assert told["sessionFile"] == str(path)
        assert [problem.split(" (")[0] for problem in told["problems"]] == [
            "line 3: unreadable, skipped",
            "line 4: its parent b is missing; attached to the entry before it",
            "line 7: unreadable, skipped",
        ]
        assert [entry["id"] for entry in agent.get("get_entries")["entries"]] == list("acde")
        assert path.read_bytes() == content
        agent.prompt("more")
        assert path.read_bytes().startswith(content + b"\n")
    with Agent(tmp_path, args=["--session", str(path)]) as agent:
        assert len(agent.until("session_damaged")[-1]["problems"]) == 3
        ids = [entry["id"] for entry in agent.get("get_entries")["entries"]]
        assert ids[:4] == list("acde") and len(agent.get("get_fork_messages")["messages"]) == 4
        assert agent.get("get_last_assistant_text") == {"text": "ok"}


@pytest.mark.promise("D07")
def test_a_circle_of_parents_opens(tmp_path: Path) -> None:
    path = stored(tmp_path / "s.jsonl", message("a", "b"), message("b", "a"), message("c", "c"))
    with Agent(tmp_path, args=["--session", str(path)]) as agent:
        agent.until("session_damaged")
        assert len(agent.get("get_entries")["entries"]) == 3
        agent.prompt("on")


@pytest.mark.promise("D18")
def test_a_clock_that_goes_back_does_not_change_the_order(tmp_path: Path) -> None:
    said_tomorrow = [{**message(id, parent), "timestamp": "2199-01-01T00:00:00.000Z"} for parent, id in ("ab", "bc")]
    for entry in said_tomorrow:
        entry["message"]["timestamp"] = 7_226_582_400_000
    path = stored(tmp_path / "s.jsonl", message("a", None), *said_tomorrow)
    with Agent(tmp_path, {"text": "one"}, {"text": "two"}, args=["--session", str(path)]) as agent:
        agent.prompt("first")
        agent.prompt("second")
        told = conversation(agent)
        tree = agent.get("get_tree")
    assert told == ["A", "B", "C", "first", "one", "second", "two"]
    with Agent(tmp_path, args=["--session", str(path)]) as agent:
        assert (conversation(agent), agent.get("get_tree"), agent.events) == (told, tree, [])
        points = [point["text"] for point in agent.get("get_fork_messages")["messages"]]
        assert points == ["A", "B", "C", "first", "second"]


def test_an_older_session_is_lifted_when_there_is_something_to_add(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    old = [{"type": "session", "id": "old", "timestamp": TIME, "cwd": ""}]
    old += [{"type": "message", "timestamp": TIME, "message": message("x", None)["message"]}] * 2
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    before = path.read_bytes()
    with Agent(tmp_path, args=["--session", str(path)]) as agent:
        assert (conversation(agent), path.read_bytes()) == (["X", "X"], before)
        agent.prompt("new")
    assert path.with_name("old.jsonl.bak").read_bytes() == before
    with Agent(tmp_path, args=["--session", str(path)]) as agent:
        assert (conversation(agent), agent.events) == (["X", "X", "new", "ok"], [])


def test_bytes_that_are_no_utf_8_do_not_reach_the_client(tmp_path: Path) -> None:
    broken = b'{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"\xff","timestamp":1}}'
    odd = message("c", "a", [{"type": "text", "text": "\u2028 \ud800"}])
    path = stored(tmp_path / "s.jsonl", message("a", None), broken, odd)
    path.write_bytes(path.read_bytes().replace(b"\\u2028", "\u2028".encode()))
    with Agent(tmp_path, args=["--session", str(path)]) as agent:
        assert conversation(agent) == ["A", "\u2028 \ud800"]
        assert [entry["id"] for entry in agent.get("get_entries")["entries"]] == ["a", "c"]
        agent.get("get_tree")
        agent.prompt("on")


# The tree.


def shape(nodes: Iterable[Json]) -> str:
    """Messages and their children; what else there is stands in between and is passed through."""
    told = []
    for node in nodes:
        inner = shape(node["children"])
        spoken = node["entry"]["type"] == "message" and node["entry"]["message"]["role"] == "user"
        told.append(f"{text(node['entry']['message'])}({inner})" if spoken else inner)
    return "".join(told)


def test_entries_are_reported_from_the_beginning_or_since_one(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        first = agent.get("get_entries")
        assert (first["entries"], first["leafId"]) == (entries(file_of(agent)), first["entries"][-1]["id"])
        agent.prompt("two")
        more = agent.get("get_entries", since=first["leafId"])
        assert [text(entry["message"]) for entry in more["entries"]] == ["two", "ok"]
        assert agent.get("get_entries", since=more["leafId"]) == {"entries": [], "leafId": more["leafId"]}
        assert refusal(agent, "get_entries", since="zork") == "Entry not found: zork"


def test_one_can_go_back_and_on_from_there_in_the_same_file(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        for words in ("one", "two", "three"):
            agent.prompt(words)
        path = file_of(agent)
        points = agent.get("get_fork_messages")["messages"]
        gone = agent.get("navigate", entryId=points[1]["entryId"])
        answer = entries(path)[-5]
        assert gone == {"cancelled": False, "editorText": "two", "leafId": answer["id"]}
        assert (text(answer["message"]), conversation(agent)) == ("ok", ["one", "ok"])
        agent.prompt("2")
        assert (conversation(agent), file_of(agent)) == (["one", "ok", "2", "ok"], path)
        assert shape(agent.get("get_tree")["tree"]) == "one(two(three())2())"
        # To an answer: on from there.
        assert "editorText" not in agent.get("navigate", entryId=answer["id"])
        assert conversation(agent) == ["one", "ok"]
        # To the first message of all: a new root.
        agent.get("navigate", entryId=points[0]["entryId"])
        assert conversation(agent) == []
        assert refusal(agent, "navigate", entryId="zork") == "Entry not found: zork"
    with Agent(tmp_path, args=["--continue"]) as agent:
        # What was said last is where one was.
        assert conversation(agent) == ["one", "ok", "2", "ok"]


def test_a_label_is_shown_in_the_tree(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        answer = entries(file_of(agent))[-1]["id"]
        agent.prompt("two")
        agent.get("navigate", entryId=answer, label="good so far")
        assert (entries(file_of(agent))[-1]["targetId"], conversation(agent)) == (answer, ["one", "ok"])
        tree = json.dumps(agent.get("get_tree")["tree"])
        assert '"label": "good so far"' in tree
        agent.get("clone")
        assert '"label": "good so far"' in json.dumps(agent.get("get_tree")["tree"])


def test_the_label_of_a_users_message_is_on_that_message(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        agent.prompt("two")
        point = agent.get("get_fork_messages")["messages"][1]["entryId"]
        agent.get("navigate", entryId=point, label="again")
        assert entries(file_of(agent))[-1]["targetId"] == point


def test_what_is_left_behind_may_be_summarized(tmp_path: Path) -> None:
    answers = [{"text": "an answer"}, {"text": "a dead end"}, {"text": "We tried a dead end."}, {"text": "better"}]
    with Agent(tmp_path, *answers) as agent:
        agent.prompt("one")
        agent.prompt("two")
        left = entries(file_of(agent))[-1]["id"]
        back = entries(file_of(agent))[-3]["id"]
        gone = agent.get("navigate", entryId=back, summarize=True, customInstructions="be brief", label="tried")
        *_, summary, label = entries(file_of(agent))
        assert (summary["type"], summary["parentId"], summary["fromId"]) == ("branch_summary", back, left)
        assert "We tried a dead end." in summary["summary"]
        assert (label["targetId"], gone) == (summary["id"], {"cancelled": False, "leafId": label["id"]})
        roles = [said["role"] for said in agent.get("get_messages")["messages"]]
        assert roles == ["user", "assistant", "branchSummary"]
        agent.prompt("three")
        told = agent.get("get_messages")
        assert len(told["messages"]) == 5
    with Agent(tmp_path, args=["--continue"]) as agent:
        assert agent.get("get_messages") == told


def test_a_summary_that_is_aborted_leaves_everything_as_it_was(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "one"}, {"text": "two"}, endless("hm")) as agent:
        agent.prompt("1")
        agent.prompt("2")
        before = agent.get("get_entries")
        back = entries(file_of(agent))[-3]["id"]
        going = agent.send("navigate", entryId=back, summarize=True)
        while not agent.get("get_state")["isCompacting"]:
            pass
        agent.get("abort")
        leaf = before["leafId"]
        assert agent.response(going)["data"] == {"cancelled": True, "leafId": leaf}
        assert agent.get("get_entries") == before


# Names and lists.


def test_a_session_has_the_name_it_was_given_last(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        assert "sessionName" not in agent.get("get_state")
        agent.get("set_session_name", name="early")
        agent.prompt("one")
        agent.get("set_session_name", name=" late\t")
        assert agent.get("get_state")["sessionName"] == "late"
        assert refusal(agent, "set_session_name", name=" ") == "Session name cannot be empty"
    with Agent(tmp_path, args=["--continue"]) as agent:
        assert agent.get("get_state")["sessionName"] == "late"


def test_the_sessions_of_this_project_or_of_all_are_listed(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        assert agent.get("list_sessions") == {"sessions": []}
        agent.prompt("first")
        one = file_of(agent)
        agent.get("clone")
        agent.get("set_session_name", name="copy")
        agent.prompt("second")
        two = file_of(agent)
        elsewhere = stored(one.parent.parent / "--else--" / "x.jsonl", message("a", None), cwd="/else")
        os.utime(elsewhere, (0, 0))
        listed = agent.get("list_sessions")["sessions"]
        assert [row["path"] for row in listed] == [str(two), str(one)]
        assert {
            key: listed[0][key] for key in ("cwd", "name", "parentSessionPath", "messageCount", "firstMessage")
        } == {
            "cwd": str(agent.cwd),
            "name": "copy",
            "parentSessionPath": str(one),
            "messageCount": 4,
            "firstMessage": "first",
        }
        everywhere = agent.get("list_sessions", all=True)["sessions"]
        assert [row["path"] for row in everywhere] == [str(two), str(one), str(elsewhere)]


# How it is started.


def test_a_start_goes_on_with_the_last_session_of_this_project_or_begins_one(tmp_path: Path) -> None:
    with Agent(tmp_path, args=["--continue"]) as agent:
        assert conversation(agent) == []
        agent.prompt("one")
    with Agent(tmp_path) as agent:
        assert conversation(agent) == []
        agent.prompt("two")
        path = file_of(agent)
    newer = stored(path.parent / "newer.jsonl", message("a", None), cwd="/somewhere/else")
    os.utime(newer, (2**31, 2**31))
    with Agent(tmp_path, args=["-c"]) as agent:
        assert (conversation(agent), file_of(agent)) == (["two", "ok"], path)


def test_a_session_is_named_by_its_path_or_the_beginning_of_its_id(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        path, id = file_of(agent), agent.get("get_state")["sessionId"]
    for named in (os.path.relpath(path, tmp_path / "work"), id[:13]):
        with Agent(tmp_path, args=["--session", named]) as agent:
            assert (conversation(agent), agent.get("get_state")["sessionId"]) == (["one", "ok"], id)
    stranger = Agent(tmp_path, args=["--session", "zork"])
    assert (stranger.exit_code(), stranger.stderr) == (2, "Error: No session found matching 'zork'\n")
    stranger.end()
    new = tmp_path / "new.jsonl"
    with Agent(tmp_path, args=["--session", str(new)]) as agent:
        agent.prompt("here")
        assert messages(new) == [("user", "here"), ("assistant", "ok")]


def test_a_session_that_is_named_wins_over_the_last_one_as_in_pi(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("the last")
    named = tmp_path / "named.jsonl"
    with Agent(tmp_path, args=["--continue", "--session", str(named)]) as agent:
        agent.prompt("here")
    assert messages(named) == [("user", "here"), ("assistant", "ok")]


def test_a_session_may_have_an_id_of_ones_own(tmp_path: Path) -> None:
    for turn in range(2):
        with Agent(tmp_path, args=["--session-id", "my.own-id_1"]) as agent:
            assert (agent.get("get_state")["sessionId"], len(conversation(agent))) == ("my.own-id_1", 2 * turn)
            agent.prompt("again")
            assert file_of(agent).name.endswith("_my.own-id_1.jsonl")
    for wrong in ("-x", "a/b"):
        refused = Agent(tmp_path, args=[f"--session-id={wrong}"])
        assert refused.exit_code() == 2 and "--session-id" in refused.stderr
        refused.end()


def test_a_start_may_go_on_in_a_copy(tmp_path: Path) -> None:
    with Agent(tmp_path / "there") as agent:
        agent.prompt("one")
        path = file_of(agent)
        before = path.read_bytes()
    with Agent(tmp_path / "here", args=["--fork", str(path)]) as agent:
        assert conversation(agent) == ["one", "ok"]
        agent.prompt("two")
        copy = file_of(agent)
        header = json.loads(copy.read_bytes().splitlines()[0])
        assert (header["cwd"], header["parentSession"]) == (str(agent.cwd), str(path))
        assert copy.is_relative_to(tmp_path / "here" / "agent" / "sessions")
    assert path.read_bytes() == before
    missing = Agent(tmp_path, args=["--fork", str(tmp_path / "missing.jsonl")])
    assert (missing.exit_code(), missing.stderr.startswith("Error: Cannot fork")) == (2, True)
    missing.end()


def test_sessions_may_be_kept_in_another_folder(tmp_path: Path) -> None:
    with Agent(tmp_path, args=["--session-dir", str(tmp_path / "mine")]) as agent:
        agent.prompt("one")
        path = file_of(agent)
        assert (path.parent, path.parent.stat().st_mode & 0o777) == (tmp_path / "mine", 0o700)
        assert not (tmp_path / "agent" / "sessions").exists()
        stored(tmp_path / "other" / "x.jsonl", message("a", None))
        stored(tmp_path / "mine" / "y.jsonl", message("a", None), cwd="/elsewhere")
        assert len(agent.get("list_sessions")["sessions"]) == 1
        assert len(agent.get("list_sessions", all=True)["sessions"]) == 2
    with Agent(tmp_path, args=["--session-dir", str(tmp_path / "mine"), "--continue"]) as agent:
        assert (conversation(agent), file_of(agent)) == (["one", "ok"], path)


def test_a_session_may_be_kept_in_memory_only(tmp_path: Path) -> None:
    with Agent(tmp_path, args=["--no-session"]) as agent:
        agent.prompt("one")
        agent.get("steer", message="later")
        assert "sessionFile" not in agent.get("get_state")
        agent.get("clone")
        assert conversation(agent) == ["one", "ok"]
        agent.get("new_session")
        agent.prompt("two")
        assert agent.get("list_sessions") == {"sessions": []}
    assert not (tmp_path / "agent" / "sessions").exists()


def test_a_session_may_be_named_at_the_start(tmp_path: Path) -> None:
    with Agent(tmp_path, args=["--name", " first "]) as agent:
        assert agent.get("get_state")["sessionName"] == "first"
        agent.prompt("one")
        path = file_of(agent)
    with Agent(tmp_path, args=["-c", "-n", "second"]) as agent:
        assert (agent.get("get_state")["sessionName"], entries(path)[-1]["name"]) == ("second", "second")


# In any order.


def line(id: str, kind: str, **fields: Any) -> bytes:
    return json.dumps({"id": id, "type": kind, **fields}).encode() + b"\n"


def test_what_is_asked_behind_a_switch_is_meant_for_the_other_session(tmp_path: Path) -> None:
    other = stored(tmp_path / "other.jsonl", *[message(f"e{at}", f"e{at - 1}" if at else None) for at in range(5000)])
    with Agent(tmp_path) as agent:
        agent.prompt("old")
        old = file_of(agent)
        agent.write(line("s", "switch_session", sessionPath=str(other)) + line("p", "prompt", message="new"))
        assert (agent.response("s")["success"], agent.response("p")["success"]) == (True, True)
        agent.settled()
        assert (len(messages(old)), messages(other)[-2:]) == (2, [("user", "new"), ("assistant", "ok")])


def test_a_fork_behind_a_new_session_is_refused_in_words(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "one"}, endless("so far")) as agent:
        agent.prompt("first")
        point = agent.get("get_fork_messages")["messages"][0]["entryId"]
        streaming(agent)
        agent.write(line("n", "new_session") + line("f", "fork", entryId=point))
        assert agent.response("n")["success"]
        assert agent.response("f").get("error") == "Invalid entry ID for forking"
        assert said(agent.settled(), "assistant")[-1]["stopReason"] == "aborted"


@pytest.mark.promise("H07")
def test_a_session_is_not_left_before_everything_is_written(tmp_path: Path) -> None:
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path, calls(f"read x <{gate.path}"), {"text": "done"}) as agent:
        agent.get("prompt", message="go")
        agent.until("tool_execution_start")
        path = file_of(agent)
        fill(agent, path.stat().st_size + 100)
        gate.say()
        agent.settled()
        for how in ("new_session", "clone"):
            assert f"{path} cannot be written: File too large" in refusal(agent, how)
        assert file_of(agent) == path
        fill(agent, None)
        agent.get("new_session")
        assert [role for role, _ in messages(path)] == ["user", "assistant", "toolResult", "assistant"]


def test_navigating_behind_a_new_session_is_refused_in_words(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "one"}, endless("so far")) as agent:
        agent.prompt("first")
        point = agent.get("get_fork_messages")["messages"][0]["entryId"]
        streaming(agent)
        agent.write(line("n", "new_session") + line("g", "navigate", entryId=point))
        assert agent.response("n")["success"]
        assert agent.response("g").get("error") == f"Entry not found: {point}"


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800", "~nobody-of-this-name/x"])
@pytest.mark.parametrize(("command", "field"), [("switch_session", "sessionPath"), ("export_html", "outputPath")])
def test_what_cannot_be_a_path_is_refused_in_words(tmp_path: Path, command: str, field: str, path: str) -> None:
    with Agent(tmp_path, {"text": "one"}) as agent:
        agent.prompt("first")
        said = agent.ask(command, **{field: path})
    assert (said["success"], said["error"].split(":")[0]) == (False, field)


def test_a_name_that_is_too_long_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "one"}) as agent:
        before = agent.get("get_state")["sessionFile"]
        said = agent.ask("switch_session", sessionPath="a" * 5000 + ".jsonl")
        assert (said["success"], said["error"].endswith("File name too long")) == (False, True)
        assert agent.get("get_state")["sessionFile"] == before


@pytest.mark.parametrize(("levels", "runs"), [(255, True), (257, False)])
def test_arguments_as_deep_as_they_may_be_are_there_when_the_session_is_opened_again(
    tmp_path: Path, levels: int, runs: bool
) -> None:
    """The session's own records are around them, and are nested deeper than what was received."""
    deep: Any = 1
    for _ in range(levels - 1):
        deep = [deep]
    call = {"tool": "bash", "arguments": {"command": "echo ran", "x": deep}, "id": "c"}
    with Agent(tmp_path, {"blocks": [call]}, {"text": "done"}) as agent:
        (result,) = said(agent.prompt("go"), "toolResult")
        assert result["isError"] is not runs
        before = agent.get("get_messages")["messages"]
    with Agent(tmp_path, args=["--continue"]) as agent:
        assert agent.get("get_messages")["messages"] == before
        assert len(before) == 4
