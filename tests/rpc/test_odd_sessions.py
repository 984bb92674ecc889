"""Sessions that other programs wrote, and files without a session, as a client meets them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.test_lenient_sessions import MARK, answer, asked, block, marks, session
from support.model_server import serving
from support.rpc_process import Agent, Json

pytestmark = pytest.mark.process


@contextmanager
def opened(folder: Path, path: Path | None) -> Iterator[tuple[Agent, list[Json]]]:
    """The program with this session, and the requests that its model got."""
    bodies: list[Json] = []
    with serving({}, bodies=bodies) as (address, _):
        own = {"baseUrl": address, "api": "openai-completions", "apiKey": "k", "models": [{"id": "m1"}]}
        args = ["--model", "own/m1", *(() if path is None else ("--session", str(path)))]
        with Agent(folder, models={"providers": {"own": own}}, args=args, offline=False) as agent:
            yield agent, bodies


def written(path: Path, lines: list[Json]) -> Path:
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return path


def test_what_is_shown_is_sent_and_all_commands_agree(tmp_path: Path) -> None:
    lines = session()
    del lines[6]["message"]["timestamp"], lines[10]["tokensBefore"]
    lines[9]["message"]["stopReason"] = "deferred"
    lines[13]["message"]["content"] = [{"type": "unheard_of"}]
    lines[15]["message"] |= {"usage": None, "errorMessage": None}
    before = written(path := tmp_path / "odd.jsonl", lines).read_bytes()
    with opened(tmp_path, path) as (agent, bodies):
        shown = agent.get("get_messages")["messages"]
        said = [mark for message in shown for mark in marks(message)]
        assert said == ["said-06", "said-07", "said-08", "said-09", "said-12"]
        assert agent.get("get_last_assistant_text") == {"text": "said-12"}
        points = agent.get("get_fork_messages")["messages"]
        told = [event for event in agent.prompt("go on") if event["type"] == "session_damaged"]
        assert [problem.split(":")[0] for event in told for problem in event["problems"]] == ["entry j"]
        sent = MARK.findall(json.dumps(bodies[-1]["messages"]))
        assert set(said) <= set(sent) and "said-01" not in sent
        assert path.read_bytes().startswith(before)
        point = next(point for point in points if point["text"] == "said-06said-07")
        assert agent.get("fork", entryId=point["entryId"])["text"] == "said-06said-07"


def test_damage_in_a_long_session_is_told_with_the_next_prompt(tmp_path: Path) -> None:
    long = "x" * 1_000_000
    lines = [*session()[:4], *(answer(str(at), str(at - 1) if at else "b", block(long)) for at in range(5))]
    lines += [asked("z", "4", 5), asked("y", "z", "said-04")]
    with opened(tmp_path, written(tmp_path / "long.jsonl", lines)) as (agent, _):
        told = [event for event in agent.prompt("go on") if event["type"] == "session_damaged"]
    assert [problem.split(":")[0] for event in told for problem in event["problems"]] == ["entry z"]


BLANK = {"empty": b"", "blank": b"\n\n \r\n"}


@pytest.mark.parametrize("name", BLANK)
@pytest.mark.parametrize("way", ["--session", "switch_session"])
def test_an_empty_file_is_a_new_session(tmp_path: Path, name: str, way: str) -> None:
    (path := tmp_path / "s.jsonl").write_bytes(BLANK[name])
    args = ["--session", str(path)] if way == "--session" else []
    with Agent(tmp_path, args=args) as agent:
        if way == "switch_session":
            assert agent.get("switch_session", sessionPath=str(path)) == {"cancelled": False}
        state = agent.get("get_state")
        assert (state["sessionFile"], state["messageCount"]) == (str(path), 0)
        header = json.loads(path.read_bytes().splitlines()[0])
        assert (header["type"], header["id"], header["cwd"]) == ("session", state["sessionId"], str(agent.cwd))
        agent.prompt("hello")
    with Agent(tmp_path, args=["--session", str(path)]) as agent:
        assert [marks for marks in agent.events if marks["type"] == "session_damaged"] == []
        assert [message["role"] for message in agent.get("get_messages")["messages"]] == ["user", "assistant"]
        assert agent.get("get_state")["sessionId"] == state["sessionId"]


def test_an_empty_file_that_another_program_begins_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "s.jsonl").write_bytes(b"")
    with Agent(tmp_path / "one", args=["--session", str(path)]) as one, Agent(tmp_path / "two") as two:
        one.prompt("hello")
        before = path.read_bytes()
        refused = two.ask("switch_session", sessionPath=str(path))
        assert not refused["success"] and "in use by process" in refused["error"] and path.read_bytes() == before


def test_an_empty_file_is_no_session_to_copy(tmp_path: Path) -> None:
    (path := tmp_path / "s.jsonl").write_bytes(b"")
    with Agent(tmp_path, args=["--fork", str(path)]) as agent:
        assert agent.exit_code() == 2
    assert "is not a session file" in agent.stderr and path.read_bytes() == b""


def test_the_user_messages_of_all_branches_can_be_forked_from(tmp_path: Path) -> None:
    with Agent(tmp_path, args=["--session", str(written(tmp_path / "s.jsonl", session()))]) as agent:
        assert [message["text"] for message in agent.get("get_fork_messages")["messages"]] == [
            *("said-01", "said-04", "said-06said-07", "said-10")
        ]
        assert agent.get("fork", entryId="x") == {"text": "said-04", "cancelled": False}
        assert [message["text"] for message in agent.get("get_fork_messages")["messages"]] == ["said-01"]
