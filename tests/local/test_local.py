"""A real language model over RPC: `make test-local`. Nobody here wrote what it says.

Needs the two packages of `--model local`, which are large; without
TAU_TEST_LOCAL these tests are passed over.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.rpc_process import Agent, Json, is_gone
from tau.runtime.models import bundled

pytestmark = [
    pytest.mark.skipif(not os.environ.get("TAU_TEST_LOCAL"), reason="opt-in: make test-local"),
    pytest.mark.xdist_group("local"),
]


def test_the_packages_are_there() -> None:
    assert bundled.installed(), bundled.HOW_TO_INSTALL


def test_a_prompt_streams_its_answer_and_the_conversation_continues(tmp_path: Path) -> None:
    with Agent(tmp_path, offline=False, args=["--model", "local"]) as agent:
        told = agent.prompt("Say hello to me in one short sentence.")
        pieces = [piece for event in told if (piece := delta(event)) is not None]
        end = message(told)
        assert len(pieces) > 1
        assert "".join(pieces) == end["content"][0]["text"]
        assert (end["stopReason"], end["provider"], end["model"]) == ("stop", "tau", "local")
        assert end["usage"]["input"] > 0 and end["usage"]["output"] > 0

        more = message(agent.prompt("Thank you. And now say goodbye."))
        assert more["usage"]["input"] + more["usage"]["cacheRead"] > end["usage"]["input"]
        stats = agent.get("get_session_stats")
        assert (stats["cost"], "costUnknown" in stats) == (0, False)


def test_an_answer_can_be_aborted_and_asked_for_again(tmp_path: Path) -> None:
    with Agent(tmp_path, offline=False, args=["--model", "local"]) as agent:
        agent.ask("prompt", message="Count from one to one thousand.")
        agent.until(lambda event: delta(event) is not None)
        agent.ask("abort")
        assert message(agent.settled())["stopReason"] == "aborted"
        assert message(agent.prompt("Say hello."))["stopReason"] in ("stop", "length")


def test_its_server_ends_with_the_program(tmp_path: Path) -> None:
    with Agent(tmp_path, offline=False, args=["--model", "local"]) as agent:
        agent.prompt("Say hello.")
        (server,) = children(agent.pid)
        agent.process.kill()
        agent.exit_code()
        assert is_gone(server, within=10)


def delta(event: Json) -> str | None:
    update = event.get("assistantMessageEvent", {})
    return update["delta"] if update.get("type") == "text_delta" else None


def message(events: list[Json]) -> Json:
    return next(event["message"] for event in reversed(events) if event["type"] == "message_end")


def children(pid: int) -> list[int]:
    return [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]
