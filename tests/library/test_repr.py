"""What a debugger shows is one short line, without secrets and without fields that are not set."""

from __future__ import annotations

from pathlib import Path

import pytest

import tau
from support.library_agent import calls, opened, play, says
from tau import events, sync
from tau.records.base import Record
from tau.records.display import MAX_LENGTH

SECRET = "sk-secret"


def test_an_agent_its_run_and_its_result(tmp_path: Path) -> None:
    async def story() -> list[str]:
        opening = opened(tmp_path, says("Hel", "lo"), api_key=SECRET, model="scripted", keys={"openai": SECRET})
        shown = [repr(opening)]
        async with opening as agent:
            run = agent.prompt("Hi")
            shown += [repr(agent), repr(run)]
            shown.append(repr(await run))
            shown.append(repr(run))
        return [*shown, repr(agent)]

    opening, agent, fresh, result, done, closed = play(story())
    assert opening.startswith("tau.open(cwd=") and "model='scripted'" in opening and "session=False" in opening
    assert agent.startswith("<tau.Agent scripted/scripted session=") and agent.endswith(" idle>")
    assert closed.endswith(" closed>")
    assert (fresh, done) == ("<Run 'Hi' not started>", "<Run 'Hi' done>")
    assert result == "Result(text='Hello', stop_reason='stop', messages=2, tokens=15, cost=0)"
    assert not any(SECRET in text or "\n" in text for text in (opening, agent, result))


def test_a_long_result_is_cut(tmp_path: Path) -> None:
    async def story() -> str:
        async with opened(tmp_path, says("line\n" * 1000), budget=tau.Budget(max_turns=1)) as agent:
            return repr(await agent.prompt("x" * 1000))

    shown = play(story())
    assert len(shown) < 200 and "\n" not in shown


def test_every_event_of_a_run_is_one_short_line(tmp_path: Path) -> None:
    async def story() -> list[str]:
        async with opened(tmp_path, calls("bash", command="seq 1000"), says("done\n" * 100)) as agent:
            return [repr(event) async for event in agent.prompt("go")]

    shown = play(story())
    assert len(shown) > 10
    assert all(len(text) <= MAX_LENGTH and "\n" not in text and "UNSET" not in text for text in shown)


def test_an_event_shows_its_fields() -> None:
    shown = repr(events.ToolStart("1", "bash", {"command": "ls"}))
    assert shown == "ToolStart(tool_call_id='1', tool_name='bash', args={'command': 'ls'})"


@pytest.mark.parametrize("size", [0, 3, 4, 5, 50])
def test_long_lists_are_cut(size: int) -> None:
    shown = repr(events.AgentEnd([events.User("x", 1)] * size))
    assert shown.count("User(") == min(size, 4)
    assert ("more]" in shown) == (size > 4)


def test_headers_of_a_model_are_hidden() -> None:
    class Request(Record):
        url: str
        headers: dict[str, str]

    assert repr(Request("http://localhost", {"x-api-key": SECRET})) == "Request(url='http://localhost', headers=…)"


def test_the_synchronous_agent_looks_the_same(tmp_path: Path) -> None:
    with sync.open(tmp_path, agent_dir=tmp_path, session=False, script=[{"text": "ok"}]) as agent:
        assert repr(agent).startswith("<tau.sync.Agent scripted/scripted session=")
