"""tau.sync.open: the same agent for programs without a loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from pathlib import Path
from typing import Any

import pytest

import tau
from support.library_agent import calls, children, opened, says
from tau import events
from tau.sync import Agent


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_the_synchronous_agent_has_every_member_with_the_same_parameters() -> None:
    def public(kind: type[object]) -> dict[str, list[str]]:
        members = {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}
        return {
            name: [str(parameter).split(":")[0] for parameter in inspect.signature(member).parameters.values()]
            if callable(member)
            else []
            for name, member in members.items()
        }

    peer, here = public(tau.Agent), public(Agent)
    assert peer.keys() - here.keys() == {"events"}  # an asynchronous iterator; `stream` is the synchronous one
    assert here.keys() - peer.keys() == {"stream", "warnings"}  # `warnings` is an attribute of the instance there
    same = peer.keys() & here.keys() - {"on"}  # `on` is a decorator as well in the asynchronous agent
    assert {name: here[name] for name in same} == {name: peer[name] for name in same}
    assert Agent.steer.__doc__ == tau.Agent.steer.__doc__


def test_methods_wait(tmp_path: Path) -> None:
    with Agent(opened(tmp_path, calls("add", a=1, b=2), says("done"), tools=["bash", add])) as agent:
        result = agent.prompt("go")
        assert (result.text, len(result.messages), agent.state.message_count) == ("done", 4, 4)
        assert (agent.bash("echo hi").output, agent.tools, agent.stats().tool_calls) == ("hi\n", ["bash", "add"], 1)
        kinds = [events.type_of(event) for event in agent.stream("again")]
        assert (kinds[0], kinds[-1]) == ("agent_start", "agent_settled")
    with pytest.raises(tau.CommandError, match=r"The agent was closed\."):
        agent.prompt("more")


def test_it_is_opened_by_the_same_words(tmp_path: Path) -> None:
    script = [{"text": "hello"}]
    with tau.sync.open(tmp_path, agent_dir=tmp_path, session=False, script=script) as agent:
        assert agent.prompt("hi").text == "hello"
    with pytest.raises(tau.UsageError):
        tau.sync.open(tmp_path / "nowhere", script=script)


def test_it_works_beside_a_loop_that_runs_and_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> str:
        def work() -> str:
            with Agent(opened(tmp_path, calls("bash", command="echo hi"), says("done"))) as agent:
                return agent.prompt("go").text

        return await asyncio.to_thread(work)

    before = set(threading.enumerate())
    assert asyncio.run(main()) == "done"
    new = {thread.name for thread in set(threading.enumerate()) - before}
    assert ([name for name in new if name.startswith(("tau-", "wait for "))], children()) == ([], [])


def test_permission_may_ask_the_person_at_the_terminal(tmp_path: Path) -> None:
    asked = threading.Event()

    def permission(tool: str, input: dict[str, Any]) -> bool:
        asked.set()
        return threading.current_thread() is not threading.main_thread()

    with Agent(opened(tmp_path, calls("bash", command="echo hi"), says("done"), permission=permission)) as agent:
        ends = [event for event in agent.stream("go") if isinstance(event, events.ToolEnd)]
    assert asked.is_set() and not ends[0].is_error
