"""Real pi and tau take turns on the same session files.

TAU_PEERS names a folder with releases of pi (see support/pi_releases.py):

    TAU_PEERS=peers make test ARGS=tests/interop

They get a model on loopback, and folders of their own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.anthropic_server import ModelServer
from support.pi_releases import PEERS, RELEASES
from support.rpc_process import Agent, Json, text


def not_run() -> str | None:
    if not PEERS:
        return "TAU_PEERS is not set: sessions were NOT tried with real pi"
    return None if RELEASES else f"no node, or no release of pi in {PEERS}: sessions were NOT tried with real pi"


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest) -> None:
    if why := not_run():
        capture = request.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():  # said aloud, not only counted
            print(f"\n*** {why} ***", file=sys.stderr)
        pytest.skip(why)


@pytest.fixture(params=list(RELEASES) or ["none"])
def pi(request: pytest.FixtureRequest, installed: None) -> list[str]:
    """The command line of a release."""
    return [*RELEASES[request.param], "--mode", "rpc"]


def is_release(number: str, pi: Sequence[str]) -> bool:
    return any(number in word for word in pi)


class Desk:
    """One project on which pi and tau work in turn, with the same settings and the same model.

    pi 0.45.7 has no session names, and goes on in the old file after a fork.
    """

    def __init__(self, folder: Path, server: ModelServer, pi: Sequence[str], patch: pytest.MonkeyPatch) -> None:
        self.folder, self.server, self._pi, self._patch = folder, server, pi, patch
        self.is_0_45 = is_release("0.45.7", pi)
        self.is_0_87 = is_release("0.87.1", pi)

    def tau(self, *args: str) -> Agent:
        self._patch.delenv("TAU_RPC", raising=False)
        return self._start(args)

    def pi(self, *args: str) -> Agent:
        self._patch.setenv("TAU_RPC", " ".join(self._pi))
        return self._start(args)

    def _start(self, args: Sequence[str]) -> Agent:
        return Agent(self.folder, models=self.server.models, offline=False, args=args)


MODEL = ("--provider", "mock", "--model", "m1")


@pytest.fixture
def desk(tmp_path: Path, pi: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with ModelServer("Hello.", "$ echo from the tool", "Done.", "Four.", "Five.", "Six.") as server:
        yield Desk(tmp_path, server, pi, monkeypatch)


def say(agent: Agent, words: str) -> None:
    """To either: tau settles after agent_end, pi does not tell."""
    agent.get("prompt", message=words)
    agent.until("agent_end")


def known(agent: Agent) -> Json:
    """What both know of a session. Newer releases of pi keep the system prompt among the messages; tau does not."""
    state = agent.get("get_state")
    model = state["model"]
    return {
        "file": state["sessionFile"],
        "id": state["sessionId"],
        "name": state.get("sessionName"),
        "model": (model["provider"], model["id"]),
        "level": state["thinkingLevel"],
        "messages": [one for one in agent.get("get_messages")["messages"] if one["role"] != "system"],
    }


def entries(path: str) -> list[Json]:
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()]


def heard(request: Json) -> list[tuple[str, str]]:
    """What a model was told: who, and the text of it."""
    told = []
    for message in request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        told.append((message["role"], "".join(_words(block) for block in blocks)))
    return told


def _words(block: Json) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "tool_use":
            return f"<{block['name']} {block['input']['command']}>"
        case "tool_result":
            content = block["content"]
            return f"<{content if isinstance(content, str) else ''.join(part['text'] for part in content)}>"
    raise AssertionError(block)


TOLD = [
    ("user", "one"),
    ("assistant", "Hello."),
    ("user", "two"),
    ("assistant", "<bash echo from the tool>"),
    ("user", "<from the tool\n>"),
    ("assistant", "Done."),
    ("user", "four"),
]


@pytest.mark.parametrize("first, second", [("tau", "pi"), ("pi", "tau")])
def test_a_session_goes_from_one_to_the_other_and_back(desk: Desk, first: str, second: str) -> None:
    with getattr(desk, first)(*MODEL) as agent:
        say(agent, "one")
        say(agent, "two")
        if not desk.is_0_45:
            agent.get("set_session_name", name="shared")
        begun = known(agent)
        assert [text(message) for message in begun["messages"]] == [
            "one",
            "Hello.",
            "two",
            "",
            "from the tool\n",
            "Done.",
        ]
    lines = entries(begun["file"])
    with getattr(desk, second)("--continue") as agent:
        assert known(agent) == begun
        say(agent, "four")
        assert heard(desk.server.asked[-1]) == TOLD
        more = known(agent)
        assert more["messages"][:-2] == begun["messages"]
    assert entries(begun["file"])[: len(lines)] == lines
    with getattr(desk, first)("--session", begun["file"]) as agent:
        assert known(agent) == more
        say(agent, "five")
        assert heard(desk.server.asked[-1]) == [*TOLD, ("assistant", "Four."), ("user", "five")]
        assert not [event for event in agent.events if event["type"].startswith("session_")]


@pytest.mark.parametrize("first, second", [("tau", "pi"), ("pi", "tau")])
def test_a_fork_of_one_is_a_session_of_the_other(desk: Desk, first: str, second: str) -> None:
    with getattr(desk, first)(*MODEL) as agent:
        say(agent, "one")
        say(agent, "two")
        origin = known(agent)
        point = agent.get("get_fork_messages")["messages"][1]
        assert agent.get("fork", entryId=point["entryId"])["text"] == point["text"] == "two"
        say(agent, "other")
        fork = known(agent)
    if desk.is_0_45 and first == "pi":
        return fork_of_0_45(desk, origin, fork)
    assert entries(fork["file"])[0]["parentSession"] == origin["file"]
    with getattr(desk, second)("--session", fork["file"]) as agent:
        assert known(agent) == fork
        agent.get("switch_session", sessionPath=origin["file"])
        assert known(agent) == origin


def fork_of_0_45(desk: Desk, origin: Json, fork: Json) -> None:
    """The release copies the path into a new file, and then goes on in the old one, as a branch of it."""
    assert fork["file"] == origin["file"]
    (copy,) = (path for path in Path(origin["file"]).parent.glob("*.jsonl") if str(path) != origin["file"])
    with desk.tau("--session", origin["file"]) as agent:
        assert [text(message) for message in known(agent)["messages"]] == ["one", "Hello.", "other", "Four."]
        agent.get("switch_session", sessionPath=str(copy))
        assert [text(message) for message in known(agent)["messages"]] == ["one", "Hello."]
        (row,) = (one for one in agent.get("list_sessions")["sessions"] if one["path"] == str(copy))
        assert row["parentSessionPath"] == origin["file"]


def test_what_tau_writes_in_dialect_2026_01_is_understood_by_0_45_7(desk: Desk) -> None:
    if not desk.is_0_45:
        pytest.skip("the dialect of another release")
    with desk.tau("--dialect", "2026-01", *MODEL) as agent:
        say(agent, "one")
        say(agent, "two")
        origin = agent.get("get_state")["sessionFile"]
        point = agent.get("get_branch_messages")["messages"][1]
        assert agent.get("branch", entryId=point["entryId"])["text"] == "two"
        say(agent, "other")
        fork = known(agent)
    assert entries(fork["file"])[0]["parentSession"] == origin
    with desk.pi("--session", fork["file"]) as agent:
        assert known(agent) == fork
        say(agent, "more")
        assert [words for _, words in heard(desk.server.asked[-1])] == ["one", "Hello.", "other", "Four.", "more"]
        agent.get("switch_session", sessionPath=origin)
        assert [text(message) for message in known(agent)["messages"]][:2] == ["one", "Hello."]


def test_pi_reads_the_branches_labels_and_summaries_of_tau(desk: Desk) -> None:
    with desk.tau(*MODEL) as agent:
        say(agent, "one")
        first = agent.get("get_entries")["leafId"]
        say(agent, "two")
        agent.get("navigate", entryId=first, summarize=True, label="turned back")
        say(agent, "instead")
        agent.get("steer", message="waits")
        told = known(agent)
        assert [message["role"] for message in told["messages"]] == [
            *("user", "assistant", "branchSummary", "user", "assistant"),
        ]
    with desk.pi("--continue") as agent:
        assert known(agent) == told
        say(agent, "and on")
        spoken = heard(desk.server.asked[-1])
        assert [words for _, words in spoken][:2] == ["one", "Hello."]
        assert "Four." in spoken[2][1] and spoken[-1] == ("user", "and on")  # the summary, and the end
        more = known(agent)
    with desk.tau("--continue") as agent:
        assert known(agent) == more
        assert agent.get("get_state")["pendingMessageCount"] == 1
        assert '"label": "turned back"' in json.dumps(agent.get("get_tree"))


def compacted(desk: Desk, who: str) -> tuple[Json, Any]:
    settings = desk.folder / "agent" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"compaction": {"keepRecentTokens": 1}}))
    with getattr(desk, who)(*MODEL) as agent:
        say(agent, "one " * 200)
        say(agent, "two " * 200)
        result = agent.get("compact")
        return known(agent), result


@pytest.mark.parametrize("first, second", [("tau", "pi"), ("pi", "tau")])
def test_a_compaction_of_one_is_understood_by_the_other(desk: Desk, first: str, second: str) -> None:
    before, result = compacted(desk, first)
    assert before["messages"][0]["role"] == "compactionSummary"
    with getattr(desk, second)("--continue") as agent:
        assert known(agent) == before
        say(agent, "on")
        assert result["summary"] in heard(desk.server.asked[-1])[0][1]


def test_what_tau_writes_in_dialect_1_5_is_understood_by_0_87_1(desk: Desk) -> None:
    if not desk.is_0_87:
        pytest.skip("the dialect of another release")
    with desk.tau("--dialect", "1.5", *MODEL) as agent:
        say(agent, "one")
        say(agent, "two")
        begun = known(agent)
        assert [one["role"] for one in agent.get("get_messages")["messages"]][:2] == ["system", "user"]
    with desk.pi("--continue") as agent:
        assert known(agent) == begun
        say(agent, "four")
        assert [row for row in heard(desk.server.asked[-1]) if row[0] != "system"] == TOLD
        more = known(agent)
    with desk.tau("--dialect", "1.5", "--continue") as agent:
        assert known(agent) == more
        say(agent, "five")
        assert heard(desk.server.asked[-1])[-3:] == [TOLD[-1], ("assistant", "Four."), ("user", "five")]
